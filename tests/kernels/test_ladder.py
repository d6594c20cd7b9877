"""The steps of each ladder: all right, each with the bytes that its reason promises, short, and without spills."""

import argparse
import ast
import dataclasses
import inspect
import itertools
import json

import pytest

from rooflab import kernel_ladder, kernel_ladder_figure
from rooflab.counters import count
from rooflab.device import find_device
from rooflab.files import OutputError
from rooflab.kernels.ladder import LADDERS, difference, find_ladder
from rooflab.kernels.ladder.builds import builds
from rooflab.kernels.ladder.predictions import COUNTS, SIZES, predicted, units
from rooflab.records import save_record

from .agreement import DEVICE, counts, near, random, torch
from .compiling import told_elsewhere

STEPS = [step for ladder in LADDERS.values() for step in ladder]
SOFTMAX = {step.name: step for step in LADDERS["softmax"]}


def softmax(step, x):
    y = torch.full_like(x, 7.0)
    step.function()(y, x)
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (40, 100), (5, 1300)], ids=str)
@pytest.mark.parametrize("step", SOFTMAX.values(), ids=SOFTMAX)
def test_every_step_of_softmax_is_right(step, shape, dtype):
    x = random(*shape, dtype=dtype, scale=3)
    near(softmax(step, x), x.double().softmax(-1), length=shape[-1])


@pytest.mark.parametrize("step", SOFTMAX.values(), ids=SOFTMAX)
def test_rows_that_begin_with_minus_infinity(step):
    x = random(3, 2100)
    x[0, :2000] = -float("inf")
    x[1, 5] = -float("inf")
    near(softmax(step, x), x.double().softmax(-1), length=2100)


@counts
@pytest.mark.parametrize(
    ("name", "reads", "moved_per_used"),
    [
        ("naive", 3, 8),
        ("coalesced", 3, 1),
        ("online", 2, 1),
        ("registers", 1, 1),
        ("persistent", 1, 1),
        ("pipelined", 1, 1),
    ],
)
def test_each_step_moves_the_bytes_that_it_says(name, reads, moved_per_used):
    x = random(64, 256)
    y = torch.zeros_like(x)
    found = count(lambda: SOFTMAX[name].function()(y, x), world="triton")
    assert (found.bytes_read, found.bytes_written) == (reads * 4 * x.numel(), 4 * x.numel())
    assert found.moved_per_used == moved_per_used
    assert found.faults == ()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.ladder} {step.name}")
def test_each_step_is_short_and_says_why_it_is_faster(step):
    source = inspect.getsource(step.module())
    assert len(source.splitlines()) <= 60
    told = ast.get_docstring(ast.parse(source))
    assert step.number == 1 or "aster " in told
    assert step.reason


def test_a_reader_goes_from_one_step_to_the_next_with_a_diff():
    for one, other in itertools.chain(*(itertools.pairwise(steps) for steps in LADDERS.values())):
        lines = difference(one, other).splitlines()
        changed = [line for line in lines if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))]
        assert 2 <= len(changed) <= 56, (one.ladder, one.name, other.name)
    assert difference(*LADDERS["softmax"][4:6]).startswith("--- 5 persistent\n+++ 6 pipelined")


def test_a_ladder_that_is_none_is_told():
    with pytest.raises(ValueError, match="no ladder of 'nothing'; expected one of softmax"):
        find_ladder("nothing")
    with pytest.raises(ValueError, match=r"no ladder of 'mat_mul'; did you mean matmul\?$"):
        find_ladder("mat_mul")


@pytest.mark.skipif(DEVICE != "cpu", reason="on a GPU the command measures")
def test_the_command_shows_the_ladder(capsys):
    from rooflab.cli import main

    assert main(["ladder", "softmax"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[1:7]] == ["3", "3", "2", "1", "1", "1"]
    assert main(["ladder", "matmul"]) == 0
    products = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in products[1:7]] == ["64.5", "64.5", "1", "1", "1", "1"]
    assert products[4].split("|")[3].strip() == "202 µs"
    assert lines[1].split("|")[2].strip() == "16", "of 32 bytes, 2 are used"
    assert "Steps with the same prediction are held by the same thing" in "\n".join(lines)
    told = " ".join(products)
    assert "1 the cache; 2 instructions; 3 instructions and products, in turn; 4 to 6 products." in told
    assert main(["ladder", "softmax", "--diff", "5", "6"]) == 0
    assert "num_stages=STAGES" in capsys.readouterr().out
    assert main(["ladder", "softmax", "--diff", "1", "9"]) == 1
    assert "There is no step 9; expected one of 1 to 6" in capsys.readouterr().err


