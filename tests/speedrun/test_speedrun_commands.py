"""The command, what it prints and leaves, the forecast, and how long the trainer is."""

import ast
import json
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rooflab import cli, load
from rooflab.device import Device, find_device
from rooflab.roofline import Ceilings
from rooflab.speedrun import commands, forecast, ladder, warming
from rooflab.speedrun.config import from_dict, preset
from rooflab.speedrun.folder import RunFolder
from rooflab.speedrun.interrupted import stopped_early
from rooflab.speedrun.model import GPT, compiled_as
from rooflab.speedrun.naming import short
from rooflab.speedrun.neighbours import Neighbours
from rooflab.speedrun.ranks import Ranks
from rooflab.speedrun.rungs import RUNGS, select
from rooflab.speedrun.settings import quiet

from . import toys

torch = pytest.importorskip("torch")
SPEEDRUN = Path(cli.__file__).parent / "speedrun"
TRAINER = (
    "config", "rungs", "model", "loss", "attention", "fp8", "optimizers", "muon", "batches", "ranks", "train",
    "settings", "pace", "checkpoint",
)  # fmt: skip
ABLE = Device("cuda", "a chip that can do all", torch="cuda", capability=(9, 0))
RATES = {"fp32": 5e13, "tf32": 3.5e14, "bf16": 7e14, "fp8": 1.3e15}
CEILINGS = Ceilings(4e12, RATES, launch_s=7e-6, measured=True)
TOY = [
    "--set",
    "layers=1",
    "--set",
    "width=16",
    "--set",
    "length=16",
    "--set",
    "eval_tokens=256",
    "--set",
    "log_every=2",
]


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """A toy text on a processor whose ceilings are known, away from the reader's folders."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rooflab.book.find_root", lambda *_: tmp_path)
    text = toys.corpus()

    def here(data, device, ranks):
        return commands.Here(find_device(), text, CEILINGS if ranks.first else None, ranks)

    monkeypatch.setattr(commands, "here", here)


def run(*options, capsys):
    code = cli.main(["speedrun", *options])
    found = capsys.readouterr()
    return code, found.out, found.err


def code_lines(path):
    """Lines that are neither empty nor a comment nor part of a docstring, as functions are measured elsewhere."""
    source = path.read_text(encoding="utf-8")
    told = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            told |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(1 for number, line in lines if number not in told and line.strip() and not line.strip().startswith("#"))


def test_the_trainer_is_short():
    assert sum(code_lines(SPEEDRUN / f"{name}.py") for name in TRAINER) < 1200


def test_a_run_leaves_one_folder(capsys, tmp_path):
    code, out, _ = run("--only", "rotary,muon", "--steps", "6", *TOY, "--device", "cpu", "--out", "one", capsys=capsys)
    assert code == 0
    assert "bits per byte" in out
    assert "MFU" in out
    folder = tmp_path / "one"
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json", "figure.png", "figure.svg", "log.jsonl", "summary.json", "version.json",
    ]  # fmt: skip
    config = RunFolder(folder).config()
    assert config.rungs == ("rotary", "muon")
    assert config.vocabulary == toys.WORDS
    told = json.loads((folder / "version.json").read_text())
    assert told["data"]["digest"] == toys.corpus().digest
    assert {"rooflab", "commit", "device", "versions", "date"} <= set(told)
    assert json.loads((folder / "summary.json").read_text())["steps"] == 6
    assert (folder / "figure.svg").read_text().lstrip().startswith("<?xml")


def test_lines_for_machines_are_json(capsys):
    code, out, _ = run("--rung", "baseline", "--steps", "4", *TOY, "--json", "--out", "one", capsys=capsys)
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["step"] for line in lines if "loss" in line] == [2, 4]
    assert all({"loss", "lr", "time_s", "tokens_per_s", "mfu"} <= set(line) for line in lines if "loss" in line)
    assert lines[-1]["summary"]["bits_per_byte"] == lines[-2]["bits_per_byte"]


def test_seeds_are_runs_of_their_own(capsys, tmp_path):
    code, out, _ = run("--rung", "baseline", "--steps", "2", "--seeds", "2", *TOY, "--out", "two", capsys=capsys)
    assert code == 0
    assert "2 seeds: " in out
    assert RunFolder(tmp_path / "two" / "seed-1").config().seed == 1


def test_minutes_become_steps(capsys, tmp_path):
    code, _, _ = run("--rung", "baseline", "--minutes", "0.002", *TOY, "--out", "short", capsys=capsys)
    assert code == 0
    assert RunFolder(tmp_path / "short").config().steps >= 1


def test_folders_of_its_own_are_numbered(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("rooflab.book.find_root", lambda: tmp_path)
    for number in (1, 2):
        _, out, _ = run("--rung", "baseline", "--steps", "1", *TOY, capsys=capsys)
        assert f"run-{number:03d}" in out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--rung", "warp"], "expected a rung; found 'warp': they are baseline, tf32, bf16"),
        (["--rung", "fused-los"], "expected a rung; found 'fused-los': did you mean fused-loss?"),
        (["--up-to", "fused_loss"], "found 'fused_loss': did you mean fused-loss?"),
        (["--only", "muon,rotery"], "found 'rotery': did you mean rotary?"),
        (["--without", "Muon"], "found 'Muon': did you mean muon?"),
        (["ladder", "--only", "mun"], "found 'mun': did you mean muon?"),
        (["--set", "xyzzy=3"], "expected a switch of a run; found 'xyzzy': they are accumulation, activation"),
        (["--set", "lenght=3"], "found 'lenght': did you mean length?"),
        (["--set", "vocabulary=10"], "--set cut_vocabulary=N, which leaves N tokens of the text's own, in place of"),
        (["--set", "layers=many"], "expected --set layers= and a whole number; found 'many'"),
        (["--set", "graph=yes"], "expected --set graph= and True or False; found 'yes'"),
        (["--steps", "1000000"], "ask for fewer steps"),
        (["--resume", "nowhere"], "There is no run in nowhere"),
    ],
)
def test_bad_input_gets_a_sentence(options, sentence, capsys):
    code, _, err = run(*options, capsys=capsys)
    assert code == 1
    assert sentence in err
    assert err.strip().splitlines()[-1].startswith("rooflab: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("options", [
    ["--rung", "small-vocabulary"], ["--only", "muon,small-vocabulary"], ["--set", "cut_vocabulary=8192"],
    ["--rung", "muon", "--set", "cut_vocabulary=40"], ["ladder", "--set", "cut_vocabulary=8192"],
    ["ladder", "--only", "small-vocabulary"],
])  # fmt: skip
def test_a_text_without_byte_pairs_is_not_cut_and_nothing_is_measured_before_that_is_said(options, capsys, monkeypatch):
    def place(data, device, ranks):
        return commands.Here(find_device(), toys.corpus(), None, ranks)

    monkeypatch.setattr(commands, "here", place)
    monkeypatch.setattr("rooflab.ceilings.measured_ceilings", lambda *_, **__: pytest.fail("measured"))
    code, out, err = run(*options, "--out", "one", capsys=capsys)
    assert code == 1
    assert "left out" not in out
    name = "small-vocabulary" if "small-vocabulary" in options[-1] else "cut_vocabulary"
    assert f"expected the corpus code with {name}: toy has no byte pairs to cut, its tokens are bytes" in err
    assert not Path("one").exists()


def test_a_rung_for_other_texts_that_was_not_asked_for_by_name_is_left_out(capsys):
    _, out, _ = run("--without", "compile", "--steps", "1", *TOY, "--out", "one", capsys=capsys)
    assert "The rung small-vocabulary is left out: toy has no byte pairs to cut, its tokens are bytes." in out


@pytest.mark.parametrize(
    "options",
    [["--steps", "0"], ["--minutes", "-1"], ["--save-every", "0"], ["--batch", "x"], ["--rung", "a", "--up-to", "b"]],
)
def test_a_wrong_call_is_told(options, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*options, capsys=capsys)
    assert ended.value.code == 2


@pytest.fixture
def unmeasured(monkeypatch):
    """A device whose ceilings are not known yet, and must not be measured."""
    place = commands.Here(Device("cpu", "a processor", torch="cpu"), toys.corpus(), None, Ranks())
    monkeypatch.setattr(commands, "here", lambda *_: place)
    monkeypatch.setattr("rooflab.ceilings.measured_ceilings", lambda *_, **__: pytest.fail("measured"))


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize(("options", "missing"), [
    ([], "torch"), (["ladder"], "torch"), (["--framework", "jax"], "jax"), (["--resume", "one"], "torch"),
])  # fmt: skip
def test_a_library_that_is_not_there_is_told_before_anything_is_measured(options, missing, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    code, out, err = run(*options, capsys=capsys)
    assert (code, out) == (1, "")
    assert err == f'rooflab: This needs the package {missing}: pip install "rooflab[{missing}]"\n'


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("options", [["--only", "loader"], ["ladder", "--only", "loader"]])
def test_a_switch_that_a_device_cannot_do_is_refused_before_anything_is_measured(options, capsys):
    code, _, err = run(*options, "--set", "graph=True", capsys=capsys)
    assert code == 1
    assert err == "rooflab: expected graph=False: a processor has no graphs to replay\n"


def test_what_is_remarked_of_ceilings_is_no_line_for_machines(capsys, monkeypatch):
    def measured(*_, **__):
        print("Something else kept the device busy.")
        return CEILINGS

    place = commands.Here(Device("cpu", "a processor", torch="cpu"), toys.corpus(), None, Ranks())
    monkeypatch.setattr(commands, "here", lambda *_: place)
    monkeypatch.setattr("rooflab.ceilings.measured_ceilings", measured)
    code, out, err = run("--rung", "baseline", "--steps", "2", *TOY, "--json", "--out", "one", capsys=capsys)
    assert code == 0
    assert all(json.loads(line) for line in out.splitlines())
    assert "kept the device busy" in err


def test_the_rungs_are_listed_without_a_library(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run("--list", capsys=capsys)[0] == 0


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize(("options", "why"), [
    (["--rung", "graph"], "graph: a processor has no graphs to replay"),
    (["--only", "tf32,fp8"], "tf32: a processor multiplies in no tf32; fp8: a processor multiplies in no fp8"),
    (["ladder", "--only", "fp8"], "fp8: a processor multiplies in no fp8"),
    (["--rung", "graph", "--framework", "jax"], "graph: "),
])  # fmt: skip
def test_where_nothing_is_left_of_what_was_named_nothing_is_trained(options, why, capsys):
    code, out, err = run(*options, "--out", "one", capsys=capsys)
    assert (code, out) == (1, "")
    assert f"expected a rung that can be done here; found {why}" in err
    assert not Path("one").exists()


def test_where_some_are_left_of_what_was_named_the_others_are_left_out(capsys):
    code, out, _ = run("--only", "muon,graph", "--steps", "1", *TOY, "--device", "cpu", "--out", "one", capsys=capsys)
    assert code == 0
    assert "The rung graph is left out" in out
    assert "with the rungs muon: 1 step of" in out


@pytest.mark.parametrize("used_s", [0.1, 2.8])
def test_a_run_beside_others_says_so(used_s, capsys, monkeypatch):
    monkeypatch.setattr(load.Watch, "load", lambda self: load.Load(2.0, used_s, 2, 2))
    _, out, _ = run("--rung", "baseline", "--steps", "4", *TOY, "--set", "eval_every=2", "--out", "one", capsys=capsys)
    sentence = "Disturbed: others used 1.4 of 2 cores meanwhile. Close other programs and run it again."
    assert (sentence in out) == (used_s > 1)
    told = {"others_cores": used_s / 2, "cores": 2, "disturbed": used_s > 1}
    assert told.items() <= json.loads(Path("one/summary.json").read_text()).items()
    lines = RunFolder(Path("one")).lines()
    assert [told.items() <= line.items() for line in lines if "bits_per_byte" in line] == [True, True]
    assert not any("disturbed" in line for line in lines if "loss" in line)
    _, out, _ = run("ladder", "--only", "baseline,rotary", "--tokens", "200", *TOY, capsys=capsys)
    names = "baseline, rotary: others used up to 1.4 of 2 cores meanwhile, so that times are too long."
    assert (f"Disturbed: {names}" in out) == (used_s > 1)


def test_what_others_compute_is_looked_at_on_a_processor_alone(monkeypatch):
    monkeypatch.setattr(load.Watch, "load", lambda self: load.Load(2.0, 4.0, 2, 2))
    evaluated = {"bits_per_byte": 1.0}
    for device, world, looks in ((find_device(), 1, True), (find_device(), 2, False), (ABLE, 1, False)):
        beside = Neighbours(device, world)
        assert beside.noted({"loss": 1.0}) == {"loss": 1.0}
        assert ("disturbed" in beside.noted(evaluated)) == looks == bool(beside.found)
    monkeypatch.setattr(load.Watch, "load", lambda self: load.Load(0.01, 0.02, 2, 2))
    beside = Neighbours(find_device())
    assert [beside.noted(evaluated) for _ in range(2)] == [evaluated, evaluated], "too short to know"


def test_a_config_that_is_damaged_says_what_to_do(capsys, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "config.json").write_text("{")
    code, _, err = run("--resume", "one", capsys=capsys)
    assert code == 1
    assert err.strip().endswith("): begin the run again, with another --out.")


def test_long_choices_of_rungs_have_a_short_name():
    names = [rung.name for rung in RUNGS if rung.change]
    assert short(names) == f"up to {names[-1]}"
    assert short(names[1::2]) == f"{len(names[1::2])} rungs up to {names[1::2][-1]}"
    assert short(["rotary", "muon"]) == "rotary, muon"


def test_a_folder_with_a_run_is_not_written_over(capsys):
    options = ("--rung", "baseline", "--steps", "1", *TOY, "--out", "one")
    assert run(*options, capsys=capsys)[0] == 0
    code, _, err = run(*options, capsys=capsys)
    assert code == 1
    assert "There is a run in one: go on with it (--resume one), or give another --out." in err
    code, _, err = run("--resume", "one", capsys=capsys)
    assert code == 1
    assert "has ended" in err


def test_the_figure_has_the_loss_of_every_step():
    from rooflab.speedrun.picture import every_loss

    lines = [{"time_s": 1.0, "losses": [5.0, 4.0], "loss": 4.0, "train_bits_per_byte": 2.0},
             {"time_s": 1.0, "valid_loss": 3.0},
             {"time_s": 2.0, "losses": [None, 3.0], "loss": 3.0, "train_bits_per_byte": 1.5}]  # fmt: skip
    assert every_loss(lines) == ([0.5, 1.0, 2.0], [2.5, 2.0, 1.5])


@pytest.mark.parametrize("evaluations", [1, 3])
def test_the_figure_has_one_unit_and_says_why_a_panel_has_one_point(evaluations):
    from rooflab.speedrun.picture import draw

    lines = [{"time_s": 1.0 + n, "losses": [5.0], "loss": 5.0, "train_bits_per_byte": 2.0} for n in range(3)]
    lines += [{"time_s": 1.0 + n, "bits_per_byte": 2.0} for n in range(evaluations)]
    left, right = draw(lines, "A run").axes
    assert left.get_ylabel() == "training loss (bits per byte)"
    assert right.get_ylabel() == "validation loss (bits per byte)"
    assert [text.get_text().startswith("evaluated once") for text in right.texts] == [True] * (evaluations == 1)


@pytest.mark.parametrize("target", [0.5, 1.5, 9.0])
def test_both_panels_have_one_scale_and_the_target_on_it(target):
    from rooflab.speedrun.picture import draw

    lines = [
        {"time_s": 1.0 + n, "losses": [5.0 - n], "loss": 5.0 - n, "train_bits_per_byte": 4.0 - n} for n in range(3)
    ]
    lines += [{"time_s": 1.0 + n, "bits_per_byte": 2.0 - n / 4} for n in range(3)]
    left, right = draw(lines, "A run", target=target).axes
    assert left.get_ylim() == right.get_ylim()
    low, high = left.get_ylim()
    assert low + 0.04 * (high - low) < min(target, 2.0)
    assert high - 0.04 * (high - low) > max(target, 4.0)


def test_a_disk_that_fills_up_leaves_no_half_of_a_figure(tmp_path, monkeypatch):
    from rooflab.files import OutputError
    from rooflab.speedrun.picture import save

    lines = [{"time_s": 1.0, "bits_per_byte": 2.0}]
    save(tmp_path, lines, "A run")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("rooflab.state.os.fdopen", toys.full)
    with pytest.raises(OutputError, match=r"Cannot write .*figure\.png: the disk is full"):
        save(tmp_path, [*lines, {"time_s": 2.0, "bits_per_byte": 1.0}], "A run")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_says_what_it_trains(capsys):
    _, out, _ = run("--only", "rotary,muon", "--steps", "2", *TOY, "--out", "one", capsys=capsys)
    assert out.startswith("Training tiny on toy with the rungs rotary, muon: 2 steps of ")
    _, out, _ = run("--rung", "baseline", "--steps", "2", *TOY, "--out", "two", capsys=capsys)
    assert "as the baseline, without a rung: 2 steps" in out


def test_a_run_that_never_began_leaves_no_folder(capsys, tmp_path):
    assert run("--steps", "1000000", "--out", "one", capsys=capsys)[0] == 1
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(("signals", "from_where", "then"), [
    (1, "that is from its last checkpoint", "Going on from the last checkpoint."),
    (2, "that is from the beginning", "it begins again."),
])  # fmt: skip
def test_a_run_that_is_stopped_says_how_it_goes_on(signals, from_where, then, capsys, monkeypatch):
    """The first Ctrl-C waits for the step and a checkpoint, the second for nothing."""
    told = commands.Teller.__call__

    def stopping(self, line):
        told(self, line)
        if line["step"] == 4:
            for _ in range(signals):
                signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(commands.Teller, "__call__", stopping)
        code, _, err = run("--only", "muon", "--steps", "8", *TOY, "--out", "one", capsys=capsys)
    assert code == 130
    assert f"Stopped by Ctrl-C. To go on: rooflab speedrun --resume one; {from_where}" in err
    code, out, _ = run("--resume", "one", capsys=capsys)
    assert code == 0
    assert then in out


def test_a_run_that_is_stopped_in_its_last_step_has_ended(capsys, monkeypatch, tmp_path):
    told = commands.Teller.__call__

    def stopping(self, line):
        told(self, line)
        if line["step"] == 8 and "loss" in line:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(commands.Teller, "__call__", stopping)
        options = ("--rung", "baseline", "--steps", "8", "--seeds", "2", *TOY, "--out", "two")
        assert run(*options, capsys=capsys)[0] == 130
    assert RunFolder(tmp_path / "two" / "seed-0").ended()
    assert not (tmp_path / "two" / "seed-1").exists()


def test_ranks_go_on_as_many(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with (
        pytest.raises(KeyboardInterrupt, match=r"torchrun --nproc-per-node 2 -m rooflab\.speedrun --resume "),
        stopped_early(tmp_path, SimpleNamespace(world=2, first=True), resumable=True),
    ):
        raise KeyboardInterrupt


def test_no_reason_for_a_rung_is_cut_off(monkeypatch):
    monkeypatch.setattr("rooflab.speedrun.ladder.terminal_width", lambda: 80)
    shown = ladder.list_rungs()
    assert max(map(len, shown.splitlines())) <= 80
    assert "..." not in shown
    words = " ".join(line.rpartition("|")[2].strip() for line in shown.splitlines())
    assert all(rung.why in words for rung in RUNGS)


def test_the_list_says_of_memory_what_the_forecast_says():
    base, before = preset("gpt2-small"), 0.0
    for rung in RUNGS:
        memory = forecast.memory_bytes(select(base, up_to=rung.name, device=ABLE).config)
        if before and abs(memory / before - 1) > 0.03:
            assert rung.memory == ("more" if memory > before else "less"), rung.name
        before = memory
    assert "The forecast counts bytes and FLOPs; it sees neither" in " ".join(ladder.list_rungs(width=60).split())


def test_all_rungs_are_listed(capsys):
    _, out, _ = run("--list", capsys=capsys)
    assert all(rung.name in out and rung.why in out for rung in RUNGS)


def test_the_ladder_counts_what_a_processor_cannot_show(capsys, tmp_path):
    code, out, _ = run("ladder", "--only", "baseline,bf16,fused-attention", "--tokens", "1024", *TOY, "--out", "here",
                       "--set", "length=64", capsys=capsys)  # fmt: skip
    assert code == 0
    assert "tf32" not in out
    (record,) = tmp_path.glob("here/*/speedrun_ladder.json")
    rungs = json.loads(record.read_text())["values"]["rungs"]
    assert rungs["fused-attention"]["bytes"] < rungs["baseline"]["bytes"]
    assert {"predicted_s", "step_s", "mfu", "bits_per_byte", "flops", "launches"} <= set(rungs["baseline"])
    assert from_dict(rungs["baseline"]["config"]).length == 64


def test_an_accelerators_ladder_compiles_its_runs_together_first(monkeypatch, tmp_path, capsys):
    """What is compiled beforehand is what is measured then; each rung's result is on disk before the next begins."""
    compiled, measured, kept = [], [], []
    card = SimpleNamespace(is_accelerator=True, memory_bytes=150e9, jax=None, slug="card")
    place = commands.Here(card, toys.corpus(), CEILINGS, Ranks())
    monkeypatch.setattr(commands, "here", lambda *_: place)
    monkeypatch.setattr("rooflab.speedrun.rungs.missing", lambda rung, *_: "no" if rung.name == "graph" else "")
    monkeypatch.setattr("rooflab.records.save_record", lambda unit, values, **_: kept.append(list(values["rungs"])))
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr(warming, "compile_ahead", lambda configs, data, workers: compiled.append((configs, workers)))
    monkeypatch.setattr(
        ladder, "measured_rung", lambda config, *_: measured.append(config) or {"error": "it is a test"}
    )
    (tmp_path / "chapters").mkdir()
    monkeypatch.chdir(tmp_path / "chapters")
    run("ladder", "--only", "baseline,compile,fused-loss,loader,graph", "--preset", "tiny", "--json", capsys=capsys)
    assert (tmp_path / ".rooflab/speedrun").is_dir()  # where a run's results go, from wherever it is called
    ((configs, workers),) = compiled
    assert [config.rungs[-1] for config in configs] == ["compile", "fused-loss"]
    *before, loader = (config.change(vocabulary=toys.corpus().vocabulary) for config in measured[1:])
    assert configs == before
    other = loader.change(loader="plain", fused_optimizer=False, rungs=before[-1].rungs)
    assert other == before[-1], "the same code is compiled once"
    assert workers == 4
    names = ["baseline", "compile", "fused-loss", "loader", "graph"]
    assert kept == [names[:count] for count in range(1, 6)]


