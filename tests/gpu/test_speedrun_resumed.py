"""A run on a GPU that is killed goes on as if it had not been: with compiled code, kernels and graph; needs a GPU."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

from rooflab.speedrun import session  # noqa: E402
from rooflab.speedrun.folder import RunFolder  # noqa: E402
from rooflab.speedrun.rungs import RUNGS, select  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.speedrun import toys  # noqa: E402

LADDER = [rung.name for rung in RUNGS if rung.name not in ("small-model", "small-vocabulary")]
KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [{root!r}, {shared!r}]
from tests.gpu.test_speedrun_resumed import run
def say(line):
    if "loss" in line and line["step"] == 20:
        os.kill(os.getpid(), signal.SIGKILL)
run({last!r}, Path({folder!r}), say=say)
"""


def run(last, folder, **more):
    """All rungs up to one, at a shape that the kernels take, in an order of sums that does not change."""
    toy = toys.config(width=128, length=128, batch=8, log_every=1, eval_every=6, lr=3e-3, deterministic=True)
    config = select(toy, only=LADDER[: LADDER.index(last) + 1]).config
    return session.run_once(config, toys.corpus(tokens=300_000), folder=folder, save_every=7, **more)


@pytest.mark.parametrize("last", ["compile", "graph", LADDER[-1]])
def test_after_kill_9_the_losses_are_those_of_a_run_left_alone(last, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    result = run(last, whole)
    code = KILLED.format(root=str(ROOT), shared=str(ROOT / "shared"), last=last, folder=str(cut))
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (cut / "checkpoint.pt").exists()
    assert run(last, cut, resume=True).bits_per_byte == result.bits_per_byte

    def losses(folder):
        return [loss for line in RunFolder(folder).lines() for loss in line.get("losses", ())]

    assert len(losses(whole)) == 30
    assert losses(cut) == losses(whole)