def test_the_code_of_a_step_is_shown(capsys):
    from rooflab.cli import main

    assert main(["ladder", "softmax", "--step", "2"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("@triton.jit\ndef softmax_kernel(")
    assert "def softmax(" in told
    assert main(["ladder", "softmax", "--step", "coalesced"]) == 0
    assert capsys.readouterr().out == told
    assert main(["ladder", "softmax", "--step", "7"]) == 1
    assert "There is no step 7; expected one of 1 to 6, or of naive, coalesced" in capsys.readouterr().err
    assert main(["ladder", "softmax", "--diff", "2", "2"]) == 0
    assert capsys.readouterr().out == "Nothing changes.\n"


def test_a_picture_is_drawn_as_its_name_says_and_not_of_code(capsys, monkeypatch, tmp_path):
    from rooflab.cli import main

    monkeypatch.chdir(tmp_path)
    kernel_ladder._keep(argparse.Namespace(kernel="softmax", record=False, figure=tmp_path / "a.svg"), {}, "H200")
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    assert main(["ladder", "softmax", "--step", "2", "--figure", "a.png"]) == 1
    assert "expected --figure and --record without --step" in capsys.readouterr().err


def test_without_times_there_is_nothing_to_record():
    with pytest.raises(ValueError, match="no times to record"):
        kernel_ladder._refuse(argparse.Namespace(record=True, figure=None), measured=False)


@pytest.mark.parametrize(
    ("figure", "sentence"),
    [
        ("nowhere/steps.png", "no folder nowhere for the figure"),
        ("folder.png", "folder.png is a folder: name a file in it"),
        ("steps.txt", "name ends in .png or .svg; found steps.txt"),
        ("full/steps.png", "Cannot write full"),
    ],
)
def test_what_cannot_be_kept_is_told_before_anything_is_counted(figure, sentence, capsys, monkeypatch, tmp_path):
    from rooflab.cli import main

    def refusing(folder):
        raise OutputError(f"Cannot write {folder}: no space is left")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr(kernel_ladder, "output_folder", refusing)
    assert main(["ladder", "softmax", "--figure", figure]) == 1
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.out == ""


MATMUL = {step.name: step for step in LADDERS["matmul"]}


def product(step, a, b):
    c = torch.full((a.shape[0], b.shape[1]), 7.0, dtype=a.dtype, device=DEVICE)
    step.function()(c, a, b)
    return c


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name in MATMUL for shape in ((16, 16, 16), (130, 136, 24))]
    # The first steps have a program for few numbers: minutes in the interpreter.
    + [(name, (257, 144, 200)) for name in list(MATMUL)[2:]],
    ids=str,
)
def test_every_step_of_the_product_is_right(name, shape, dtype):
    step, (m, n, k) = MATMUL[name], shape
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    near(product(step, a, b), a.double() @ b.double(), length=k)


