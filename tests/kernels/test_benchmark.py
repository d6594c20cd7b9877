"""The benchmark's cases: every candidate runs, is right, and is timed beside the others."""

import argparse
import dataclasses
import functools
import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from rooflab import kernel_bench, kernel_figure, records
from rooflab.cli import main, parse
from rooflab.clocks import HostClock
from rooflab.device import find_device
from rooflab.kernels import benchmark
from rooflab.kernels.attend.cases import cases as attention
from rooflab.kernels.benchmark import Case, graph_clock, run_case, share
from rooflab.kernels.catalogue import every_case, find_build
from rooflab.kernels.jax_cases import cases as jax_cases
from rooflab.kernels.pointwise.cases import cases as pointwise
from rooflab.kernels.quantize.cases import cases as quantize
from rooflab.kernels.rows.cases import cases as rows
from rooflab.records import short_name

from .agreement import DEVICE, torch

CASES = [*rows(((6, 40),), DEVICE), *pointwise(((5, 24),), DEVICE), *quantize(((4, 64),), DEVICE)]
A_CHIP = dataclasses.replace(find_device(), name="A chip", kind="cuda")
CASES += attention(((16, 40, False), (16, 40, True)), ((2, 50, 16),), DEVICE, 40)
CASES += jax_cases(((6, 40),), ((32, 24, 24),), ((16, 40, True),), ((16, 40, True),), DEVICE, 40)


def host(sets, seconds):
    return HostClock()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kernel} {case.size}")
def test_every_candidate_is_right_and_has_a_time(case):
    found = run_case(case, rounds=1, budget_s=0.01, clock=host, sets=2)
    assert found.left_out == {}
    assert set(found.seconds) == {*case.candidates, *case.jax}
    assert {"rooflab", case.ceiling} <= set(found.seconds)
    assert all(taken > 0 for taken in found.seconds.values())


def case_of(mine):
    def made(seed):
        return (torch.full((4, 4), float(seed + 1)),)

    return Case("double", "4 x 4", made, {"copy": torch.clone, "rooflab": mine}, "copy", lambda x: 2 * x)


@pytest.mark.parametrize("wrong", [lambda x: x, lambda x: 2.01 * x, lambda x: x * float("nan")])
def test_what_is_wrong_is_not_measured(wrong):
    with pytest.raises(AssertionError, match="double 4 x 4: the result of rooflab is off by"):
        run_case(case_of(wrong), rounds=1, budget_s=0.01, clock=host, sets=2)


def failing(x):
    raise NotImplementedError("not on this chip\nand a long trace")


def test_a_rival_that_cannot_run_is_left_out_and_ours_is_an_error():
    candidates = {"copy": torch.clone, "rooflab": lambda x: 2 * x, "library": failing}
    case = dataclasses.replace(case_of(None), candidates=candidates)
    found = run_case(case, rounds=1, budget_s=0.01, clock=host, sets=2)
    assert set(found.seconds) == {"copy", "rooflab"}
    assert found.left_out == {"library": "not on this chip"}
    with pytest.raises(NotImplementedError):
        run_case(case_of(failing), rounds=1, budget_s=0.01, clock=host, sets=2)


def test_what_waits_for_the_device_is_timed_apart():
    clocks = []

    def clock(*_):
        clocks.append(HostClock())
        return clocks[-1]

    candidates = {"copy": torch.clone, "rooflab": lambda x: 2 * x, "library": lambda x: 2 * x}
    case = dataclasses.replace(case_of(None), candidates=candidates, waiting=("library", "not installed"))
    found = run_case(case, rounds=2, budget_s=0.01, clock=clock, waiting_clock=clock, sets=2)
    assert set(found.seconds) == set(candidates)
    assert len(clocks) == 4
    run_case(dataclasses.replace(case, waiting=()), rounds=2, budget_s=0.01, clock=clock, waiting_clock=failing, sets=2)


@pytest.mark.parametrize("sets", [1, 2, 3, 8, 20, 21, 50])
def test_a_graph_rotates_through_all_inputs_evenly(sets, monkeypatch):
    monkeypatch.setattr("rooflab.clocks._torch_with_gpu", lambda what: None)
    for seconds, calls in ((1e-5, 20), (1e-3, 10), (0.1, 1)):
        unroll = graph_clock(sets, seconds).unroll
        assert unroll % sets == 0
        assert calls <= unroll < calls + sets


