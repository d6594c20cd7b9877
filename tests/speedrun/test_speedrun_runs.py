"""Whole runs at a toy shape: every rung, resuming after kill -9, several ranks, what stops a run."""

import dataclasses
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rooflab.device import Device, find_device
from rooflab.files import explain
from rooflab.shortage import OutOfMemory
from rooflab.speedrun import checkpoint, session
from rooflab.speedrun.checkpoint import CheckpointError
from rooflab.speedrun.config import ConfigError, preset
from rooflab.speedrun.folder import RunFolder
from rooflab.speedrun.model import GPT, compiled_as
from rooflab.speedrun.rungs import RUNGS, missing, select
from rooflab.speedrun.settings import quiet
from rooflab.speedrun.train import Trainer
from rooflab.speedrun.watch import Stopped, grown

from . import toys

torch = pytest.importorskip("torch")
DATA = toys.corpus()
ROOT = Path(__file__).resolve().parents[2]
ABLE = Device("cuda", "a chip that can do all", torch="cuda", capability=(9, 0))
CPU = Device("cpu", "a processor", torch="cpu")


def trained(config, data=DATA, **more):
    lines = []
    result = Trainer(config, data, device=CPU, say=lines.append, **more).run()
    return result, [loss for line in lines for loss in line.get("losses", [])], lines


def on_cpu(config):
    """What a processor runs of a selection for a GPU: compiling is tested below, what kernels compute with the model.

    Interpreted, a step with one of them takes seconds. The toy's tokens are not merged from others, so none are cut.
    """
    loss = "chunks" if config.loss == "kernel" else config.loss
    return config.change(compile="no", graph=False, mlp="plain", rotation="plain", loss=loss, cut_vocabulary=0)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_each_rung_alone_trains(rung):
    config = on_cpu(select(toys.config(), rung=rung.name, device=ABLE).config)
    _, losses, _ = trained(config)
    assert len(losses) == 30
    assert sum(losses[-5:]) / 5 < losses[0] - 0.1


# The toy is smaller than the small model.
@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung.name != "small-model"], ids=lambda rung: rung.name)
def test_each_rung_on_top_of_the_others_trains(rung):
    config = on_cpu(select(toys.config(), up_to=rung.name, device=ABLE).config)
    assert config.rungs == tuple(each.name for each in RUNGS[1 : RUNGS.index(rung) + 1])
    _, losses, _ = trained(config)
    assert sum(losses[-5:]) / 5 < losses[0] - 0.1


def test_the_ladder_learns_more_than_the_baseline():
    last = on_cpu(select(toys.config(steps=60), up_to="schedule", without=["batch"], device=ABLE).config)
    assert trained(last)[0].bits_per_byte < trained(toys.config(steps=60))[0].bits_per_byte


def test_fp8_learns_as_bf16_does():
    base = toys.config(steps=60, norm="rms", position="rotary", activation="squared relu", loss="chunks",
                       padded_vocabulary=True, optimizer="muon", zero_init=True, tied=False)  # fmt: skip
    wide, narrow = (trained(base.change(precision=fmt))[1] for fmt in ("bf16", "fp8"))
    assert wide[-1] < wide[0] - 1
    # One step's losses differ by chance: the means of ten by 0.1 % (the standard deviation over twelve seeds; 0.27 % at
    # most), and some of them by 1.4 % or more where the codes have two bits.
    for start in range(0, 60, 10):
        assert sum(narrow[start : start + 10]) == pytest.approx(sum(wide[start : start + 10]), rel=0.005)


@pytest.mark.parametrize("form", ["blocks", "model"])
def test_a_compiled_step_computes_the_same(form):
    config = toys.config(steps=4, norm="rms", position="rotary", loss="chunks", value_skip=True, clip=1.0)
    plain = trained(config)[1]
    session.free()
    assert trained(config.change(compile=form))[1] == pytest.approx(plain, rel=1e-4)
    session.free()


