"""Which block sizes are chosen: kept ones of known chips, measured ones of others."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from rooflab import state  # noqa: E402
from rooflab.kernels import tuner, tuning  # noqa: E402

CANDIDATES = [{"BLOCK": size} for size in (64, 128, 256)]
GPU = torch.device("cuda", 0)


@pytest.fixture
def chip(monkeypatch, tmp_path):
    """A GPU that is not there, on which BLOCK = 128 is fastest, and a table of what is known."""
    monkeypatch.setenv("ROOFLAB_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Chip")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(tuning, "_seconds", lambda run, choice: (run(choice), abs(choice["BLOCK"] - 128))[1])
    monkeypatch.setattr(tuning, "_table", lambda: {"Known": {"k": {"1024": {"BLOCK": 256}, "4096": {"BLOCK": 64}}}})
    forget()
    yield monkeypatch
    forget()


def forget():
    """As in another process."""
    tuning._remembered.cache_clear()
    tuning._Tuner.chosen.clear()


def chosen(tried=None, key=(1000,), candidates=CANDIDATES):
    return tuning.choose("k", key, candidates, (tried if tried is not None else []).append, GPU)


def test_an_unknown_chip_tunes_once_and_says_so(chip, capsys):
    tried = []
    assert chosen(tried) == {"BLOCK": 128}
    assert tried == CANDIDATES
    assert "Tuning k for Chip: trying 3 block sizes once" in capsys.readouterr().err
    assert chosen(tried) == {"BLOCK": 128}
    forget()
    assert chosen(tried) == {"BLOCK": 128}
    assert tried == CANDIDATES
    assert capsys.readouterr().err == ""


def test_other_sizes_are_tuned_for_themselves(chip):
    tried = []
    chosen(tried)
    chosen(tried, key=(2000,))
    assert tried == CANDIDATES * 2


def test_a_known_chip_does_not_measure(chip):
    chip.setattr(torch.cuda, "get_device_name", lambda device: "Known")
    tried = []
    assert chosen(tried, key=(1500,)) == {"BLOCK": 256}
    assert chosen(tried, key=(3000,)) == {"BLOCK": 64}
    assert tried == []


def test_what_was_chosen_is_not_looked_up_again(chip):
    looked = []
    chip.setattr(torch.cuda, "get_device_name", lambda device: "Known")
    chip.setattr(tuning, "known_choices", lambda *wanted: (looked.append(wanted), {(1024,): {"BLOCK": 256}})[1])
    assert [chosen()["BLOCK"] for _ in range(3)] == [256] * 3
    assert looked == [("Known", "k")]
    assert chosen(key=(2000,)) == {"BLOCK": 256}
    assert len(looked) == 2


def test_what_was_chosen_and_is_no_candidate_any_more_is_chosen_anew(chip):
    chip.setattr(torch.cuda, "get_device_name", lambda device: "Known")
    assert chosen() == {"BLOCK": 256}
    assert chosen(candidates=CANDIDATES[:2]) == {"BLOCK": 64}


def test_what_is_known_but_cannot_be_chosen_is_passed_over(chip):
    chip.setattr(torch.cuda, "get_device_name", lambda device: "Known")
    assert chosen(key=(1024,), candidates=[{"BLOCK": 32}, {"BLOCK": 64}]) == {"BLOCK": 64}


def test_nothing_is_measured_while_a_graph_is_captured(chip):
    chip.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    tried = []
    assert chosen(tried) == CANDIDATES[0]
    assert tried == []


def test_a_kept_file_that_is_none_is_passed_over(chip, tmp_path):
    (tmp_path / tuning._KEPT).write_text("no JSON")
    assert chosen() == {"BLOCK": 128}
    (tmp_path / tuning._KEPT).write_text('{"Chip/k/1000": {"BLOCK": 7}}')
    tuning._remembered.cache_clear()
    assert chosen() == {"BLOCK": 128}, "no candidate any more"


def test_choices_are_written_as_they_are_read(tmp_path):
    import tomllib

    found = {"NVIDIA H200": {"softmax": {(1024,): {"ROWS": 2, "num_warps": 4}, (4096, 8): {"ROWS": 1, "FAST": True}}}}
    text = tuner.as_toml(found)
    (tmp_path / "choices.toml").write_text(text)
    assert tomllib.loads(text)["NVIDIA H200"]["softmax"]["1024"] == {"ROWS": 2, "num_warps": 4}
    assert tuner._read(tmp_path / "choices.toml") == found
    more = {"NVIDIA H200": {"softmax": {(1024,): {"ROWS": 4}}, "gelu": {(1,): {"BLOCK": 8}}}}
    kept = tuner._merged(found, more)["NVIDIA H200"]
    assert kept["softmax"] == {(1024,): {"ROWS": 4}, (4096, 8): {"ROWS": 1, "FAST": True}}
    assert kept["gelu"] == {(1,): {"BLOCK": 8}}


def test_the_tuner_times_all_and_takes_the_fastest(monkeypatch):
    times = {64: 3.0, 128: float("inf"), 256: 1.0}
    monkeypatch.setattr(tuner, "seconds_of", lambda run, choice, clock, calls: times[choice["BLOCK"]])
    monkeypatch.setattr("rooflab.clocks.GraphClock", lambda calls: None)
    assert tuner._fastest(CANDIDATES, None) == {"BLOCK": 256}


def test_a_choice_that_the_chip_cannot_run_is_passed_over():
    def run(choice):
        raise RuntimeError("out of resource: shared memory, Required: 294976, Hardware limit: 232448.")

    assert tuning.seconds_of(run, {}, None) == float("inf")
    assert not tuner._tried(run, {})
    with pytest.raises(ZeroDivisionError):
        tuning.seconds_of(lambda choice: 1 / 0, {}, None)


def test_every_kernel_asks_the_tuner():
    from rooflab.kernels.benchmark import OURS
    from rooflab.kernels.rows.cases import cases

    asked = set()
    tuning.set_tuner(
        lambda kernel, key, candidates, run: (asked.add((kernel, key)), run(candidates[0]), candidates[0])[2]
    )
    try:
        for case in cases(((3, 40),), "cuda" if torch.cuda.is_available() else "cpu"):
            case.candidates[OURS](*case.inputs(0))
    finally:
        tuning.set_tuner(None)
    names = (
        "softmax",
        "softmax_backward",
        "rms_norm",
        "rms_norm_backward",
        "layer_norm",
        "layer_norm_backward",
        "add_rms_norm",
    )
    assert asked == {(name, (64,)) for name in names}


def test_on_a_cpu_the_first_is_taken():
    assert tuning.choose("k", (1,), CANDIDATES, None, SimpleNamespace(type="cpu")) == CANDIDATES[0]


def test_what_is_kept_can_be_read():
    assert isinstance(state.read_json(tuning._KEPT, {}), dict)
    for chip_name in tuning._table():
        for kernel in tuning._table()[chip_name]:
            assert tuning.known_choices(chip_name, kernel)


def test_compiling_beforehand_goes_on_with_a_choice_that_the_chip_can_run(monkeypatch):
    """As a kernel does whose first choice wants more shared memory than there is."""

    def call_all(wanted, size, choose):
        def run(choice):
            tried.append(choice["BLOCK"])
            if choice["BLOCK"] < 256:
                raise RuntimeError("out of resource: shared memory, Required: 262280")

        for _ in range(2):
            found.append(choose("k", (1024,), CANDIDATES, run))

    monkeypatch.setattr(tuner, "_call_all", call_all)
    for part in (0, 1, 2):
        tried, found = [], []
        tuner._compile((["k"], None, part, 3))
        assert found == [{"BLOCK": 256}] * 2
        assert CANDIDATES[part]["BLOCK"] in tried


def test_no_choice_for_a_loop_wants_more_shared_memory_than_there_is():
    from rooflab.kernels.rows.blocks import loop_blocks

    for cols in (1024, 4096, 32768, 65536):
        for itemsize in (2, 4):
            choices = loop_blocks(cols, 2 * itemsize * cols)
            assert choices
            assert all((one["STAGES"] - 1) * one["ROWS"] * 2 * itemsize * cols <= 163 * 1024 for one in choices)