def test_inputs_are_rotated():
    seen = set()
    run_case(case_of(lambda x: (seen.add(float(x[0, 0])), 2 * x)[1]), rounds=1, budget_s=0.01, clock=host, sets=3)
    assert seen == {1.0, 2.0, 3.0}


def test_loops_of_jax_are_measured_without_their_launch(monkeypatch):
    jax = pytest.importorskip("jax", reason="needs JAX")
    loop = benchmark.JaxTimer(benchmark.JaxLoop(lambda x, y: x + y, jax.numpy.zeros(4), (jax.numpy.ones(4),)))
    short, long = (run(loop.loop.state, *loop.loop.arrays) for run in loop.runs)
    assert (float(short[0]), float(long[0])) == (10.0, 50.0)
    ticks = itertools.count()
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: float(next(ticks)))
    assert loop.seconds() == pytest.approx(1e-9 / 40), "both lengths took one tick: nothing is left"


def test_shares_are_sorted():
    assert list(share({"copy": 1.0, "a": 4.0, "b": 2.0}, "copy").items()) == [("b", 0.5), ("a", 0.25)]


FOUND = {
    "softmax 16384 x 1024": {"ceiling": "copy", "target": 0.95,
                             "seconds": {"copy": 2e-5, "rooflab": 2.05e-5, "eager": 4e-5, "jax": 3e-5}},
    "rms_norm 8 x 8": {"ceiling": "copy", "target": 0.95, "seconds": {"copy": 1e-5, "rooflab": 2e-5}},
}  # fmt: skip


def test_a_row_says_whether_the_target_is_reached():
    rows = [kernel_bench.row(name, one) for name, one in FOUND.items()]
    assert rows[0] == ["softmax", "16384 x 1024", "20.5 µs", "0.98", "0.67 (jax)", "0.95"]
    assert rows[1][3:] == ["0.50", "–", "0.95, missed"]
    nearly = {"ceiling": "copy", "target": 0.9, "seconds": {"copy": 0.8956e-5, "rooflab": 1e-5}}
    assert kernel_bench.row("softmax 8 x 8", nearly)[3:] == ["0.896", "–", "0.90, missed"]


def test_a_row_says_who_is_ahead_and_what_memory_is_taken():
    one = {"ceiling": "copy", "target": 0.95, "leads": True, "seconds": {"copy": 1e-5, "rooflab": 1.03e-5}}
    assert kernel_bench.row("softmax 8 x 8", one | {"seconds": one["seconds"] | {"jax": 1.025e-5}})[5] == "0.95"
    assert kernel_bench.row("softmax 8 x 8", one | {"seconds": one["seconds"] | {"jax": 1.0e-5}})[5] == "0.95, behind"
    memory = one | {"most_bytes": 300 * 2**20, "peak_bytes": {"rooflab": 288 * 2**20, "copy": 872 * 2**20}}
    assert kernel_bench.row("loss 8 x 8", memory)[4:] == ["–; 288 MiB (872 MiB)", "0.95"]
    memory["peak_bytes"]["rooflab"] = 301 * 2**20
    assert kernel_bench.row("loss 8 x 8", memory)[5] == "0.95, over 300 MiB"


def kept(tmp_path, monkeypatch, **kernels):
    """Records of a chip: of each kernel its cases by size."""
    monkeypatch.setattr("rooflab.records.records_folder", lambda: tmp_path / "records")
    for kernel, cases in kernels.items():
        found = {f"{kernel} {size}": one for size, one in cases.items()}
        records.save_record(f"kernels_{kernel}", found, device=A_CHIP)