@pytest.mark.parametrize(("switches", "kinds"), [({}, 1), ({"value_skip": True}, 3)])
def test_blocks_of_a_kind_are_compiled_once(switches, kinds):
    """With skips the first block, those before the middle and those behind it are three kinds."""
    tokens = torch.zeros(1, 16, dtype=torch.int64)
    for layers in (4, 6):
        session.free()
        counted = torch._dynamo.utils.counters["stats"]
        counted.clear()
        with quiet():
            compiled_as(GPT(toys.config(layers=layers, **switches)), "blocks")(tokens, tokens)
        assert counted["unique_graphs"] == kinds + 3  # what is before the blocks, the last norm, the loss
    session.free()


def test_a_rung_that_computes_another_one_otherwise_is_left_out_without_it():
    for name, of in (("rotary-kernel", "rotary"), ("mlp-kernel", "squared-relu")):
        alone = select(toys.config(), rung=name, device=ABLE)
        assert alone.skipped == {name: f"there is nothing for it to do without {of}"}
        assert alone.config == toys.config()
        both = select(toys.config(), only=[name, of], device=ABLE)
        assert (both.config.rungs, both.skipped) == ((of, name), {})
        on_top = select(both.config.change(mlp="plain", rotation="plain"), rung=name, device=ABLE)
        assert not on_top.skipped


def test_what_a_device_cannot_do_is_named():
    skipped = select(toys.config(), up_to="fp8", device=CPU).skipped
    assert {"tf32", "bf16", "graph", "fp8"} <= set(skipped)
    assert skipped["fp8"] == "a processor multiplies in no fp8"
    assert "graph" not in select(toys.config(), up_to="fp8", device=CPU).config.rungs
    assert not [rung.name for rung in RUNGS if missing(rung, ABLE)]


def test_what_a_text_cannot_be_cut_to_is_named():
    def why(**changes):
        text = dataclasses.replace(toys.corpus(), **changes)
        return select(toys.config(), rung="small-vocabulary", device=ABLE, text=text).skipped

    assert why(name="stdlib", vocabulary=257) == {
        "small-vocabulary": "stdlib has no byte pairs to cut, its tokens are bytes"
    }
    assert "comes without the merges" in why(name="fineweb", vocabulary=50_257)["small-vocabulary"]
    assert why(name="code", vocabulary=50_257) == {}


def test_a_small_model_is_for_those_that_are_larger():
    name = "small-model"
    chosen = select(preset("gpt2-small"), rung=name, device=ABLE)
    assert (chosen.config.layers, chosen.config.width, chosen.skipped) == (6, 384, {})
    assert select(toys.config(), rung=name, device=ABLE).skipped == {name: "a model of width 32 is small already"}
    few = {"length": 8, "batch": 2, "batch_factor": 1, "eval_tokens": 64, "steps": 3, "log_every": 1}
    _, losses, _ = trained(on_cpu(chosen.config.change(**few)))
    assert losses[-1] < losses[0]


def test_rungs_are_chosen_by_name():
    def chosen(**how):
        return select(toys.config(), device=ABLE, **how).config.rungs

    assert chosen(rung="muon") == ("muon",)
    assert chosen(only=["muon", "bf16"]) == ("bf16", "muon")
    assert chosen(up_to="bf16") == ("tf32", "bf16")
    assert chosen(up_to="bf16", without=["tf32"]) == ("bf16",)
    assert len(chosen(without=["muon"])) == len(RUNGS) - 3, "the baseline is none, and a toy is small already"
    assert chosen(rung="baseline") == ()
    with pytest.raises(ConfigError, match="expected a rung; found 'warp': they are baseline, tf32"):
        chosen(rung="warp")
    with pytest.raises(ConfigError, match="expected a switch of a run; found 'lenght': did you mean length"):
        toys.config(lenght=3)
    with pytest.raises(ConfigError, match="found more than one"):
        chosen(rung="muon", up_to="bf16")


def test_accumulation_is_a_larger_batch():
    once = trained(toys.config(batch=8, steps=6))[1]
    twice = trained(toys.config(batch=4, accumulation=2, steps=6))[1]
    assert once == pytest.approx(twice, rel=1e-4)