def test_a_run_is_warmed_up_in_a_process_of_its_own():
    config = toys.config().to_dict()
    assert warming._compile((config, "stdlib")) == ""
    assert "expected a corpus of stdlib" in warming._compile((config, "no such text"))
    assert warming.at_a_time(1e9, memory_bytes=8e9, cores=2) == 1
    assert warming.at_a_time(80e9, memory_bytes=150e9, cores=64) == 1


def test_a_rung_that_fails_does_not_stop_the_ladder(capsys):
    code, out, _ = run("ladder", "--only", "baseline,padded-vocabulary", "--tokens", "1024", *TOY, "--set", "lr=1e30",
                       "--set", "clip=0.0", "--out", "here", capsys=capsys)  # fmt: skip
    assert code == 1
    assert "baseline: Step" in out
    assert "padded-vocabulary: Step" in out


def test_the_bar_shows_loss_rate_and_time_left(capsys):
    place = commands.Here(find_device(), toys.corpus(), CEILINGS, Ranks())
    with commands.Teller(toys.config(), place, as_json=False) as teller:
        teller(
            {"step": 10, "loss": 3.25, "train_bits_per_byte": 1.5, "step_s": 2.0, "tokens_per_s": 1234.0, "mfu": 0.41}
        )
        moving = capsys.readouterr().err
    assert "loss 1.500 bits/byte, 0:40 left, 1,234 tokens/s, MFU 41%" in moving
    assert "left" not in capsys.readouterr().err  # the last line, of a run that has ended


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_training_losses_are_told_in_bits_per_byte_as_the_validation_loss_is(framework, capsys):
    """By the bytes a token of the windows that are judged: what is equal in nats a token is equal in bits a byte."""
    if framework == "jax":
        pytest.importorskip("jax")
    options = ("--rung", "baseline", "--steps", "4", *TOY, "--json", "--out", "one", "--framework", framework)
    _, out, _ = run(*options, capsys=capsys)
    lines = [json.loads(line) for line in out.splitlines()]
    (judged,) = [line for line in lines if "valid_loss" in line]
    trained = [line for line in lines if "loss" in line]
    assert len(trained) == 2
    for line in trained:
        assert line["train_bits_per_byte"] / line["loss"] == pytest.approx(
            judged["bits_per_byte"] / judged["valid_loss"]
        )
    assert all(line["train_bits_per_byte"] > 0 for line in RunFolder(Path("one")).lines() if "loss" in line)