def test_what_is_recorded_is_shown_without_a_place_for_figures(tmp_path, monkeypatch, capsys):
    kept(tmp_path, monkeypatch, softmax={"8 x 8": of_shares(rooflab=0.97)})
    (tmp_path / "a file").touch()
    assert main(["bench", "kernels", "--recorded", "a-chip", "--output", str(tmp_path / "a file")]) == 0
    out, err = capsys.readouterr()
    assert "softmax |" in out
    assert "figure" not in out
    words = " ".join(err.split())
    assert words.startswith("Cannot write ")
    assert words.endswith("choose another folder. So there is no figure: `--output DIR` takes one.")


def test_where_results_cannot_be_kept_nothing_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_bench, "_need_gpu", lambda: None)
    monkeypatch.setattr("rooflab.kernels.catalogue.every_case", lambda wanted: iter([case_of(lambda x: 2 * x)]))
    monkeypatch.setattr(kernel_bench, "_prepare", failing)
    (tmp_path / "results").touch()
    with pytest.raises(OSError, match=r"Cannot write .*: a file stands where a folder is needed"):
        kernel_bench.bench(options(tmp_path))


def test_figures_are_named_and_one_of_a_part_replaces_none_of_the_whole(tmp_path, monkeypatch, capsys):
    sizes = {"16384 x 1024": of_shares(rooflab=0.97), "8 x 8": of_shares(rooflab=0.97)}
    kept(tmp_path, monkeypatch, softmax=sizes, rms_norm=sizes, gelu=sizes)
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "kernels-older.png").touch()

    def written(*words):
        before = set(folder.iterdir())
        assert kernel_bench.bench(options(tmp_path, *words, "--recorded", "a-chip")) == 0
        (told,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("The figure")]
        new = {path.name for path in set(folder.iterdir()) - before}
        assert set(re.findall(r"kernels-\S+\.png", told)) == new
        return new

    assert written() == {"kernels-rows-forward.png", "kernels-pointwise.png"}
    assert written("rms_norm", "softmax") == {"kernels-softmax-rms_norm.png"}
    assert written("--size", "16384x1024") == {
        "kernels-rows-forward-16384x1024.png",
        "kernels-pointwise-16384x1024.png",
    }
    assert written("gelu", "--size", "8 x 8") == {"kernels-gelu-8x8.png"}


def test_what_memory_is_shown_is_said_where_it_is_shown(tmp_path, monkeypatch, capsys):
    memory = {"most_bytes": 300 * 2**20, "peak_bytes": {"rooflab": 288 * 2**20, "copy": 872 * 2**20}}
    one = of_shares(rooflab=0.97)
    kept(tmp_path, monkeypatch, softmax={"8 x 8": one | memory}, gelu={"8 x 8": one})
    for kernel, told in (("softmax", True), ("gelu", False)):
        assert kernel_bench.bench(options(tmp_path, kernel, "--recorded", "a-chip")) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert ("the peak of memory beside the inputs, of ours and of the ceiling" in out) == told


@pytest.mark.parametrize("cases", [
    ["softmax 16384 x 1024", "softmax 16384 x 4096", "softmax 8192 x 8192", "softmax 2048 x 32768"],
    ["gelu 16384 x 3072", "gelu 8192 x 11008"],
    ["matmul 2048 x 2048 x 2048", "matmul 4096 x 4096 x 1000", "matmul 4096 x 1000 x 4096", "matmul 4096 x 4096 x 4096",
     "matmul 4096 x 14336 x 4096", "matmul 4096 x 4096 x 14336", "matmul 8192 x 8192 x 8192"],
    ["matvec_int4 1 x 14336 x 4096", "matvec_int4 1 x 28672 x 8192", "matvec_int4 8 x 14336 x 4096"],
    ["attention L=1024 D=64 full", "attention L=1024 D=128 full", "attention L=4096 D=64 causal",
     "attention L=4096 D=64 full", "attention L=4096 D=128 causal", "attention L=16384 D=64 full"],
    ["attention_decode B=1 L=131072 D=128", "attention_decode B=16 L=8192 D=128"],
])  # fmt: skip
def test_little_work_stands_before_much_and_short_rows_before_long(cases):
    assert sorted(cases, key=kernel_bench._order) == cases


def options(tmp_path, *words):
    parser = argparse.ArgumentParser()
    kernel_bench.add_bench_options(parser)
    return parser.parse_args(["kernels", *words, "--output", str(tmp_path / "results")])