def test_a_run_stops_at_its_target():
    result, losses, lines = trained(toys.config(steps=60, eval_every=5, target=5.0))
    assert result.reached
    assert result.steps < 60
    assert result.steps % 5 == 0
    assert lines[-1]["bits_per_byte"] <= 5.0
    assert len(losses) == result.steps


def test_validation_does_not_count_as_training_time(monkeypatch):
    slow = Trainer(toys.config(steps=6, eval_every=1), DATA, device=CPU)
    judged = slow.evaluate
    monkeypatch.setattr(slow, "evaluate", lambda *a: (time.sleep(0.1), judged(*a))[1])
    before = time.perf_counter()
    result = slow.run()
    assert time.perf_counter() - before > result.train_s + 0.6


# --- going on after a crash

KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.speedrun import toys
from rooflab.device import Device
from rooflab.speedrun import session
def say(line):
    if "loss" in line and line["step"] == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
config = toys.config(**{changes!r})
session.run_once(config, toys.corpus(), device=Device("cpu", "a processor", torch="cpu"), folder=Path({folder!r}),
                 save_every=7, say=say)
"""


@pytest.mark.parametrize(
    ("changes", "at"),
    [({"eval_every": 6, "log_every": 1}, 20), ({"optimizer": "muon", "value_skip": True, "log_every": 1}, 5),
     ({"optimizer": "muon", "attention": "window", "loader": "ahead", "log_every": 4, "loss": "chunks"}, 24)],
)  # fmt: skip
def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path, changes, at):
    whole, _, lines = trained(toys.config(**changes))
    code = KILLED.format(root=str(ROOT), at=at, changes=changes, folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT / "shared")},
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (tmp_path / "checkpoint.pt").exists() == (at > 7)
    result = session.run_once(toys.config(**changes), DATA, device=CPU, folder=tmp_path, resume=True, save_every=7)
    assert result.bits_per_byte == whole.bits_per_byte
    kept = RunFolder(tmp_path).lines()
    for key in ("loss", "bits_per_byte", "gradient_norm", "losses"):
        ours = {line["step"]: line[key] for line in kept if key in line}
        wanted = {line["step"]: line[key] for line in lines if key in line}
        if key == "losses":  # an evaluation, or the end of the old process, may have cut a line short
            ours, wanted = ([loss for each in found.values() for loss in each] for found in (ours, wanted))
        assert ours == wanted
    assert RunFolder(tmp_path).ended()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json", "log.jsonl", "summary.json", "version.json",
    ]  # fmt: skip


def saved(folder, **changes):
    trainer = Trainer(toys.config(**changes), DATA, device=CPU, folder=folder, save_every=10)
    trainer.run()
    return trainer


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    saved(tmp_path)
    with pytest.raises(CheckpointError, match=r"made with lr = 0.01; found 0.02"):
        Trainer(toys.config(lr=2e-2), DATA, device=CPU, folder=tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="made with the text's digest ="):
        Trainer(toys.config(), toys.corpus(seed=1), device=CPU, folder=tmp_path, resume=True)
    kept = checkpoint.load(tmp_path)
    with pytest.raises(CheckpointError, match="made with ranks = 1; found 2"):
        checkpoint.check(kept, toys.config(), DATA.digest, 2)
    with pytest.raises(CheckpointError, match="another version"):
        checkpoint.check(kept | {"config": {"speed": 3}}, toys.config(), DATA.digest, 1)


def test_a_damaged_checkpoint_and_none_are_told(tmp_path):
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        checkpoint.load(tmp_path)
    saved(tmp_path)
    path = tmp_path / checkpoint.NAME
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.load(tmp_path)


def test_a_byte_that_is_another_one_is_found(tmp_path):
    """In a number it would be trained on with; where nothing is kept it is none of the run's."""
    saved(tmp_path)
    path, draw = tmp_path / checkpoint.NAME, random.Random(0)
    whole, kept = path.read_bytes(), checkpoint.load(tmp_path)
    places = [draw.randrange(len(whole)) for _ in range(60)]
    first = whole.index(kept["params"].numpy().tobytes()[:64])
    refused = 0
    for place in (first, *places):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << draw.randrange(8)]) + whole[place + 1 :])
        try:
            found = checkpoint.load(tmp_path)
        except CheckpointError:
            refused += 1
            continue
        assert place != first
        assert all(same(found[name], kept[name]) for name in kept)
    assert refused > 30


