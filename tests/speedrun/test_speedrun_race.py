"""Several seeds of one config, and the time that each rung of a ladder takes to one loss."""

import json
import math

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from rooflab.cli import main  # noqa: E402
from rooflab.speedrun import race  # noqa: E402
from rooflab.speedrun.rungs import RUNGS  # noqa: E402
from rooflab.speedrun.seeds import Arrival, arrival, begin_again, other_seeds  # noqa: E402
from rooflab.speedrun.train import Trainer  # noqa: E402

from . import toys  # noqa: E402

CONFIG = toys.config(steps=6, eval_every=2)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_another_seed_is_as_a_run_of_its_own(optimizer):
    config, text = CONFIG.change(optimizer=optimizer), toys.corpus()
    trainer = Trainer(config, text)
    trainer.run()
    begin_again(trainer, 3, 0.0)
    again = trainer.run()
    alone = Trainer(config.change(seed=3), text)
    result = alone.run()
    assert trainer.watch.losses == alone.watch.losses
    assert again.bits_per_byte == result.bits_per_byte
    assert again.steps == 6


def test_other_seeds_stop_at_the_target_and_say_when():
    trainer = Trainer(CONFIG, toys.corpus())
    trainer.run()
    assert [one.step for one in other_seeds(trainer, [1, 2], target=100.0)] == [2, 2], "the first evaluation"
    assert other_seeds(trainer, [1], target=1e-6) == [Arrival(0, math.inf)]


def test_a_run_that_never_came_to_the_target_has_no_time():
    lines = [{"step": 1, "loss": 2.0}, {"step": 2, "bits_per_byte": 3.0, "time_s": 1.0}]
    assert arrival(lines, 2.9) == Arrival(0, math.inf)
    assert arrival(lines, 3.0) == Arrival(2, 1.0)


def test_a_family_has_the_losses_of_its_first_rung():
    families = {}
    for rung in RUNGS:
        families.setdefault(race.family(rung.name), []).append(rung.name)
    assert families["baseline"] == [
        "baseline", "tf32", "bf16", "padded-vocabulary", "fused-attention", "compile", "fused-loss", "fused-optimizer",
        "loader",
    ]  # fmt: skip
    assert families["batch"] == ["batch", "graph"]
    assert families["rms-norm"] == ["rms-norm", "rotary-kernel"]
    # What changes a model, its data or the width of its heads stands for itself.
    assert all(families[name] == [name] for name in ("muon", "window", "fp8", "wide-heads", "small-model"))
    with pytest.raises(ValueError, match="found 'mun'"):
        race.family("mun")


def test_a_race_is_judged_often_unless_somebody_says_how_often():
    config = toys.preset("gpt2-small").change(steps=200)
    assert race.judged_often(config).eval_every == 4
    assert race.judged_often(config).eval_tokens < config.eval_tokens
    assert race.judged_often(config.change(eval_every=7)).eval_every == 7


def test_cells_tell_the_mean_and_what_chance_has_to_do_with_it():
    fast = {"arrivals": [[4, 1.0], [4, 1.1], [5, 1.2], [4, 1.05], [5, 1.15]], "missed": 0}
    slow = [2.0, 2.1, 2.2, 2.05, 2.15]
    cells, times = race.raced_cells(fast, slow)
    assert cells == ["1.1 s ± 79 ms", "0.008"]
    assert times == [1.0, 1.1, 1.2, 1.05, 1.15]
    assert race.raced_cells(fast | {"steps_of": "loader"}, [])[0] == ["= 1.1 s ± 79 ms", "–"]
    assert race.raced_cells(fast | {"missed": 1}, slow) == (["not reached", "–"], [])
    assert race.raced_cells({}, slow) == (["–", "–"], [])


def test_the_ladder_tells_the_time_to_a_target(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [f"--set={name}={value}" for name, value in
               {"layers": 1, "width": 16, "heads": 2, "length": 16, "batch": 2, "eval_tokens": 64}.items()]  # fmt: skip
    asked = ["speedrun", "ladder", "--only", "baseline,fused-attention,rotary", "--data", "stdlib", "--device", "cpu"]
    code = main([*asked, *options, "--tokens", "256", "--target", "100", "--seeds", "2", "--out", "here"])
    out = capsys.readouterr().out
    assert code == 0
    assert "to the target" in out
    (record,) = tmp_path.glob("here/*/speedrun_ladder.json")
    values = json.loads(record.read_text())["values"]
    assert (values["target"], values["seeds"]) == (100.0, 2)
    rungs = values["rungs"]
    assert rungs["baseline"]["steps_of"] == "fused-attention"
    steps, seconds = zip(*rungs["baseline"]["arrivals"], strict=True)
    assert list(steps) == [step for step, _ in rungs["fused-attention"]["arrivals"]]
    assert seconds == tuple(step * rungs["baseline"]["step_s"] for step in steps)
    assert len(rungs["rotary"]["arrivals"]) == 2
    assert rungs["rotary"]["missed"] == 0
    assert "steps_of" not in rungs["rotary"]


def test_seeds_without_a_target_are_refused(capsys):
    assert main(["speedrun", "ladder", "--seeds", "3", "--device", "cpu"]) == 1
    assert "expected --target with --seeds" in capsys.readouterr().err