def test_the_bars_time_runs_while_the_compiler_works(monkeypatch):
    ticks = []
    monkeypatch.setattr("rooflab.progress.Progress.tick", lambda bar: ticks.append(bar.name))
    monkeypatch.setattr("rooflab.speedrun.teller._TICK_S", 0.01)
    place = commands.Here(find_device(), toys.corpus(), CEILINGS, Ranks())
    with commands.Teller(toys.config(compile="model"), place, as_json=False) as teller:
        limit = time.monotonic() + 30
        while not ticks and time.monotonic() < limit:
            time.sleep(0.01)
        assert set(ticks) == {"compiling"}
        teller({"step": 10, "loss": 3.25, "train_bits_per_byte": 1.5, "step_s": 2.0, "tokens_per_s": 1234.0})
        count = len(ticks)
        time.sleep(0.1)
        assert len(ticks) == count


@pytest.mark.parametrize(
    ("rungs", "target", "told"),
    [
        (["--rung", "muon"], "1", "tiny, muon: {loss:.3f} bits per byte, short of the target of 1, after"),
        (["--only", "rotary,muon"], "90", "tiny, rotary, muon: {loss:.3f} bits per byte, the target, after"),
        (["--rung", "baseline"], "", "tiny, baseline: {loss:.3f} bits per byte after"),
    ],
)
def test_the_figure_says_which_rungs_and_whether_it_came_to_the_target(rungs, target, told, capsys, monkeypatch):
    titles = []
    monkeypatch.setattr("rooflab.speedrun.picture.save", lambda folder, lines, title, target: titles.append(title))
    asked = ["--target", target] if target else []
    code, out, _ = run(*rungs, "--steps", "4", *asked, *TOY, "--out", "one", capsys=capsys)
    assert code == 0
    loss = json.loads(Path("one/summary.json").read_text())["bits_per_byte"]
    assert titles[0].startswith(told.format(loss=loss))
    assert ("short of the target of 1" in out) == (target == "1")