def same(one, other):
    """Whether values of a checkpoint are the same, number by number."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda kept: [kept], "lacks config"),
        (lambda kept: {name: kept[name] for name in kept if name != "params"}, "lacks params"),
        (lambda kept: kept | {"watch": {}}, "lacks losses, norms, pending"),
        (lambda kept: kept | {"step": 10**9}, "step 1000000000 of 30"),
        (lambda kept: kept | {"step": "7"}, "step 7 of 30"),
        (lambda kept: kept | {"params": kept["params"][:10]}, "not those of this model"),
        (lambda kept: kept | {"states": kept["states"][:-1]}, "not those of this model"),
    ],
)
def test_a_checkpoint_that_holds_something_else_is_refused(tmp_path, change, why):
    """A step behind the end would otherwise pass for a run that has ended."""
    saved(tmp_path)
    torch.save(change(checkpoint.load(tmp_path)), tmp_path / checkpoint.NAME)
    with pytest.raises(CheckpointError, match=f"damaged .*{why}.*remove checkpoint.pt"):
        Trainer(toys.config(), DATA, device=CPU, folder=tmp_path, resume=True).run()


def test_a_folder_that_lost_a_file_is_refused_in_a_sentence(tmp_path):
    run = RunFolder(tmp_path)
    for text in ("{}", "[]", "{"):
        (tmp_path / "version.json").write_text(text)
        with pytest.raises(ConfigError, match="does not name the run's data"):
            run.data_name()
    with pytest.raises(ConfigError, match=r"log of the run in .* is missing"):
        run.rewind(3)
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n[1]\n{"loss": 2}\n"x"\n{"step": 9}\n{"st')
    run.rewind(3)
    assert run.lines() == [{"step": 1}]


def stopped_at_14(folder):
    """A run with a log point every 4 steps and an evaluation every 6, whose checkpoint is of step 14; its log."""

    def stop(line):
        if line["step"] == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.run_once(
            toys.config(log_every=4, eval_every=6), DATA, device=CPU, folder=folder, save_every=14, say=stop
        )
    return (folder / "log.jsonl").read_text()


@pytest.mark.parametrize(
    ("harm", "lost"),
    [
        (lambda log: "", "the losses of steps 1 to 12"),
        (lambda log: log[: log.index('"step": 8') + 20], "the losses of steps 7 to 12"),
        (lambda log: log[log.index("\n") + 1 :], "the losses of steps 1 to 4"),
        (lambda log: log[:300] + "\udcff" + log[301:], "the losses of steps"),
        (lambda log: "".join(line for line in log.splitlines(keepends=True) if '"step": 8' not in line),
         "the losses of steps 7 to 8"),
        (lambda log: "".join(line for line in log.splitlines(keepends=True) if "valid_loss" not in line),
         "the validation loss after step 6"),
        (lambda log: log.replace('"losses": [', '"losses": 1, "x": ['), "the losses of steps 1 to 12"),
    ],
    ids=["empty", "cut short", "without its beginning", "no text", "a line lost", "evaluations lost", "no losses"],
)  # fmt: skip
def test_a_log_that_lost_lines_is_not_gone_on_with(tmp_path, harm, lost):
    log = harm(stopped_at_14(tmp_path))
    (tmp_path / "log.jsonl").write_bytes(log.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=rf"log.jsonl is damaged: it lacks {lost}.*begin it again with another --out"):
        session.run_once(toys.config(log_every=4, eval_every=6), DATA, device=CPU, folder=tmp_path, resume=True)
    assert (tmp_path / "log.jsonl").read_bytes() == log.encode(errors="surrogateescape")
    assert not RunFolder(tmp_path).ended()


def test_the_log_is_on_the_disk_before_the_checkpoint_that_stands_on_it(tmp_path, monkeypatch):
    """Else a loss of power could keep the checkpoint and take lines of the log before it."""
    stopped_at_14(tmp_path)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    checkpoint.save(tmp_path, {"step": 1})
    assert synced[0] == (tmp_path / "log.jsonl").stat().st_ino
    assert (tmp_path / checkpoint.NAME).stat().st_ino in synced[1:]


def test_a_checkpoint_is_whole_or_the_old_one(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, {"step": 1})

    def broken(values, file):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(tmp_path, {"step": 2})
    assert checkpoint.load(tmp_path) == {"step": 1}
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.NAME]


def test_a_disk_that_is_full_is_told_as_such(tmp_path, monkeypatch):
    """What writes torch's archives meets the system's error, and raises one of its own about places in the file."""
    checkpoint.save(tmp_path, {"step": 1})
    monkeypatch.setattr(os, "fdopen", toys.full)
    with pytest.raises(OSError, match="No space left") as caught:
        checkpoint.save(tmp_path, {"step": 2, "params": [torch.zeros(50_000)]})
    assert explain(caught.value) == "The disk is full: free some space and try again."
    assert checkpoint.load(tmp_path) == {"step": 1}
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.NAME]


def test_what_a_killed_process_left_of_a_checkpoint_is_removed_at_the_end(tmp_path):
    (tmp_path / ".checkpoint.pt.abc").write_bytes(b"half")
    checkpoint.save(tmp_path, {"step": 1})
    checkpoint.remove(tmp_path)
    assert not list(tmp_path.iterdir())


# --- several ranks

RANKED = """
import json, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.speedrun import toys
from rooflab.device import Device
from rooflab.speedrun.ranks import joined, leave
from rooflab.speedrun.train import Trainer
with joined("gloo") as ranks:
    found = {{}}
    for name, changes in {runs!r}.items():
        lines = []
        trainer = Trainer(toys.config(**changes), toys.corpus(), device=Device("cpu", "a processor", torch="cpu"),
                          ranks=ranks, say=lines.append)
        result = trainer.run()
        found[name] = dict(losses=[l for line in lines for l in line.get("losses", [])], bits=result.bits_per_byte,
                           tokens=result.tokens, total=float(trainer.buffers.params.double().sum()))
    Path({folder!r}, f"{{ranks.rank}}.json").write_text(json.dumps(found))