@counts
@pytest.mark.parametrize("name", MATMUL)
def test_each_step_of_the_product_reads_as_often_as_it_says(name):
    m, n, k = {"naive": (128, 8, 16), "coalesced": (8, 128, 16)}.get(name, (256, 512, 128))
    a, b = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16, seed=1)
    c = torch.zeros(m, n, dtype=torch.float16)
    found = count(lambda: MATMUL[name].function()(c, a, b), world="triton")
    once = 2 * m * n * k
    often, seldom = once, once // 128  # 2 bytes for each product; or for 128 of them
    known = {"naive": (often, seldom), "coalesced": (seldom, often), "specialized": (seldom // 2, seldom)}
    reads = known.get(name, (seldom, seldom))
    assert found.bytes_read == sum(reads)
    assert found.bytes_written == 2 * m * n
    assert found.flops >= 2 * m * n * k
    assert found.faults == ()


ATTENTION = {step.name: step for step in LADDERS["attention"]}
WHOLE_TILES = list(ATTENTION)[4:]


def attended(step, q, k, v):
    o = torch.full_like(q, 7.0)
    step.function()(o, q, k, v)
    return o


def heads(*shape, dtype=torch.bfloat16):
    return [random(*shape, dtype=dtype, seed=seed, scale=2) for seed in range(3)]


def right(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("name", "shape"),
    # The first steps go through the keys one by one, or have a program for each query: minutes in the interpreter.
    [
        ("naive", (2, 5, 16)),
        ("naive", (1, 33, 2)),
        ("tiled", (2, 200, 64)),
        *((name, (2, 37, 16)) for name in ("coalesced", "online", "tiled")),
        *((name, shape) for name in WHOLE_TILES for shape in ((1, 128, 16), (3, 256, 64))),
    ],
    ids=str,
)
def test_every_step_of_attention_is_right(name, shape, dtype):
    q, k, v = heads(*shape, dtype=dtype)
    near(attended(ATTENTION[name], q, k, v), right(q, k, v), length=shape[1], terms=1.0)


def test_a_tile_that_reaches_into_the_next_head_is_refused():
    for name in WHOLE_TILES:
        with pytest.raises(ValueError, match="lengths that 128 divides; found 130"):
            attended(ATTENTION[name], *heads(1, 130, 16))


@counts
@pytest.mark.parametrize("name", ATTENTION)
def test_each_step_of_attention_moves_what_its_prediction_says(name):
    """The prediction is of D = 128 and of so many keys that queries and the output do not count."""
    length, width = {"naive": (24, 16), "coalesced": (40, 16), "online": (40, 16)}.get(name, (256, 32))
    q, k, v = heads(1, length, width)
    o = torch.zeros_like(q)
    found = count(lambda: ATTENTION[name].function()(o, q, k, v), world="triton")
    per_score = found.bytes * found.moved_per_used / units("attention", (1, length, width))
    wanted, ends = COUNTS["attention"][name].asked * width / 128, 4 * width / length
    if name == "naive":  # k and v come once for 24 queries, not for 128; and a score that is written takes a sector
        wanted, ends = width * (64 + 64 / length) + 32, 32 * width / length
    elif name == "coalesced":
        wanted = 4 * width + 8
    assert per_score == pytest.approx(wanted + ends, rel=1e-6)
    assert found.faults == ()


def test_every_step_has_a_prediction_and_none_is_slower_than_the_last():
    for ladder, steps in LADDERS.items():
        assert list(COUNTS[ladder]) == [step.name for step in steps]
        times = [predicted(ladder, step.name) for step in steps]
        # By 2 %: what is taken from memory may cost an instruction.
        assert all(after <= 1.02 * before for before, after in itertools.pairwise(times)), ladder
        assert all(1e-5 < taken < 1 for taken in times)
    assert predicted("softmax", "registers") == pytest.approx(
        4 * units("softmax", SIZES["softmax"]) / 4.28e12, rel=0.01
    )


COMPILED = """
import json
from rooflab.kernels.compiled import compile_for
from rooflab.kernels.ladder.builds import builds
told = {}
for name, build in builds().items():
    made = compile_for(build, "sm90")
    ptx, ttgir = made.text["ptx"], made.text["ttgir"]
    told[name] = [made.spill_bytes, made.shared_bytes, made.longest_loop(), "wgmma" in ptx,
                  "cp.async.bulk.tensor" in ptx, "ttg.warp_specialize" in ttgir and "setmaxnreg" in ptx]
print(json.dumps(told))
"""


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.ladder} {step.name}")
def test_what_is_compiled_is_what_is_launched(step, monkeypatch):
    """Also the number of stages: at one more, a kernel may want more shared memory than there is."""
    launched = {}
    monkeypatch.setattr(step.module(), "launch", lambda kernel, grid, *given, **constants: launched.update(constants))
    shape = {"softmax": (4, SIZES["softmax"][1]), "matmul": (128, 128), "attention": (1, 128, SIZES["attention"][2])}
    some = torch.zeros(shape[step.ladder], dtype=torch.bfloat16)
    step.function()(*[some] * {"softmax": 2, "matmul": 3, "attention": 4}[step.ladder])
    build = builds()[f"{step.ladder} {step.name}"]
    warps, stages = launched.pop("num_warps", 4), launched.pop("num_stages", 3)  # Triton's defaults
    assert (launched, warps, stages) == (build.constants, build.warps, build.stages)


def test_what_the_steps_become_for_hopper(tmp_path):
    """No spills; matrix units, the copy engine and groups of warps from that step on that is named for them."""
    told = told_elsewhere(COMPILED, tmp_path)
    assert {name: spilled for name, (spilled, *_) in told.items() if spilled} == {}
    assert all(shared <= 227 * 1024 for _, shared, *_ in told.values())
    for ladder, marks in (("matmul", "tiled pipelined specialized"), ("attention", "tiled pipelined specialized")):
        names = [step.name for step in LADDERS[ladder]]
        for place, mark in enumerate(marks.split()):
            has = [told[f"{ladder} {name}"][3 + place] for name in names]
            assert has == [names.index(name) >= names.index(mark) for name in names], (ladder, mark)
    # Instructions of one turn, for each score of a thread; the predictions have these numbers.
    turn = {"coalesced": 32 / 128, "online": 32 / 128, "tiled": 64}
    for name, scores in turn.items():
        loops = 2 if name == "coalesced" else 1
        counted = COUNTS["attention"][name].instructions
        assert told[f"attention {name}"][2] * loops / scores == pytest.approx(counted, rel=0.2), name


SECONDS = {
    "naive": 1.7e-3,
    "coalesced": 78e-6,
    "online": 80e-6,
    "registers": 67e-6,
    "persistent": 77e-6,
    "pipelined": 76e-6,
    "ceiling": 66e-6,
}


H200 = dataclasses.replace(find_device(), name="NVIDIA H200", kind="cuda")


def ladder(*words):
    parser = argparse.ArgumentParser()
    kernel_ladder.add_ladder_options(parser)
    return kernel_ladder.show_ladder(parser.parse_args(["softmax", *words]))


@counts
def test_times_of_the_reference_device_stand_beside_the_counts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("rooflab.records.records_folder", lambda: tmp_path)
    assert ladder() == 0
    told = capsys.readouterr().out
    assert "67 µs" not in told
    assert "x roof" not in told
    assert "Recorded: nothing yet; `rooflab ladder softmax --record` on an H200 keeps its times." in told
    (row,) = (line for line in told.splitlines() if line.startswith("1 naive"))
    assert [cell.strip() for cell in row.split("|")][3:4] == ["257 µs"]
    save_record("ladder_softmax", {"seconds": SECONDS}, device=H200)
    assert ladder("--figure", str(tmp_path / "steps.png")) == 0
    told = capsys.readouterr().out
    rows = [line.split("|") for line in told.splitlines() if "|" in line]
    assert [cell.strip() for cell in rows[0]][3:6] == ["predicted", "recorded", "x roof"]
    assert [cell.strip() for cell in rows[1]][3:6] == ["257 µs", "1.7 ms", "6.6"]
    assert [cell.strip() for cell in rows[4]][3:6] == ["62.8 µs", "67 µs", "1.1"]
    (day,) = (json.loads(path.read_text())["date"][:10] for path in tmp_path.glob("nvidia-h200/ladder_softmax.json"))
    assert f"Recorded on an H200 on {day}. x roof: as many times the prediction." in told
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="There is no GPU here, so there are no times to record"):
        ladder("--record")


