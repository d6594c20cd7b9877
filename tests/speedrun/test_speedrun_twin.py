"""The twin in JAX computes what torch's model and optimizers do, step by step, and leaves the same kind of folder."""

import json
import math
import re

import numpy as np
import pytest

from rooflab import cli
from rooflab.device import Device, find_device
from rooflab.roofline import Ceilings
from rooflab.speedrun import commands, ladder
from rooflab.speedrun.config import ConfigError
from rooflab.speedrun.finished import read_runs
from rooflab.speedrun.folder import RunFolder
from rooflab.speedrun.ranks import Ranks
from rooflab.speedrun.rungs import RUNGS, Selection
from rooflab.speedrun.session import run_once

from . import toys

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

from rooflab.speedrun import twin  # noqa: E402
from rooflab.speedrun.twin import scope, updates  # noqa: E402
from rooflab.speedrun.twin.train import Twin  # noqa: E402


def losses(train, config, **more):
    """Losses and gradient norms of all steps, and the validation losses."""
    lines = []
    train(config, toys.corpus(), device=find_device(), say=lines.append, **more)
    return (
        np.array([loss for line in lines for loss in line.get("losses", ())]),
        np.array([line["gradient_norm"] for line in lines if "gradient_norm" in line]),
        np.array([line["bits_per_byte"] for line in lines if "bits_per_byte" in line]),
    )


@pytest.mark.parametrize("changes", [
    {},
    {"compile": "model", "attention": "fused", "padded_vocabulary": True, "schedule": "trapezoid", "clip": 0.1,
     "loader": "ahead"},
    {"compile": "model", "optimizer": "muon", "batch_factor": 2, "lr_factor": 2.0, "clip": 0.0,
     "table_factor": 3.0},
], ids=["baseline", "compiled", "muon"])  # fmt: skip
def test_losses_are_torchs(changes):
    config = toys.config(steps=6, log_every=1, eval_every=3, **changes)
    ours, norms, bits = losses(twin.run_twin, config)
    wanted, wanted_norms, wanted_bits = losses(run_once, config.change(compile="no"))
    assert len(ours) == 6
    assert len(bits) == 2
    # fp32 sums in another order: 1e-6 of a value near 4, which six updates may make ten times as much. On a GPU sums
    # have no fixed order, and Muon iterates in bf16.
    near = 1e-5 if not find_device().is_accelerator else 1e-2 if config.optimizer == "muon" else 1e-4
    np.testing.assert_allclose(ours[0], wanted[0], rtol=near / 10)
    np.testing.assert_allclose(ours, wanted, rtol=near)
    np.testing.assert_allclose(norms, wanted_norms, rtol=100 * near)
    np.testing.assert_allclose(bits, wanted_bits, rtol=near)


def test_losses_differ_where_a_number_of_the_optimizer_does():
    config = toys.config(layers=1, steps=6, log_every=1, compile="model")
    ours, wanted = (losses(train, config.change(**one))[0]
                    for train, one in ((twin.run_twin, {"beta2": 0.99}), (run_once, {"compile": "no"})))  # fmt: skip
    assert not np.allclose(ours, wanted, rtol=1e-4)


def test_bf16_stays_near():
    config = toys.config(layers=1, steps=4, log_every=1, precision="bf16", compile="model", attention="fused")
    ours, _, _ = losses(twin.run_twin, config)
    wanted, _, _ = losses(run_once, config.change(precision="fp32", compile="no"))
    assert ours == pytest.approx(wanted, abs=0.03)
    assert (ours != wanted).any()


def test_updates_are_orthogonal():
    stack = np.random.default_rng(0).normal(size=(2, 12, 8)).astype(np.float32)
    values = np.linalg.svd(np.asarray(updates.orthogonal(stack)), compute_uv=False)
    assert 0.6 < values.min() < values.max() < 1.3


def test_it_leaves_a_folder_that_can_be_compared(tmp_path):
    config = toys.config(layers=1, steps=4, eval_every=2, compile="model", target=9.0)
    result = twin.run_twin(config, toys.corpus(), folder=tmp_path)
    assert result.reached
    (run,) = read_runs(tmp_path)
    assert run.framework == "jax"
    assert run.outcome["steps"] == 2
    assert run.reached(9.0)[1] == 2
    assert json.loads((tmp_path / "config.json").read_text())["compile"] == "model"