leave(0)
"""


def torchrun(script, *options):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "shared"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    return subprocess.run([*command, *options], env=environment, capture_output=True, text=True, timeout=300)


def test_two_ranks_train_as_one_with_twice_the_batch(tmp_path):
    runs = {"adamw": {"batch": 4, "steps": 10}, "muon": {"batch": 4, "steps": 10, "optimizer": "muon", "layers": 3}}
    script = tmp_path / "ranked.py"
    script.write_text(RANKED.format(root=str(ROOT), runs=runs, folder=str(tmp_path)))
    done = torchrun(script)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    for name, changes in runs.items():
        alone, losses, _ = trained(toys.config(**changes | {"batch": 8}))
        assert first[name]["losses"] == pytest.approx(losses, rel=2e-3)
        assert first[name]["bits"] == pytest.approx(alone.bits_per_byte, rel=2e-3)
        assert first[name]["tokens"] == alone.tokens


INTERRUPTED = """
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.speedrun import toys
from rooflab.device import Device
from rooflab.speedrun.ranks import joined, leave
from rooflab.speedrun.session import run_once
from rooflab.stopping import received, stop_on_signals
first = sys.argv[1] == "first"
def say(line):
    if first and line["step"] == 8:
        os.kill(os.getppid(), signal.SIGINT)  # a terminal's Ctrl-C reaches torchrun, which passes it on
        limit = time.monotonic() + 120
        while not received() and time.monotonic() < limit:
            time.sleep(0.01)
        time.sleep(0.3)  # the other rank's comes right behind it
