"""How a notebook begins, on machines that lack something."""

import os
import subprocess
import sys

import pytest

from rooflab import session
from rooflab.device import describe
from rooflab.load import Load, Watch
from rooflab.logbook import current_unit, log, this_run
from rooflab.probe import Facts
from rooflab.session import MissingFramework, open_unit

UNIT = "s1_measurement/u1_step_cost"
CPU = {"cpu_name": "AMD EPYC", "memory_bytes": 2**34, "torch_backend": "cpu", "jax_backend": "cpu",
       "versions": {"torch": "2.13.0", "jax": "0.10.2"}}  # fmt: skip


@pytest.fixture
def on(monkeypatch, home):
    """A function that puts this process on a machine with these facts, Triton compiling or not imported."""

    def put(*, load=None, **facts):
        device = describe(Facts(**CPU | facts))
        monkeypatch.setattr(session, "find_device", lambda: device)
        monkeypatch.setattr(Watch, "load_now", lambda watch, *, accelerator: load)
        monkeypatch.delitem(sys.modules, "triton", raising=False)
        return device

    return put


def test_the_card_is_shown_and_the_log_begins(on, capsys):
    device = on()
    log("left over", 1)
    assert open_unit(UNIT, needs=("torch", "jax")) is device
    assert current_unit() == UNIT
    assert this_run() == {}
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "device     | AMD EPYC"
    assert lines[-1] == "frameworks | torch 2.13.0 on cpu, jax 0.10.2 on cpu"


def test_others_on_this_machine_are_part_of_the_card(on, capsys):
    on(load=Load(1.0, 1.7, 2, 2))
    open_unit(UNIT)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "load       | others use 1.7 of 2 cores: times of parallel kernels will be wrong"


def test_notes_are_part_of_the_card(on, capsys):
    on(jax_backend="tpu", jax_name="TPU v5 lite", jax_count=1)
    open_unit(UNIT)
    assert "note       | JAX sees TPU v5 lite, torch only the CPU" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("missing", "words", "extras"),
    [(("torch",), "torch", "torch"), (("jax",), "jax", "jax"), (("torch", "jax"), "torch and jax", "torch,jax")],
)
def test_missing_frameworks_are_one_sentence_with_the_command(on, missing, words, extras):
    on(**{f"{name}_backend": "" for name in missing})
    with pytest.raises(MissingFramework) as caught:
        open_unit(UNIT, needs=("torch", "jax"))
    assert f"in {words} too, which is not installed here." in str(caught.value)
    assert str(caught.value).endswith(f'pip install "rooflab[{extras}]".')
    assert "\n" not in str(caught.value)


def test_what_a_unit_does_not_need_may_be_missing(on):
    on(jax_backend="")
    assert open_unit(UNIT, needs=("torch",)).jax is None


def test_a_framework_that_does_not_start_is_not_to_be_installed_again(on):
    on(torch_backend="", problems=("torch is installed but does not start: no libcudart.",))
    with pytest.raises(MissingFramework, match=r"but torch is installed but does not start: no libcudart\.$") as caught:
        open_unit(UNIT, needs=("torch",))
    assert "pip install" not in str(caught.value)


@pytest.mark.parametrize(("imported", "interprets", "said"), [(False, False, 0), (True, True, 0), (True, False, 1)])
def test_triton_that_compiles_without_a_gpu(on, monkeypatch, capsys, imported, interprets, said):
    on()
    if imported:
        monkeypatch.setitem(sys.modules, "triton", object())
    monkeypatch.setattr(session, "interpreting", lambda: interprets)
    open_unit(UNIT)
    assert capsys.readouterr().out.count("Restart the kernel and run this cell first.") == said


def test_triton_imported_too_early_for_real(tmp_path):
    pytest.importorskip("triton", reason="needs triton")
    code = (
        "import os, triton, triton.language\nos.environ['TRITON_INTERPRET'] = '1'\n"  # set, and too late
        f"from rooflab.session import open_unit\nopen_unit({UNIT!r})"
    )
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "ROOFLAB_DEVICE": "cpu",
        "ROOFLAB_HOME": str(tmp_path),
    }
    told = subprocess.run([sys.executable, "-c", code], env=env, check=True, text=True, capture_output=True)
    assert told.stdout.count("Triton was imported before Rooflab could ask for its interpreter") == 1