def test_results_are_kept_as_they_come_a_record_for_each_kernel(tmp_path, monkeypatch, capsys):
    ours = {"double": lambda x: 2 * x, "wrong": lambda x: x, "failing": failing}
    cases = [dataclasses.replace(case_of(mine), kernel=name) for name, mine in ours.items()]
    monkeypatch.setattr(kernel_bench, "_need_gpu", lambda: None)
    monkeypatch.setattr(kernel_bench, "_free", lambda: None)
    monkeypatch.setattr("rooflab.kernels.catalogue.every_case", lambda wanted: iter(cases))
    monkeypatch.setattr("rooflab.kernels.precompile.compile_candidates", lambda kernels, size: None)
    once = functools.partial(run_case, rounds=1, budget_s=0.01, clock=host, sets=2)
    monkeypatch.setattr("rooflab.kernels.benchmark.run_case", once)
    monkeypatch.setattr("rooflab.records.records_folder", lambda: tmp_path / "records")
    assert kernel_bench.bench(options(tmp_path, "--record")) == 1
    told = capsys.readouterr().out
    assert "rooflab: wrong 4 x 4: the result of rooflab is off by" in told
    assert 0 < told.index("rooflab: failing 4 x 4: not on this chip") < told.index("best rival"), "told at once"
    assert "2 of 3 cases could not be measured: the reasons stand above the table." in told
    (path,) = (tmp_path / "records").glob("*/*.json")
    assert path.name == "kernels_double.json"
    assert set(json.loads(path.read_text())["values"]["double 4 x 4"]["seconds"]) == {"copy", "rooflab"}
    assert kernel_bench.bench(options(tmp_path, "--recorded", path.parent.name)) == 0
    told = capsys.readouterr().out
    assert "double | 4 x 4 |" in told
    record = json.loads(path.read_text())
    assert f"Recorded on {short_name(record)}, {record['date'][:10]} (torch " in told
    assert f"commit {record['commit'][:10]})" in told
    device = path.parent.name
    with pytest.raises(ValueError, match=f"no record of kernels on 'nowhere'; recorded devices: {device}"):
        kernel_bench.bench(options(tmp_path, "--recorded", "nowhere"))
    with pytest.raises(ValueError, match="no record of kernels on ''"):
        kernel_bench.bench(options(tmp_path, "--recorded", ""))
    with pytest.raises(ValueError, match=f"no record of softmax on '{device}', but of double"):
        kernel_bench.bench(options(tmp_path, "softmax", "double", "--recorded", device))
    with pytest.raises(ValueError, match="Nothing is recorded at the size '5 x 5', but at 4 x 4"):
        kernel_bench.bench(options(tmp_path, "--size", "5 x 5", "--recorded", device))


def test_a_wrong_name_is_told_before_the_lack_of_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr("rooflab.device.find_device", lambda: SimpleNamespace(kind="cpu"))
    with pytest.raises(ValueError, match="No kernel 'softmx' is measured; did you mean softmax"):
        kernel_bench.bench(options(tmp_path, "softmx"))
    with pytest.raises(ValueError, match="There is no GPU that Triton compiles for"):
        kernel_bench.bench(options(tmp_path, "softmax"))
    with pytest.raises(ValueError, match="expected --recorded without --tune and --record"):
        kernel_bench.bench(options(tmp_path, "--recorded", "nvidia-h200", "--tune"))


def test_each_group_of_kernels_has_a_picture_of_its_own():
    one = {"ceiling": "copy", "target": 0.95, "seconds": {"copy": 1e-5, "rooflab": 1.1e-5, "a new rival": 2e-5}}
    drawn = kernel_figure.draw_pictures({"softmax 8 x 8": one, "unheard_of 8 x 8": one, "matmul 8 x 8 x 8": one})
    assert list(drawn) == ["rows-forward", "products", "others"]
    assert all(picture.startswith(b"\x89PNG") for picture in drawn.values())
    assert drawn["others"] != drawn["products"]
    named = kernel_figure.draw_pictures({"softmax 8 x 8": one}, "H200, 2026-11-30")
    assert named["rows-forward"] != drawn["rows-forward"]