with stop_on_signals(), joined("gloo") as ranks:
    where = dict(device=Device("cpu", "a processor", torch="cpu"), ranks=ranks)
    config = toys.config(steps=40, log_every=4)
    try:
        run_once(config, toys.corpus(), folder=Path({folder!r}), resume=not first, say=say, **where)
    except KeyboardInterrupt:
        leave(0)
    whole = Path({folder!r}, "whole")
    whole.mkdir(exist_ok=True)
    run_once(config, toys.corpus(), folder=whole, **where)
leave(0)
"""


CLOCKS = """
import itertools, signal, sys, time
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, {root!r})
from tests.speedrun import toys
from rooflab.device import Device
from rooflab.speedrun import checkpoint, train
from rooflab.speedrun.ranks import joined, leave
from rooflab.speedrun.session import run_once
signal.alarm(250)  # ends a rank that waits for the other
def say(line):
    if line["step"] == 8 and "losses" in line:
        Path({folder!r}, "seen").write_text(str(checkpoint.load(Path({folder!r}))["step"]))
with joined("gloo") as ranks:
    if not ranks.first:
        train.time = SimpleNamespace(monotonic=itertools.count(0, 61).__next__, perf_counter=time.perf_counter)
    run_once(toys.config(steps=8, log_every=4), toys.corpus(), device=Device("cpu", "a processor", torch="cpu"),
             ranks=ranks, folder=Path({folder!r}), say=say)