def test_mfu_is_palms():
    config = preset("gpt2-small")
    n = 12 * 12 * 768**2 + 50257 * 768
    assert forecast.flops_per_token(config) == 6 * n + 12 * 12 * 1024 * 768
    mfu, _ = forecast.utilization(config, 1000.0, 1e12)
    assert mfu == pytest.approx(1000 * forecast.flops_per_token(config) / 1e12)
    halves = forecast.utilization(config, 1000.0, 1e12, world=2)
    assert halves[0] == pytest.approx(mfu / 2)


@pytest.mark.parametrize("changes", [{}, {"attention": "fused"}, {"padded_vocabulary": True, "loss": "chunks"}])
def test_the_forecast_counts_the_flops_that_a_step_does(changes):
    config = toys.config(width=64, length=64, **changes)
    place = commands.Here(Device("cpu", "a processor", torch="cpu"), toys.corpus(), CEILINGS, Ranks())
    counted = ladder.counted_step(config, place)["flops"]
    products = forecast.hardware_flops_per_token(config) * config.tokens_per_step()
    if config.attention == "fused":  # the counter counts the recomputation of the scores; the mask is not discounted
        assert counted > products
    else:
        assert counted == pytest.approx(products, rel=0.1)


def test_each_rung_is_predicted_to_do_what_it_is_for():
    base, told = preset("gpt2-small"), {}
    for rung in RUNGS:
        told[rung.name] = forecast.forecast(select(base, up_to=rung.name, device=ABLE).config, CEILINGS)
    for before, after in (("baseline", "tf32"), ("tf32", "bf16"), ("padded-vocabulary", "fused-attention"),
                          ("fused-attention", "compile"), ("fused-loss", "fused-optimizer"), ("schedule", "window"),
                          ("window", "fp8"), ("squared-relu", "mlp-kernel")):  # fmt: skip
        assert told[after].step_s < told[before].step_s
    for before, after in (("tf32", "bf16"), ("padded-vocabulary", "fused-attention"), ("squared-relu", "mlp-kernel")):
        assert told[after].memory_bytes < told[before].memory_bytes
    assert told["value-skip"].memory_bytes > told["zero-init"].memory_bytes
    assert told["value-skip"].step_s > told["zero-init"].step_s
    large = [select(base.change(batch=64), up_to=name, device=ABLE).config for name in ("compile", "fused-loss")]
    assert forecast.memory_bytes(large[1]) < forecast.memory_bytes(large[0])
    assert told["graph"].launches == 1
    assert all(each.step_s > 0 and each.regime in ("compute", "bandwidth", "overhead") for each in told.values())