def test_every_kernel_that_is_measured_stands_in_one_picture():
    shown = [kernel for _, kernels in kernel_figure.PICTURES.values() for kernel in kernels]
    assert len(shown) == len(set(shown))
    assert set(shown) == {case.kernel for case in every_case(device="cpu")}


def test_without_a_gpu_the_command_says_what_to_do_instead(capsys, monkeypatch):
    monkeypatch.setattr("rooflab.device.find_device", lambda: SimpleNamespace(kind="cpu"))
    assert main(["bench", "kernels", "softmax"]) == 1
    assert "an interpreted kernel has no speed: see `rooflab compile`" in capsys.readouterr().err


def test_the_command_names_the_word_that_is_missing(capsys):
    with pytest.raises(SystemExit):
        main(["bench"])
    assert "the following arguments are required: kernels\n" in capsys.readouterr().err
    for word, meant in (("softmax", "softmax"), ("rms_norm", "rms_norm"), ("kernel", "softmax")):
        with pytest.raises(SystemExit):
            main(["bench", word])
        assert f"expected `rooflab bench kernels {meant}`, found `rooflab bench {word}`" in capsys.readouterr().err


def test_every_candidate_is_called_by_one_of_the_processes_that_compile(monkeypatch):
    from rooflab.kernels import precompile

    called = []

    def candidate(name):
        def run(x):
            called.append(name)
            if "failing" in name:
                raise RuntimeError("out of resource")

        return run

    cases = [
        dataclasses.replace(case_of(None), kernel=kernel, candidates={
            each: candidate(f"{kernel} {each}") for each in ("copy", "failing", "rooflab")
        })
        for kernel in ("a", "b", "c")
    ]  # fmt: skip
    monkeypatch.setattr("rooflab.kernels.catalogue.every_case", lambda kernels: iter(cases))
    for part in range(2):
        precompile._compile((["a", "b", "c"], None, part, 2))
    assert sorted(called) == sorted(f"{kernel} {each}" for kernel in "abc" for each in ("copy", "failing", "rooflab"))
    called.clear()
    precompile._compile((["a"], "another size", 0, 1))
    assert not called


@pytest.mark.parametrize(
    "damage", [3, {}, {"seconds": None}, {"ceiling": "copy", "target": 1, "seconds": {"copy": 1.0}}]
)
def test_a_damaged_case_of_a_record_is_named_and_left_out(damage, monkeypatch, capsys):
    whole = {"ceiling": "copy", "target": 0.9, "seconds": {"copy": 1e-3, "rooflab": 1e-3}}
    told = {"date": "2026-11-30T10:00", "commit": "0123456789ab", "versions": {}, "device": {"name": "A chip"}}
    record = {"unit": "kernels_gelu", "values": {"gelu 2 x 2": damage, "gelu 4 x 4": whole}} | told
    monkeypatch.setattr(records, "all_records", lambda device: [record])
    found, _, versions = kernel_bench._recorded("chip", [])
    assert list(found) == ["gelu 4 x 4"]
    assert versions == "commit 0123456789"
    assert "the record of gelu 2 x 2 on chip is damaged" in capsys.readouterr().err


def test_kernels_may_stand_behind_options(capsys):
    for words in (["gelu", "swiglu", "--recorded", "h"], ["gelu", "--recorded", "h", "swiglu"],
                  ["--recorded", "h", "gelu", "swiglu"], ["--recorded", "h", "gelu", "--tune", "swiglu"]):  # fmt: skip
        found = parse(["bench", "kernels", *words])
        assert (found.kernel, found.recorded) == (["gelu", "swiglu"], "h")
    assert parse(["bench", "kernels", "--tune", "softmax"]).kernel == ["softmax"]
    found = parse(["bench", "kernels", "softmax", "--size", "16384 x 1024", "gelu"])
    assert (found.kernel, found.size) == (["softmax", "gelu"], "16384 x 1024")
    found = parse(["compile", "softmax", "--for", "sm90", "gelu"])
    assert (found.kernel, found.chip) == (["softmax", "gelu"], ["sm90"])
    assert parse(["bench", "kernels"]).kernel == []
    for words, left in (
        (["bench", "kernels", "--nonsense", "gelu"], "--nonsense"),
        (["ladder", "softmax", "--step", "1", "gelu"], "gelu"),
    ):
        with pytest.raises(SystemExit):
            parse(words)
        assert f"unrecognized arguments: {left}\n" in capsys.readouterr().err