leave(0)
"""


def test_ranks_that_are_stopped_end_the_same_step_and_write_a_checkpoint(tmp_path):
    script, folder = tmp_path / "interrupted.py", tmp_path / "run"
    folder.mkdir()
    script.write_text(INTERRUPTED.format(root=str(ROOT), folder=str(folder)))
    done = torchrun(script, "first")
    assert (folder / checkpoint.NAME).is_file(), done.stderr[-2000:]
    step = checkpoint.load(folder)["step"]
    assert 8 <= step < 40
    assert step % 4 == 0
    assert done.stderr.count("stopping soon, with a checkpoint") == 1  # for the reader, by the first rank
    assert not RunFolder(folder).ended()
    done = torchrun(script, "on")
    assert done.returncode == 0, done.stderr[-2000:]
    ours, whole = ([loss for line in RunFolder(path).lines() for loss in line.get("losses", [])]
                   for path in (folder, folder / "whole"))  # fmt: skip
    assert len(ours) == 40
    assert ours == whole


def test_ranks_whose_clocks_differ_write_a_checkpoint_after_the_same_step(tmp_path):
    """One sees that a minute is over, the other one not yet: if one alone wrote, they would wait for each other."""
    script = tmp_path / "clocks.py"
    script.write_text(CLOCKS.format(root=str(ROOT), folder=str(tmp_path)))
    done = torchrun(script)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "seen").read_text() == "4"
    assert RunFolder(tmp_path).ended()


# --- what stops a run


def test_a_parameter_that_is_no_number_is_named():
    trainer = Trainer(toys.config(rungs=("bf16", "rotary")), DATA, device=CPU)
    with torch.no_grad():
        trainer.model.blocks[1].up.weight[3, 4] = math.nan
    with pytest.raises(Stopped, match=r"Step 1, rungs bf16, rotary: the loss is not a number.*blocks.1.up.weight"):
        trainer.run()


def test_an_overflow_is_traced_to_the_first_module():
    trainer = Trainer(toys.config(warmup=0.5), DATA, device=CPU)
    compute, norm = trainer.compute, trainer.model.blocks[1].norm2

    def bad(*given):
        if trainer.step == 7:
            with torch.no_grad():
                norm.gain.fill_(3e38)
        return compute(*given)

    trainer.compute = bad
    with pytest.raises(
        Stopped, match=r"Step 8, rungs baseline: .* not a number. The first values .* come out of blocks.1"
    ):
        trainer.run()
    assert all(torch.isfinite(param).all() for param in trainer.model.parameters())


def test_a_rate_that_is_too_high_is_named():
    with pytest.raises(Stopped, match=r"Step \d+, rungs baseline: the loss .*learning rate that is too high \(lr "):
        trained(toys.config(lr=30.0, steps=200, clip=0.0, warmup=0.0))


def test_a_loss_that_grows_is_told_from_one_that_falls():
    assert grown([4.0, *[6.0] * 20])
    assert not grown([4.0, *[3.0] * 20, 9.0])
    assert not grown([4.0] + [9.0] * 5)


def test_short_memory_says_what_to_lower(monkeypatch):
    def short(self, *_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(Trainer, "compute", short)
    device = replace(CPU, memory_bytes=3e6)
    with pytest.raises(
        OutOfMemory, match=r"Lower the batch from 64 to (\d+) .* accumulation (\d+) .*--batch \1"
    ) as caught:
        session.run_once(toys.config(batch=64, width=64, steps=3), DATA, device=device)
    assert "3 MB" in str(caught.value)


def test_a_run_longer_than_the_text_is_refused_before_it_begins():
    from rooflab.speedrun.batches import DataError

    with pytest.raises(DataError, match="ask for fewer steps"):
        Trainer(toys.config(steps=10**6), DATA, device=CPU)


@pytest.mark.skipif(find_device().torch != "cuda", reason="a graph is captured on a GPU of NVIDIA's or AMD's")
def test_a_graph_computes_the_same():
    config = toys.config(steps=8, fused_optimizer=True)
    plain, replayed = (Trainer(config.change(graph=graph), DATA) for graph in (False, True))
    lines: dict[bool, list] = {False: [], True: []}
    for graph, trainer in ((False, plain), (True, replayed)):
        trainer.say = lines[graph].append
        trainer.run()
    assert lines[True][0]["losses"] == pytest.approx(lines[False][0]["losses"], rel=1e-3)


def test_vanished_gradients_are_told_as_such():
    trainer = Trainer(toys.config(rungs=tuple(rung.name for rung in RUNGS[1:18])), DATA, device=CPU)
    trainer.watch.losses, trainer.watch.norms = [4.0] * 12, [3.0, 0.5, *[0.0] * 10]
    assert "The gradients have vanished: their norm was 3 at most and is 0 now" in trainer.watch._cause(11)
    assert trainer.watch._where(11) == f"Step 12, rungs up to {RUNGS[17].name}"


def test_a_model_beyond_the_memory_is_not_built(monkeypatch):
    monkeypatch.setattr(Trainer, "__init__", lambda *_, **__: pytest.fail("built"))
    with pytest.raises(OutOfMemory, match="Lower the length, the width or the layers"):
        session.run_once(toys.config(), DATA, device=replace(CPU, memory_bytes=1e5))


def test_a_run_that_goes_on_says_where(tmp_path):
    def stop(line):
        if line["step"] == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.run_once(toys.config(), DATA, device=CPU, folder=tmp_path, save_every=7, say=stop)
    session.run_once(toys.config(), DATA, device=replace(CPU, name="another"), folder=tmp_path, resume=True)
    told = json.loads((tmp_path / "version.json").read_text())
    assert told["device"]["name"] == "a processor"
    (part,) = told["resumed"]
    assert (part["step"], part["device"]["name"]) == (14, "another")


def test_short_sequences_are_looked_at_together(monkeypatch):
    trainer = Trainer(toys.config(length=1, batch=4), DATA, device=CPU)
    sizes, judge = [], trainer.judge
    monkeypatch.setattr(trainer, "judge", lambda *given: (sizes.append(len(given[0])), judge(*given))[1])
    trainer.evaluate()
    assert sizes == [512]


def test_two_processes_do_not_run_in_one_folder(tmp_path):
    def second(line):
        with pytest.raises(ConfigError, match=r"Another process runs in .*give another --out"):
            session.run_once(toys.config(), DATA, device=CPU, folder=tmp_path, resume=True)
        asked.append(line)

    asked = []
    session.run_once(toys.config(steps=10), DATA, device=CPU, folder=tmp_path, say=second)
    assert len(asked) == 3
    assert RunFolder(tmp_path).ended()