def test_the_forecast_knows_the_models_parameters():
    for changes in ({}, {"tied": False, "zero_init": True}, {"position": "rotary"}):
        config = toys.config(**changes)
        real = sum(param.numel() for param in GPT(config).parameters())
        assert forecast.shape_of(config).parameters == pytest.approx(real, rel=0.01)  # gains and biases of norms


SAVED = {
    "baseline": {}, "bf16": {"precision": "bf16"}, "fp8": {"precision": "fp8"}, "rotary": {"position": "rotary"},
    "compiled": {"precision": "bf16", "position": "rotary", "norm": "rms", "qk_norm": True, "compile": "model"},
    "compiled block by block": {"precision": "bf16", "position": "rotary", "norm": "rms", "qk_norm": True,
                                "compile": "blocks"},
    "normalized": {"precision": "bf16", "norm": "rms", "qk_norm": True, "value_skip": True, "token_shift": True},
    "turned": {"precision": "bf16", "norm": "rms", "qk_norm": True, "position": "rotary",
               "activation": "squared relu"},
}  # fmt: skip


def saved_bytes(config):
    """What the backward pass keeps of a loss, parameters and their casts apart."""
    model, found = GPT(config), {}
    own = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())}
    weights = {shape for each in model.parameters() for shape in (tuple(each.shape), tuple(each.shape)[::-1])}

    def pack(value):
        place = value.untyped_storage()
        if place.data_ptr() not in own and tuple(value.shape) not in weights:
            found[place.data_ptr()] = (value, place.nbytes())  # the value is held, so that its place is not used again
        return value

    tokens = torch.zeros(config.batch, config.length, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        (compiled_as(model, config.compile) if config.compile != "no" else model)(tokens, tokens)
    return sum(size for _, size in found.values())


@pytest.mark.parametrize(
    ("name", "attention"),
    [*((name, "fused") for name in SAVED), *((name, "plain") for name in ("baseline", "bf16", "rotary", "turned"))],
)
def test_the_forecast_counts_what_the_backward_pass_keeps(name, attention):
    config = toys.config(**SAVED[name] | {"width": 128, "length": 64, "batch": 4, "attention": attention,
                                          "loss": "chunks", "padded_vocabulary": True})  # fmt: skip
    with quiet():
        two, four = (saved_bytes(config.change(layers=layers)) for layers in (2, 4))
    torch._dynamo.reset()
    counted = forecast.kept_bytes(config) * config.batch * config.length
    assert counted == pytest.approx((four - two) / 2, rel=0.02)


def test_advice_names_a_batch_that_fits():
    config = preset("gpt2-small")
    told = forecast.advice(config, 0.7 * forecast.memory_bytes(config))
    assert "Lower the batch from 16 to 8" in told
    assert "accumulation 2" in told
    assert "Lower the length, the width or the layers" in forecast.advice(config, 1e6)


@pytest.mark.parametrize("text", ["rungs=muon", "preset=mine"])
def test_a_name_that_a_run_goes_by_is_not_set(text, capsys):
    """It would be one that the run is not: a ladder's rungs, a preset's shape."""
    assert cli.main(["speedrun", "--device", "cpu", "--steps", "1", "--set", text]) == 1
    assert f"in place of --set {text.partition('=')[0]}=" in capsys.readouterr().err


def test_a_run_of_the_twin_is_not_gone_on_with_in_torch(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(preset("tiny").to_dict()))
    (tmp_path / "version.json").write_text(json.dumps({"data": {"name": "stdlib"}, "framework": "jax"}))
    (tmp_path / "log.jsonl").write_text("")
    assert cli.main(["speedrun", "--device", "cpu", "--resume", str(tmp_path)]) == 1
    assert "is of the twin in JAX, which keeps no checkpoints" in capsys.readouterr().err