@counts
@pytest.mark.parametrize("damage", [{}, {"seconds": 3}, {"seconds": {"naive": None}}])
def test_a_damaged_record_of_a_ladder_is_named_and_left_out(damage, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("rooflab.records.records_folder", lambda: tmp_path)
    save_record("ladder_softmax", damage, device=H200)
    assert ladder() == 0
    told = capsys.readouterr()
    assert "the record of softmax on nvidia-h200 is damaged: restore it, or record it again" in told.err
    assert "Recorded: nothing yet" in told.out


@counts
def test_a_step_that_is_not_in_the_record_has_a_dash_and_the_figure_its_predictions(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("rooflab.records.records_folder", lambda: tmp_path)
    save_record("ladder_softmax", {"seconds": {"naive": 1.7e-3, "ceiling": 66e-6}}, device=H200)
    drawn = []
    monkeypatch.setattr(kernel_ladder, "draw_ladder", lambda *given: drawn.append(given) or b"")
    assert ladder("--figure", str(tmp_path / "steps.png")) == 0
    rows = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert [row[4:6] for row in rows[1:3]] == [["1.7 ms", "6.6"], ["–", "–"]]
    assert drawn == [("softmax", {}, "NVIDIA H200", "png")]


@pytest.mark.parametrize("name", LADDERS)
@pytest.mark.parametrize("measured", [False, True], ids=["predicted", "measured"])
def test_a_ladder_has_a_figure_whose_names_are_apart_and_whose_points_are_under_their_roofs(
    name, measured, monkeypatch
):
    import numpy as np

    from rooflab.plots import style

    figures, png = [], style.png
    monkeypatch.setattr(style, "png", lambda fig: figures.append(fig) or png(fig))
    times = {step.name: predicted(name, step.name) * 1.2 for step in LADDERS[name]} | {"ceiling": 1e-4}
    assert kernel_ladder_figure.draw_ladder(name, times if measured else {}).startswith(b"\x89PNG")
    (fig,), (ax,) = figures, figures[0].axes
    fig.draw_without_rendering()  # the sizes of texts were those of the picture's resolution
    numbers = sorted(number for each in ax.texts for number in each.get_text().split(", "))
    assert numbers == [str(step.number) for step in LADDERS[name]]
    named = [text.get_text() for legend in fig.legends for text in legend.get_texts()]
    assert {one.partition("\n")[0] for one in named} >= {f"{step.number} {step.name}" for step in LADDERS[name]}
    boxes = [each.get_window_extent() for each in ax.texts]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    roofs = [line for line in ax.lines if line.get_linestyle() in ("--", ":")]
    (steps,) = (line for line in ax.lines if line.get_marker() == "o")
    for roof in roofs:
        x, y = roof.get_data() if roof.get_linestyle() == "--" else (ax.get_xlim(), roof.get_ydata())
        above = np.exp(np.interp(np.log(steps.get_xdata()), np.log(x), np.log(y)))
        assert (steps.get_ydata() <= above * 1.01).all()


@pytest.mark.parametrize(
    ("device", "title", "roofs"),
    [
        ("NVIDIA H200", "under the roofs of an H200", ["cache 33.5 TB/s, the library's product 698 TFLOP/s"]),
        (
            "NVIDIA A100-SXM4-80GB",
            "under the roofs of NVIDIA A100 SXM4 80 GB's data sheet",
            ["matrix units 312 TFLOP/s"],
        ),
        ("NVIDIA RTX 9999", "on NVIDIA RTX 9999, without roofs", []),
    ],
)
def test_another_chips_times_are_under_its_own_roofs_or_none(device, title, roofs, monkeypatch):
    from rooflab.plots import style

    figures = []
    monkeypatch.setattr(style, "png", lambda fig: figures.append(fig) or b"")
    times = {step.name: predicted("matmul", step.name) * 3 for step in LADDERS["matmul"]} | {"ceiling": 1e-3}
    kernel_ladder_figure.draw_ladder("matmul", times, device)
    (fig,) = figures
    assert fig.get_suptitle() == f"The steps of matmul {title}"
    named = [text.get_text() for legend in fig.legends for text in legend.get_texts()]
    assert [name for name in named if "B/s" in name or "FLOP/s" in name] == roofs


def test_lines_below_the_table_are_as_wide_as_the_terminal(monkeypatch, capsys):
    for module in ("kernel_ladder", "plaintext"):
        monkeypatch.setattr(f"rooflab.{module}.terminal_width", lambda: 60)
    assert ladder() == 0
    told = capsys.readouterr().out.partition("\n\n")[2].splitlines()
    assert len(told) > 3
    assert all(len(line) <= 60 for line in told)


@counts
@pytest.mark.parametrize("name", ["softmax", "attention"])
def test_the_table_fits_into_eighty_columns(name, monkeypatch, tmp_path, capsys):
    for module in ("kernel_ladder", "plaintext"):
        monkeypatch.setattr(f"rooflab.{module}.terminal_width", lambda: 80)
    monkeypatch.setattr("rooflab.records.records_folder", lambda: tmp_path)
    monkeypatch.setattr(kernel_ladder, "_counts", lambda steps, size: [["64.5", "16"]] * len(steps))
    seconds = {step.name: 123.4e-6 for step in LADDERS[name]} | {"ceiling": 66e-6}
    save_record(f"ladder_{name}", {"seconds": seconds}, device=H200)
    parser = argparse.ArgumentParser()
    kernel_ladder.add_ladder_options(parser)
    assert kernel_ladder.show_ladder(parser.parse_args([name])) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