def test_a_name_that_is_nearly_one_is_told_the_right_one(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"^No kernel 'rmsnorm' is measured; did you mean rms_norm\?$"):
        list(every_case(["softmax", "rmsnorm"], device="cpu"))
    with pytest.raises(ValueError, match=r"^No kernel 'zzz' is measured; expected one of softmax, .*, rms_norm, "):
        list(every_case(["zzz"], device="cpu"))
    monkeypatch.setattr("rooflab.kernels.catalogue.every_build", lambda: {"softmax": None, "layer_norm": None})
    with pytest.raises(ValueError, match=r"^There is no kernel 'LayerNorm'; did you mean layer_norm\?$"):
        find_build("LayerNorm")
    monkeypatch.setattr("rooflab.records.records_folder", lambda: tmp_path)
    records.save_record("kernels_gelu", {}, device=A_CHIP)
    with pytest.raises(ValueError, match=r"^No kernel 'softmx' is measured; did you mean softmax\?$"):
        kernel_bench.bench(options(tmp_path, "softmx", "--recorded", "a-chip"))
    with pytest.raises(ValueError, match=r"^There is no record of softmax on 'a-chip', but of gelu\.$"):
        kernel_bench.bench(options(tmp_path, "softmax", "--recorded", "a-chip"))


@pytest.mark.parametrize(("taken", "told"), [(1e-5, False), (2e-5, True)])
def test_of_a_target_that_is_missed_it_is_said_where_the_reason_stands(taken, told, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("rooflab.records.records_folder", lambda: tmp_path)
    one = {"ceiling": "copy", "target": 0.95, "seconds": {"copy": 1e-5, "rooflab": taken}}
    records.save_record("kernels_gelu", {"gelu 8 x 8": one}, device=A_CHIP)
    assert kernel_bench.bench(options(tmp_path, "--recorded", "a-chip")) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Why a target is missed: ")]
    assert len(lines) == told
    for line in lines:
        path, heading = line.removeprefix("Why a target is missed: ").rstrip(".").split(", ", 1)
        notes = (Path(__file__).resolve().parents[2] / path).read_text(encoding="utf-8")
        assert f"\n## {heading.strip(chr(34))}\n" in notes


def test_a_size_may_be_typed_without_spaces(tmp_path, monkeypatch):
    cases = [dataclasses.replace(case_of(None), size=size) for size in ("4 x 4", "44 x 4")]
    given = []
    monkeypatch.setattr(kernel_bench, "_need_gpu", lambda: None)
    monkeypatch.setattr("rooflab.kernels.catalogue.every_case", lambda wanted: iter(cases))
    monkeypatch.setattr(kernel_bench, "_prepare", lambda options, cases: given.append((options.size, len(cases))))
    monkeypatch.setattr(kernel_bench, "_measure", lambda cases, options: ({}, []))
    assert kernel_bench.bench(options(tmp_path, "--size", "4x4")) == 0
    assert given == [("4 x 4", 1)]
    with pytest.raises(ValueError, match="at the size '5x5', but at 4 x 4; 44 x 4"):
        kernel_bench.bench(options(tmp_path, "--size", "5x5"))


def test_pictures_say_what_sizes_are_and_hide_no_rival(monkeypatch):
    from rooflab.plots import style

    figures = []
    monkeypatch.setattr(style, "png", lambda fig: figures.append(fig) or b"")
    one = {"ceiling": "traffic", "target": 0.9, "seconds": {"traffic": 1e-5, "rooflab": 1.1e-5, "torch": 1.1e-5}}
    kernel_figure.draw_pictures({"matvec_int8 1 x 8 x 8": one, "attention_decode B=1 L=8 D=8": one})
    (ax,) = figures[0].axes
    told = [text.get_text() for text in ax.texts]
    assert told.index("matvec_int8") + 1 == told.index("rows x N x K (ceiling: equal traffic)")
    assert told.index("attention_decode") + 1 == told.index("(ceiling: equal traffic)")
    lines = {line.get_label(): line for line in ax.get_lines()}
    rival, ours = lines["torch's own int4/int8 product"], lines["rooflab"]
    assert rival.get_zorder() > ours.get_zorder()
    assert rival.get_markersize() < ours.get_markersize()


@pytest.fixture
def drawn(monkeypatch):
    """A function that draws cases of one picture, and returns its figure."""
    from rooflab.plots import style

    figures = []
    monkeypatch.setattr(style, "png", lambda fig: figures.append(fig) or b"")

    def draw(found):
        kernel_figure.draw_pictures(found)
        figures[-1].draw_without_rendering()
        return figures[-1]

    return draw


def of_shares(target=0.95, **shares):
    return {"ceiling": "copy", "target": target, "seconds": {"copy": 1e-5, **{n: 1e-5 / s for n, s in shares.items()}}}


@pytest.mark.parametrize(
    ("lowest", "target", "left"), [(0.98, 0.95, 0.9), (0.98, 0.9, 0.85), (0.6, 0.95, 0.55), (0.07, 0.95, 0.0)]
)
def test_an_axis_begins_near_its_points_and_says_so_and_holds_ceiling_and_targets(lowest, target, left, drawn):
    fig = drawn({"gelu 8 x 8": of_shares(target, rooflab=1.02, eager=lowest), "gelu 9 x 9": of_shares(rooflab=0.99)})
    (ax,) = fig.axes
    low, high = ax.get_xlim()
    assert low == pytest.approx(left)
    assert (f", from {left:.2f} on" in ax.get_xlabel()) == (left > 0)
    shown = [x for line in ax.get_lines() if line.get_label() in ("ceiling", "target", "rooflab", "eager")
             for x in line.get_xdata()]  # fmt: skip
    assert {1.0, target, 0.95} <= set(shown)
    assert low < min(shown)
    assert max(shown) < high


def test_the_numbers_of_our_share_have_a_heading(drawn):
    (ax,) = drawn({"gelu 8 x 8": of_shares(rooflab=0.9876), "gelu 9 x 9": of_shares(rooflab=0.5)}).axes
    column = [text for text in ax.texts if text.get_text() in ("rooflab", "0.99", "0.50")]
    assert "0.947" in [text.get_text() for text in drawn({"gelu 8 x 8": of_shares(rooflab=0.947)}).axes[0].texts]
    boxes = [text.get_window_extent() for text in column]
    assert [text.get_text() for text in column] == ["rooflab", "0.99", "0.50"]
    assert len({box.x0 for box in boxes}) == 1
    assert boxes[0].y0 > boxes[1].y1 > boxes[2].y1


def test_every_heading_is_whole_and_covers_no_other_text(drawn):
    for name, (_, kernels) in kernel_figure.PICTURES.items():
        fig = drawn({f"{kernel} 16 x 1024 x 3 x 12 x 64": of_shares(rooflab=0.99, eager=0.2) for kernel in kernels})
        fig.canvas.draw()
        boxes = [(text.get_text(), text.get_window_extent()) for text in fig.axes[0].texts]
        for (one, a), (other, b) in itertools.combinations(boxes, 2):
            assert not a.overlaps(b), f"{name}: {one} and {other}"
        assert max(box.x1 for _, box in boxes) <= fig.bbox.x1, name


def test_points_of_equal_speed_do_not_cover_each_other(drawn):
    fig = drawn({f"swiglu {n} x 8": of_shares(rooflab=0.99, eager=0.07, compiled=0.992, liger=0.985) for n in (1, 2)})
    (ax,) = fig.axes
    points = []
    for line in ax.get_lines():
        if line.get_label() in ("rooflab", "eager", "compiled", "liger"):
            half = line.get_markersize() / 2 * fig.dpi / 72
            points += [(*place, half) for place in ax.transData.transform(line.get_xydata())]
    assert len(points) == 8
    for (x, y, half), (u, v, other) in itertools.combinations(points, 2):
        assert max(abs(x - u), abs(y - v)) > half + other