def test_another_process_is_kept_out_of_its_folder(tmp_path):
    config = toys.config(layers=1, steps=4, compile="model")
    with RunFolder(tmp_path).alone(), pytest.raises(ConfigError, match="Another process runs in"):
        twin.run_twin(config, toys.corpus(), folder=tmp_path)


def test_rungs_that_it_lacks_are_named():
    assert set(scope.RUNGS_OF_TWIN) >= {"bf16", "compile", "fused-attention", "muon"}
    config = toys.config(rungs=tuple(rung.name for rung in RUNGS if rung.change))
    named = twin.reasons(config)
    assert set(named) | set(scope.RUNGS_OF_TWIN) == set(config.rungs)
    assert not set(named) & set(scope.RUNGS_OF_TWIN)
    assert all(why.startswith("the twin in JAX ") for why in named.values())
    kept = twin.narrowed(Selection(config), toys.config()).config
    assert kept.rungs == scope.RUNGS_OF_TWIN
    scope.refuse(kept)


def test_what_it_cannot_do_is_refused(tmp_path):
    text, here = toys.corpus(), find_device()
    blind = Device("cuda", "a card", torch="cuda", jax="cpu")
    for config, more, said in (
        (toys.config(position="rotary"), {}, "expected position = learned for the twin in JAX; found rotary"),
        (toys.config(accumulation=2), {}, "expected accumulation = 1"),
        (toys.config(), {"ranks": Ranks(0, 2, 0)}, "without torchrun"),
        (toys.config(), {"resume": True}, "keeps no checkpoints"),
        (toys.config(), {"device": blind}, "JAX does not see a card"),
    ):
        with pytest.raises(ConfigError, match=said):
            twin.run_twin(config, text, folder=tmp_path, **({"device": here} | more))
    assert not list(tmp_path.iterdir())


CEILINGS = Ceilings(2e10, {"fp32": 1e11, "bf16": 1e12}, launch_s=1e-6, measured=True)
SMALL = ["--set", "layers=1", "--set", "width=16", "--set", "length=16", "--set", "eval_tokens=256", "--device", "cpu"]


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    here = commands.Here(find_device(), toys.corpus(), CEILINGS, Ranks())
    monkeypatch.setattr(commands, "here", lambda *_, **__: here)

    def run(*options):
        code = cli.main(["speedrun", *options])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run


def test_the_command_names_what_is_left_out(command, tmp_path):
    code, out, _ = command("--framework", "jax", "--only", "compile,rotary", "--steps", "4", *SMALL, "--out", "one")
    assert code == 0
    assert "The rung rotary is left out: the twin in JAX has no position = rotary." in out
    assert "of the measured ceiling | MFU" in out
    (run,) = read_runs(tmp_path / "one")
    assert run.framework == "jax"
    assert run.rungs == ("compile",)
    assert run.outcome["mfu_hfu"][0] > 0
    assert (tmp_path / "one" / "figure.svg").is_file()
    code, _, err = command("--framework", "jax", "--minutes", "1", *SMALL)
    assert code == 1
    assert "expected --steps with --framework jax" in err


def test_a_ladder_of_its_own(command):
    _, out, _ = command("ladder", "--framework", "jax", "--only", "compile,softcap", "--tokens", "1024", *SMALL)
    row = re.search(r"^compile in JAX .*$", out, re.MULTILINE)[0].split("|")
    assert float(row[7].replace(",", "")) > 0  # counted FLOPs
    assert "softcap in JAX: left out, the twin in JAX has no softcap." in out


def test_torchs_ladder_has_a_line_for_it(command, monkeypatch):
    seen = []

    def measured(config, place, framework, race):
        seen.append((framework, config))
        return {"skipped": "it is a test"}

    monkeypatch.setattr(ladder, "measured_rung", measured)
    command("ladder", "--only", "baseline,muon", *SMALL)
    assert [framework for framework, _ in seen] == ["torch", "torch", "jax"]
    assert seen[1][1].qk_norm
    assert (seen[2][1].optimizer, seen[2][1].qk_norm, seen[2][1].width) == ("muon", False, 16)
    seen.clear()
    command("ladder", "--only", "baseline", *SMALL)
    assert len(seen) == 1


def test_a_loss_that_is_no_number_stops_it():
    one = Twin(toys.config(layers=1, steps=4, log_every=2), toys.corpus(), find_device(), lambda _: None)
    one.params["table"] = one.params["table"].at[0, 0].set(math.nan)
    with pytest.raises(twin.train.Stopped, match=r"Step 1, rungs baseline in JAX: the loss or the gradient is not"):
        one.run()
