"""Runs that have ended: compared with each other, ranked on a page, and watched while they go on."""

import itertools
import json
import math
import re
import shutil
from html.parser import HTMLParser
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab import cli
from rooflab.speedrun import commands, compare, curvesvg, finished, leaderboard, live, sidebyside, significance
from rooflab.speedrun.config import preset
from rooflab.speedrun.folder import RunFolder
from rooflab.speedrun.pace import Result
from rooflab.speedrun.rungs import RUNGS

from . import toys


def leave(path, times, *, seed=0, digest="d" * 64, bits=(3.0, 2.0, 1.0), target=0.0, told=None, peak=0.0, **changes):
    """The folder of a run whose losses are `bits` after `times`."""
    path.mkdir(parents=True)
    run = RunFolder(path)
    here = {"rooflab": "0.1.0", "commit": "abc", "date": "2026-01-01T00:00:00", "ranks": 1,
            "device": {"name": "a chip", "kind": "cpu"}, "versions": {"torch": "2.11", "jax": "0.10"},
            "data": {"name": "toy", "digest": digest}}  # fmt: skip
    run.begin(preset("tiny").change(seed=seed, target=target, **changes), here | (told or {}))
    for number, (time_s, value) in enumerate(zip(times, bits, strict=True), 1):
        run.log({"step": 10 * number, "time_s": time_s, "loss": value})
        run.log({"step": 10 * number, "time_s": time_s, "bits_per_byte": value})
    steps = 10 * len(times)
    run.end(Result(steps, 100 * steps, bits[-1], times[-1], 0.1, times[-1] / steps, 1000 / times[-1], peak, True), {})
    return path


def group(path, means, **changes):
    """A folder with a run for each mean time to one bit per byte."""
    for seed, mean in enumerate(means):
        leave(path / f"seed-{seed}", (mean / 3, mean / 2, mean), seed=seed, **changes)
    return path


def disturb(path):
    """Others had computed beside the run in this folder."""
    told = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(told | {"others_cores": 1.4, "cores": 2, "disturbed": True}))


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rooflab.book.find_root", lambda *_: tmp_path)

    def run(*options):
        code = cli.main(["speedrun", *map(str, options)])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run


FIVE = [10.0, 10.2, 9.9, 10.1, 10.3]
LATER = [12.0, 12.2, 11.9, 12.1, 12.3]


class TestSignificance:
    # Student's distribution as tables have it (Abramowitz and Stegun, table 26.10).
    @pytest.mark.parametrize(("t", "freedom", "p"), [
        (12.706, 1, 0.05), (63.657, 1, 0.01), (4.303, 2, 0.05), (2.776, 4, 0.05), (4.604, 4, 0.01), (2.228, 10, 0.05),
        (1.96, math.inf, 0.05), (0.0, 7, 1.0),
    ])  # fmt: skip
    def test_students_distribution(self, t, freedom, p):
        assert significance.two_sided(t, freedom) == pytest.approx(p, rel=1e-3)
        assert significance.two_sided(-t, freedom) == pytest.approx(p, rel=1e-3)

    @given(st.floats(0.01, 50), st.floats(0.5, 300))
    @settings(max_examples=60, deadline=None)
    def test_it_is_the_integral_of_the_density(self, t, freedom):
        front = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
        nodes, weights = np.polynomial.legendre.leggauss(200)
        angles = (nodes + 1) / 2 * math.atan(t)  # x = tan of an angle: an even function over a bounded stretch
        x = np.tan(angles)
        inside = (front * (1 + x * x / freedom) ** (-(freedom + 1) / 2) * (1 + x * x) * weights).sum()
        assert significance.two_sided(t, freedom) == pytest.approx(1 - inside * math.atan(t), abs=1e-6)

    @given(st.floats(0.5, 0.999), st.floats(1, 100))
    @settings(max_examples=30, deadline=None)
    def test_a_quantile_is_undone(self, share, freedom):
        assert significance.two_sided(significance.quantile(share, freedom), freedom) == pytest.approx(1 - share)

    def test_welch_by_hand(self):
        # Variances 1 and 4, three values each: error sqrt(5/3), freedom (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) = 50/17.
        p, freedom, error = significance.welch([1, 2, 3], [4, 6, 8])
        assert freedom == pytest.approx(50 / 17)
        assert error == pytest.approx(math.sqrt(5 / 3))
        assert p == pytest.approx(significance.two_sided(4 / error, freedom))
        assert math.isnan(significance.welch([1, 1], [2, 2])[0])

    def test_permutations_are_all_tried(self):
        assert significance.permutation_p([1, 2], [3, 4]) == (pytest.approx(2 / 6), True)
        assert significance.permutation_p([1, 4], [2, 3]) == (1.0, True)  # equal means
        assert significance.permutation_p([0.1 + 0.2, 0.3], [0.3, 0.3]) == (1.0, True)  # no split is farther apart
        p, exact = significance.permutation_p(FIVE, LATER)
        assert exact
        assert p == pytest.approx(2 / 252) == pytest.approx(significance.least_p(5, 5))

    def test_many_are_drawn(self):
        draw = np.random.default_rng(1)
        a, b = draw.normal(0, 1, 30), draw.normal(1.5, 1, 40)
        p, exact = significance.permutation_p(a, b)
        assert not exact
        assert p < 0.001
        assert significance.permutation_p(b, a)[0] < 0.001
        assert significance.permutation_p(a[:15], a[15:])[0] > 0.05

    def test_chance_alone_is_seldom_taken_for_a_gain(self):
        draw = np.random.default_rng(2)
        found = [significance.permutation_p(*draw.normal(0, 1, (2, 5)))[0] < significance.LEVEL for _ in range(400)]
        assert np.mean(found) < 0.03

    def test_needed_seeds(self):
        few = significance.compared(FIVE[:3], LATER[:3])
        assert few.needed == 5  # a large gain; fewer cannot be below the level
        assert not few.significant
        noisy = [10.0, 14.0, 12.0, 16.0, 13.0]
        asked = significance.compared(noisy, [value + 1 for value in noisy]).needed
        # Two groups of n with this spread s: n = 2 (z s / 1)^2, about, with z of the level.
        estimate = 2 * (NormalDist().inv_cdf(0.995) * np.std(noisy, ddof=1)) ** 2
        assert asked == pytest.approx(estimate, rel=0.1)
        assert significance.compared([1, 2], [1, 2]).needed is None
        assert significance.compared(FIVE, LATER).needed == 0
        assert significance.compared([1], [1, 2]) is None

    def test_intervals(self):
        low, high = significance.interval([1.0, 2.0, 3.0])
        assert (low + high) / 2 == pytest.approx(2.0)
        assert (high - low) / 2 == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)
        assert significance.interval([1.0]) == (-math.inf, math.inf)


class TestCompare:
    def test_two_groups(self, command, tmp_path):
        group(tmp_path / "a", FIVE, peak=1e9)
        group(tmp_path / "b", LATER, lr=1e-3, peak=2e9)
        code, out, _ = command("compare", "a", "b")
        assert code == 0
        assert re.search(r"^lr +\| +0\.003 \| 0\.001$", out, re.MULTILINE)
        assert "seed " not in out
        assert "time to 1 bits per byte" in out
        assert "peak memory" in out
        assert "B takes 2 s more (± 230 ms with 95 % confidence). p = 0.0079 by the exact permutation test" in out
        assert "more than chance (p < 0.01)" in out
        assert (tmp_path / ".rooflab/speedrun/compare.svg").read_text().startswith("<?xml")

    def test_one_seed_each_gives_the_difference_only(self, command, tmp_path):
        group(tmp_path / "a", FIVE[:1])
        group(tmp_path / "b", LATER[:1], optimizer="muon", rungs=("muon",))
        _, out, _ = command("compare", "a/seed-0", "b")
        assert "B takes 2 s more. With one seed of A and of B nothing can be said about chance" in out
        assert "p =" not in out
        assert re.search(r"^rungs of its own +\| +- \| muon$", out, re.MULTILINE)

    def test_too_few_seeds(self, command, tmp_path):
        group(tmp_path / "a", FIVE[:3])
        group(tmp_path / "b", LATER[:2], lr=1e-3)
        _, out, _ = command("compare", "a", "b")
        assert "not told from chance; so few seeds cannot give less than 0.1;" in out
        assert "2 of A and 3 of B more" in out

    def test_lists_of_folders(self, command, tmp_path):
        group(tmp_path / "a", FIVE)
        group(tmp_path / "b", LATER, lr=1e-3)
        _, out, _ = command("compare", "a/seed-0,a/seed-3", "b/seed-1,b/seed-2", "--figure", "c.png")
        assert re.search(r"^seeds +\| +2 \(0, 3\) \| +2 \(1, 2\)", out, re.MULTILINE)
        assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")

    def test_json(self, command, tmp_path):
        group(tmp_path / "a", FIVE)
        group(tmp_path / "b", LATER, lr=1e-3)
        code, out, _ = command("compare", "a", "b", "--json", "--target", "2.5")
        told = json.loads(out)
        assert code == 0
        assert told["differences"] == {"lr": [0.003, 0.001]}
        assert told["a"]["times_s"] == [value / 2 for value in FIVE]
        assert told["test"]["p"] == pytest.approx(2 / 252)

    def test_losses_of_different_texts_are_not_compared(self, command, tmp_path):
        group(tmp_path / "a", FIVE)
        group(tmp_path / "b", LATER, digest="e" * 64)
        _, out, _ = command("compare", "a", "b")
        assert "are not compared" in out
        assert "bits per byte" not in out.replace("validation loss (bits per byte)", "")
        assert "p =" not in out
        assert "tokens a second" in out

    def test_a_target_that_some_never_reached(self, command, tmp_path):
        group(tmp_path / "a", FIVE, bits=(3.0, 2.0, 1.51))
        group(tmp_path / "b", LATER, lr=1e-3)
        _, out, _ = command("compare", "a", "b", "--target", "1.2")
        assert (
            "5 of 5 runs of A never came to 1.2 bits per byte, so there is no test; all came to --target 1.51." in out
        )
        _, out, _ = command("compare", "a", "b")
        assert "Time to 1.51 bits per byte" in out

    def test_a_run_evaluated_only_below_the_target_has_no_time_to_it(self, command, tmp_path):
        leave(tmp_path / "a", (9.0,), bits=(2.0,))
        leave(tmp_path / "b", (10.0,), bits=(1.0,))
        code, out, _ = command("compare", "a", "b")
        assert code == 0
        assert "When B came to 2 bits per byte is not known, so there is no test" in out
        assert "B takes 1 s more" not in out
        (line,) = [line for line in out.splitlines() if line.startswith("time to 2 bits")]
        assert re.split(r" *\| *", line)[1:] == ["9 s", "at most 10 s", ""]

    def test_a_mean_of_those_that_came_to_the_target_says_how_many(self, command, tmp_path):
        group(tmp_path / "a", FIVE)
        group(tmp_path / "b", LATER[:4], lr=1e-3)
        leave(tmp_path / "b" / "seed-4", (1, 2, 3), seed=4, bits=(3.0, 2.0, 1.5), lr=1e-3)
        _, out, _ = command("compare", "a", "b", "--target", "1.2")
        (row,) = (line for line in out.splitlines() if line.startswith("time to 1.2"))
        assert "(4 of 5)" in row
        assert row.rpartition("|")[2].strip() == ""
        groups = {name: finished.one_group(finished.read_runs(tmp_path / name), name) for name in "ab"}
        assert sidebyside.title(groups, 1.2) == "Validation losses"

    @pytest.mark.parametrize(("a", "b", "said"), [
        (FIVE, LATER, "A in 10.1 s, B in 12.1 s; 5 seeds each, p = 0.0079"),
        ([10, 12, 11], [10, 11, 12.3], "A in 11 s, B in 11.1 s; 3 seeds each, p = 1, not told apart"),
        ([10, 12, 11], [10, 11], "A in 11 s, B in 10.5 s; 3 and 2 seeds, p = 0.7, not told apart"),
        ([10], [11], "A in 10 s, B in 11 s; one seed each"),
    ])  # fmt: skip
    def test_the_title_claims_no_more_than_the_test(self, a, b, said, tmp_path):
        group(tmp_path / "a", a)
        group(tmp_path / "b", b, lr=1e-3)
        groups = {name.upper(): finished.one_group(finished.read_runs(tmp_path / name), name) for name in "ab"}
        assert sidebyside.title(groups, 1.0) == f"1 bits per byte: {said}"

    def test_a_title_calls_a_bound_one(self, tmp_path):
        leave(tmp_path / "a", (9.0,), bits=(2.0,))
        leave(tmp_path / "b", (10.0,), bits=(1.0,))
        groups = {name.upper(): finished.one_group(finished.read_runs(tmp_path / name), name) for name in "ab"}
        assert sidebyside.title(groups, 2.0) == "2 bits per byte: A in 9 s, B in at most 10 s; one seed each"

    def test_numbers_below_the_axes_of_a_figure_have_room(self, tmp_path, monkeypatch):
        group(tmp_path / "a", [0.53, 0.55])
        groups = {"A": finished.one_group(finished.read_runs(tmp_path / "a"), "a")}
        figures = []
        monkeypatch.setattr("rooflab.plots.saving.save_figure", lambda fig, path: figures.append(fig))
        sidebyside.draw(tmp_path / "c.svg", groups, 1.0)
        (fig,) = figures
        fig.canvas.draw()
        for ax in fig.axes:
            low, high = ax.get_xlim()
            shown = [label.get_window_extent() for at, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
                     if low <= at <= high]  # fmt: skip
            assert low == 0
            assert min(b.x0 - a.x1 for a, b in itertools.pairwise(shown)) > 8

    def test_what_is_the_same_is_said(self, command, tmp_path):
        group(tmp_path / "a", FIVE)
        _, out, _ = command("compare", "a/seed-0,a/seed-1", "a/seed-2,a/seed-3")
        assert "A and B have one config, one device and one version of the code." in out

    def test_steps_are_those_that_were_trained(self, command, tmp_path):
        leave(tmp_path / "a", (1, 2, 3), tokens=15_360)
        leave(tmp_path / "b", (1, 2, 3), tokens=15_360, steps=40)
        leave(tmp_path / "c", (1, 2, 3), tokens=15_360, steps=30)
        _, out, _ = command("compare", "a", "b")
        assert re.search(r"^steps +\| 30 \| 40$", out, re.MULTILINE)
        assert json.loads(command("compare", "a", "b", "--json")[1])["differences"] == {"steps": [30, 40]}
        assert "A and B have one config" in command("compare", "a", "c")[1]

    def test_curves_are_named_by_what_differs_and_earlier_ones_stay(self, command, tmp_path):
        many = [rung.name for rung in RUNGS if rung.change][:12]
        leave(tmp_path / "plain", (1, 2, 3))
        leave(tmp_path / "other", (1, 2, 3), lr=1e-3)
        leave(tmp_path / "one", (1, 2, 3), rungs=("muon",))
        leave(tmp_path / "two", (1, 2, 3), rungs=("muon", "rotary"))
        leave(tmp_path / "tf32", (1, 2, 3), rungs=("tf32",))
        leave(tmp_path / "all", (1, 2, 3), rungs=tuple(many))
        for number, (a, b, names) in enumerate((
            ("plain", "one", ("A: baseline", "B: muon")), ("two", "one", ("A: rotary", "B: without rotary")),
            ("plain", "other", ("A: plain", "B: other")), ("all", "plain", ("A: 12 rungs more", "B: baseline")),
            ("all", "tf32", ("A: 11 rungs more", "B: without 11 rungs")),
        ), 1):  # fmt: skip
            _, out, _ = command("compare", a, b)
            path = tmp_path / f".rooflab/speedrun/compare{f'-{number}' if number > 1 else ''}.svg"
            assert f"The curves are in {path}." in out
            assert all(f"<!-- {name} -->" in path.read_text() for name in names)

    def test_who_was_disturbed_is_said(self, command, tmp_path):
        group(tmp_path / "a", FIVE)
        group(tmp_path / "b", LATER, lr=1e-3)
        assert "Disturbed" not in command("compare", "a", "b")[1]
        disturb(tmp_path / "b" / "seed-1")
        _, out, _ = command("compare", "a", "b")
        assert "Disturbed: B (1 of 5 runs): others used 1.4 of 2 cores meanwhile, so that times are too long." in out

    def test_a_figure_that_does_not_fit_onto_the_disk_leaves_nothing(self, command, tmp_path, monkeypatch):
        group(tmp_path / "a", FIVE)
        monkeypatch.setattr("rooflab.state.os.fdopen", toys.full)
        code, _, err = command("compare", "a", "a", "--figure", "c.png")
        assert code == 1
        assert err.strip().endswith("c.png: the disk is full: free some space and try again.")
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_bad_folders(self, command, tmp_path):
        good = group(tmp_path / "good", FIVE)
        (tmp_path / "empty").mkdir()
        unended = leave(tmp_path / "unended", (1, 2, 3))
        (unended / "summary.json").unlink()
        broken = leave(tmp_path / "broken", (1, 2, 3))
        (broken / "version.json").write_text('{"rooflab": ')
        odd = leave(tmp_path / "odd", (1, 2, 3))
        (odd / "summary.json").write_text('{"steps": "many"}')
        blind = leave(tmp_path / "blind", (1, 2, 3))
        (blind / "log.jsonl").write_text('{"step": 1, "time_s": 2, "loss": 3}\n')
        torn = leave(tmp_path / "torn", (1, 2, 3))
        (torn / "log.jsonl").write_text("[]\n")
        group(tmp_path / "mixed" / "one", FIVE[:1])
        leave(tmp_path / "mixed" / "two", (1, 2, 3), seed=1, lr=1e-3)
        for folder, said in (
            ("nowhere", "there is no such folder; expected a folder that `rooflab speedrun` made"),
            ("empty", "there is no run in it"),
            ("unended", "has not ended: go on with it (rooflab speedrun --resume unended)"),
            ("broken", "version.json is missing or damaged"),
            ("odd", "summary.json does not say steps as a run's does"),
            ("blind", "log.jsonl holds no validation loss"),
            ("torn", "log.jsonl is missing or damaged"),
            ("good/seed-0,good/seed-0", "has the seed 0 twice"),
            ("mixed", "holds runs of more than one kind"),
        ):
            code, out, err = command("compare", folder, good)
            assert code == 1
            assert said in err
            assert len(err.strip().splitlines()) == 1
            assert not out
        assert command("compare", good, good, "--figure", "c.pdf")[2].strip().endswith("found c.pdf")


class Page(HTMLParser):
    """What a page refers to, and the texts of its table cells."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.rows, self._cell = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action", "onclick")]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(" ".join(self._cell))
            self._cell = None

    def handle_data(self, data):
        if self._cell is not None and data.strip():
            self._cell.append(data.strip())


CHART = """() => {
    const card = document.querySelector(".card");
    const shown = [...card.querySelectorAll("svg")].filter(svg => svg.getClientRects().length);
    const [frame, texts] = [shown[0].getBoundingClientRect(), [...shown[0].querySelectorAll("text")]];
    const outside = box => box.left < frame.left - 1 || box.right > frame.right + 1;
    return {
        page: document.documentElement.scrollWidth, card: card.scrollWidth - card.clientWidth, charts: shown.length,
        sticks_out: texts.filter(text => outside(text.getBoundingClientRect())).map(text => text.textContent),
        letters: 12.5 * frame.width / shown[0].viewBox.baseVal.width,
        table: [...document.querySelectorAll(".board td, .board .pill")].filter(
            each => each.getBoundingClientRect().right > card.getBoundingClientRect().right + 1
        ).map(each => each.textContent),
        rows: [...document.querySelectorAll(".board tbody tr")].map(row => row.clientHeight),
    };
}"""


class TestLeaderboard:
    def test_who_comes_first(self, command, tmp_path):
        group(tmp_path / "slow", LATER, target=1.0)
        group(tmp_path / "fast", FIVE, target=1.0, optimizer="muon", rungs=("muon",))
        group(tmp_path / "near", [value + 0.05 for value in FIVE], target=1.0, lr=1e-3)
        group(tmp_path / "lost", [1, 1, 1], target=1.0, bits=(3.0, 2.0, 1.5), lr=1.0)
        code, out, _ = command("leaderboard", ".", "--html", "page.html")
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        page = Page(text)
        assert code == 0
        assert "toy to 1 bits per byte: muon leads with 10.1 s ± 160 ms (standard deviation), of 4." in out
        header, first, second, third, last = page.rows
        assert [row[0] for row in page.rows[1:]] == ["1", "2", "3", "–"]
        assert "muon" in first[1]
        assert "lr = 0.001" in second[1]
        assert "p = " in first[header.index("against the next")]
        assert "not told apart" in first[4]
        assert "p = 0.0079" in second[4]
        assert "not told apart" not in second[4]
        assert third[4] == ""
        assert "0 of 3 came there" in last[3]
        assert "where" not in header  # it is the same of all
        assert "All ran on a chip, torch 2.11, 0.1.0 abc. Begun 2026-01-01." in text
        assert text.count("<svg") == 6  # the chart for wide windows and for narrow ones, and one a row
        # Self-contained: nothing is fetched, nothing runs.
        assert set(page.links) == {"#main", "#board-1"}
        assert not {"script", "link", "iframe", "img", "object"} & set(page.tags)
        assert "prefers-color-scheme: dark" in text
        assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", text)

    def test_texts_and_targets_have_tables_of_their_own(self, command, tmp_path):
        group(tmp_path / "a", FIVE, target=1.0)
        group(tmp_path / "b", FIVE, target=1.0, digest="e" * 64)
        group(tmp_path / "c", FIVE, target=2.0)
        group(tmp_path / "d", FIVE)
        group(tmp_path / "e", FIVE, target=1.0, length=32)
        code, out, _ = command("leaderboard", "a", "b", "c", "d", "e", "--html", "page.html")
        assert code == 0
        assert len(out.splitlines()) == 6
        assert "toy, without a target: baseline leads by its loss at the end, 1.0000 bits per byte" in out
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert text.count("<table>") == 5
        _, out, _ = command("leaderboard", "a", "c", "d", "--target", "2", "--html", "page.html")
        assert len(out.splitlines()) == 2  # one text and one target: one table

    def test_a_seed_counts_once(self, command, tmp_path):
        group(tmp_path / "a", FIVE, target=1.0)
        leave(tmp_path / "again", (1, 2, 30), seed=0, target=1.0, told={"date": "2026-02-01T00:00:00"})
        runs = finished.read_runs(tmp_path)
        (one,) = finished.grouped(runs)
        assert len(runs) == 6
        assert sorted(one.times_s(1.0)) == sorted([30, *FIVE[1:]])
        _, out, _ = command("leaderboard", "a", "a/seed-0", "--html", "page.html")
        assert "10.1 s ± 160 ms (standard deviation)" in out

    def test_who_missed_the_target_does_not_lead(self, command, tmp_path):
        group(tmp_path / "a", FIVE, target=0.5)
        _, out, _ = command("leaderboard", "a", "--html", "page.html")
        assert "toy to 0.5 bits per byte: none came there with all of its seeds, of 1." in out
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert ">– baseline</text>" in text  # the legend gives it no rank, as the table does

    def test_a_time_beside_others_is_marked(self, command, tmp_path):
        group(tmp_path / "a", FIVE, target=1.0)
        group(tmp_path / "b", LATER, target=1.0, lr=1e-3)
        command("leaderboard", ".", "--html", "page.html")
        assert "isturbed" not in (tmp_path / "page.html").read_text()
        disturb(tmp_path / "b" / "seed-1")
        command("leaderboard", ".", "--html", "page.html")
        text = (tmp_path / "page.html").read_text()
        first, second = [row for row in Page(text).rows if row and row[0] in ("1", "2")]
        assert ["disturbed: 1 of 5" in row[2] for row in (first, second)] == [False, True]
        assert "beside so many of the runs others used the processor" in text

    def test_one_seed(self, command, tmp_path):
        group(tmp_path / "a", FIVE[:1], target=1.0)
        group(tmp_path / "b", LATER[:1], target=1.0, lr=1e-3)
        command("leaderboard", ".", "--html", "page.html")
        page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
        assert "one seed: no test" in page.rows[1][4]
        assert "one seed" in page.rows[1][2]

    def test_the_next_that_has_one_seed_is_named(self, command, tmp_path):
        group(tmp_path / "a", FIVE, target=1.0)
        group(tmp_path / "b", LATER[:1], target=1.0, lr=1e-3)
        command("leaderboard", ".", "--html", "page.html")
        assert Page((tmp_path / "page.html").read_text(encoding="utf-8")).rows[1][4].startswith("the next has one seed")

    @pytest.mark.parametrize(("times", "said"), [
        (9.0, "baseline came there in at most 9.02 s, by its first evaluation"),
        (11.0, "baseline has the shortest time that is no bound, 10.1 s ± 160 ms"),
    ])  # fmt: skip
    def test_a_time_that_is_a_bound_is_called_one(self, times, said, command, tmp_path):
        """Below the target at the first evaluation: when is not known, so there is no lead and no test."""
        group(tmp_path / "a", FIVE, target=1.0)
        for seed in range(5):
            leave(
                tmp_path / "late" / f"seed-{seed}", (times + seed / 100,), seed=seed, bits=(0.9,), target=1.0, lr=1e-3
            )
        _, out, _ = command("leaderboard", ".", "--html", "page.html")
        assert said in out
        rows = Page((tmp_path / "page.html").read_text(encoding="utf-8")).rows[1:]
        (late,) = [row for row in rows if "lr = 0.001" in row[1]]
        assert late[2] == f"at most {times + 0.02:g} s at its first evaluation"
        assert "no test" in rows[0][4]
        assert "p =" not in rows[0][4]
        assert "sooner" not in rows[0][4]

    def test_the_time_of_one_seed_is_not_that_of_three(self, command, tmp_path):
        """Neither told nor ordered by: those that missed the target would have taken longer."""
        group(tmp_path / "a", [9.0], target=1.0)
        for seed in (1, 2):
            leave(tmp_path / "a" / f"seed-{seed}", (1, 2, 3), seed=seed, bits=(3, 2, 1.5), target=1.0)
        group(tmp_path / "b", [20.0], target=1.0, lr=1e-3)
        for seed in (1, 2):
            leave(tmp_path / "b" / f"seed-{seed}", (1, 2, 3), seed=seed, bits=(3, 2, 1.2), target=1.0, lr=1e-3)
        command("leaderboard", ".", "--html", "page.html")
        first, second = Page((tmp_path / "page.html").read_text(encoding="utf-8")).rows[1:]
        assert (first[0], first[2]) == ("–", "–")
        assert "lr = 0.001" in first[1]  # by the loss at the end
        assert first[3].startswith("1 of 3 came there")
        assert (second[0], second[2]) == ("–", "–")

    def test_a_long_choice_of_rungs_is_folded(self, command, tmp_path):
        names = tuple(rung.name for rung in RUNGS if rung.change)[1::2]
        group(tmp_path / "a", FIVE, target=1.0, rungs=names)
        _, out, _ = command("leaderboard", ".", "--html", "page.html")
        called = f"{len(names)} rungs up to {names[-1]}"
        assert f"{called} leads with" in out
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert f"1. {called}, " in text  # and what its config has that those rungs would not have set
        assert re.search(r"<summary>\d+ switches</summary>", text)
        assert f"<strong>{called}</strong>" in text
        assert f"<summary>{len(names)} rungs</summary>{', '.join(names)}</details>" in text

    def test_where_it_ran_has_a_column_where_that_differs(self, command, tmp_path):
        group(tmp_path / "a", FIVE, target=1.0)
        group(tmp_path / "b", LATER, target=1.0, lr=1e-3, told={"commit": "def", "date": "2026-02-03T00:00:00"})
        command("leaderboard", ".", "--html", "page.html")
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        header, first, second = Page(text).rows
        where = header.index("where")
        assert (first[where], second[where]) == ("0.1.0 abc", "0.1.0 def")
        assert "All ran on a chip, torch 2.11. Begun 2026-01-01 to 2026-02-03." in text

    def test_names_from_elsewhere_are_text(self, command, tmp_path):
        told = {
            "device": {"name": "<script>alert(1)</script>"},
            "commit": "<b>",
            "data": {"name": "<i>x", "digest": "d"},
        }
        group(tmp_path / "a", FIVE, target=1.0, told=told)
        command("leaderboard", ".", "--html", "page.html")
        tags = Page((tmp_path / "page.html").read_text(encoding="utf-8")).tags
        assert not {"script", "b", "i"} & set(tags)

    @pytest.mark.parametrize("width", [420, 700, 1100])
    def test_the_chart_fits_into_the_window_and_can_be_read(self, width, command, tmp_path):
        playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            pytest.skip("no chromium on this machine: apt-get install chromium")
        names = tuple(rung.name for rung in RUNGS if rung.change and rung.name not in ("graph", "fp8", "window"))
        group(tmp_path / "a", FIVE, target=1.0, rungs=names)
        group(tmp_path / "b", LATER, target=1.0, lr=1e-3, told={"device": {"name": "A Processor of Another Maker's"}})
        leave(tmp_path / "c", (20.0,), bits=(0.9,), target=1.0, lr=1e-4, rungs=names[1::2])
        command("leaderboard", ".", "--html", "page.html")
        with playwright.sync_playwright() as play:
            browser = play.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
            )
            tab = browser.new_page(viewport={"width": width, "height": 900})
            tab.goto((tmp_path / "page.html").as_uri())
            found = tab.evaluate(CHART)
            browser.close()
        assert found["page"] <= width
        assert found["card"] == 0  # nothing to scroll to
        assert found["charts"] == 1
        assert found["sticks_out"] == []
        assert found["letters"] >= 7.5
        assert found["table"] == []  # no cell is cut
        assert max(found["rows"]) < (260 if width > 1024 else 340)

    def test_titles(self):
        names = [rung.name for rung in RUNGS if rung.change]
        assert leaderboard.title([], {}) == ("baseline", [])
        assert leaderboard.title(names, {}) == (f"up to {names[-1]}", [])
        assert leaderboard.title([name for name in names if name != "graph"], {"lr": 0.5, "compile": "no"}) == (
            f"up to {names[-1]}, without graph", ["lr = 0.5", "compile = no"])  # fmt: skip
        assert leaderboard.title(["muon"], {}) == ("muon", [])
        assert leaderboard.title(["a rung of old"], {}) == ("a rung of old", [])

    def test_runs_that_are_of_no_use_are_named(self, command, tmp_path):
        code, _, err = command("leaderboard", tmp_path)
        assert code == 1
        assert "there is no run in it" in err
        (leave(tmp_path / "a" / "unended", (1, 2, 3), target=1.0) / "summary.json").unlink()
        code, _, err = command("leaderboard", "a")
        assert code == 1
        assert "expected at least one run that has ended" in err
        group(tmp_path / "a", FIVE, target=1.0)
        code, out, err = command("leaderboard", "a")
        assert code == 0
        assert err.startswith("Left out: The run in a/unended has not ended: go on with it")
        assert "10.1 s ± 160 ms (standard deviation), of 1." in out


def oklab(colour):
    """Ottosson's coordinates, in which distances are about those that are seen; and the luminance."""
    light = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    light = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(np.array([[0.41222147, 0.53633254, 0.05144599], [0.2119035, 0.6806995, 0.10739696],
                              [0.08830246, 0.28171884, 0.6299787]]) @ light)  # fmt: skip
    axes = np.array([[0.21045426, 0.79361779, -0.00407205], [1.97799850, -2.42859221, 0.45059371],
                     [0.02590404, 0.78277177, -0.80867577]])  # fmt: skip
    return axes @ cones, np.array([0.2126, 0.7152, 0.0722]) @ light


class TestCurves:
    def test_colours_can_be_told_apart_on_light_pages_and_on_dark_ones(self):
        for one, other in itertools.combinations(curvesvg._COLOURS, 2):
            assert np.linalg.norm(oklab(one)[0] - oklab(other)[0]) > 0.12, (one, other)
        for page in ("#ffffff", "#15191d"):
            for colour in curvesvg._COLOURS:
                low, high = sorted((oklab(page)[1], oklab(colour)[1]))
                assert (high + 0.05) / (low + 0.05) >= 3, (colour, page)

    def test_points_are_where_their_values_are(self):
        lines = [curvesvg.Line("a", (0.0, 5.0, 10.0), (4.0, 3.0, 2.0))]
        svg = curvesvg.curves_svg(lines, x="time", unit="s", y="loss", target=1.0)
        points = [tuple(map(float, pair.split(","))) for pair in re.search(r'points="([^"]*)"', svg)[1].split()]
        assert points[1][0] == pytest.approx((points[0][0] + points[2][0]) / 2, abs=0.1)
        assert points[0][1] < points[1][1] < points[2][1]  # down the page
        assert "target 1" in svg
        assert "a ends at 2. Target 1." in svg

    def test_decades(self):
        lines = [curvesvg.Line("a", (1.0, 10.0, 100.0), (4.0, 3.0, 2.0))]
        svg = curvesvg.curves_svg(lines, x="time", unit="s", y="loss", log=True)
        xs = [float(pair.split(",")[0]) for pair in re.search(r'points="([^"]*)"', svg)[1].split()]
        assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
        assert ">10 s<" in svg
        assert ">50 s<" in svg

    def test_numbers_below_a_narrow_axis_have_room(self):
        lines = [curvesvg.Line("a", (0.04, 25.0), (2.0, 1.0))]
        for size, fewest in (((400, 300), 4), ((1000, 300), 8)):
            svg = curvesvg.curves_svg(lines, x="time", unit="s", y="loss", log=True, size=size)
            places = [float(at) for at in re.findall(r'<text x="([\d.]+)"[^>]*>[\d.]+ m?s<', svg)]
            assert len(places) >= fewest
            assert min(b - a for a, b in itertools.pairwise(places)) >= 50

    def test_less_than_a_decade_has_ticks_in_even_steps(self):
        lines = [curvesvg.Line("a", (22.0, 30.0, 38.0), (4.0, 3.0, 2.0))]
        svg = curvesvg.curves_svg(lines, x="time", unit="s", y="loss", log=True)
        assert [tick for tick in range(15, 50) if f">{tick} s<" in svg] == [20, 25, 30, 35]

    @given(st.lists(st.floats(allow_nan=True, width=32), max_size=5), st.booleans())
    @settings(max_examples=60, deadline=None)
    def test_any_values_make_a_picture(self, values, log):
        values = [value if abs(value) < 1e30 else math.nan for value in values]
        line = curvesvg.Line("a < b", list(range(len(values))), values)
        for svg in (curvesvg.curves_svg([line], x="x", y="y", log=log), curvesvg.small_svg([line], [line], log=log)):
            assert "nan" not in re.sub(r">[^<]*<", "", svg).lower().replace("nano", "")
            assert "a < b" not in svg

    def test_long_curves_are_thinned(self):
        xs, ys = curvesvg.Line("a", range(10_001), range(10_001)).thinned()
        assert len(xs) <= 400
        assert (xs[-1], ys[-1]) == (10_000, 10_000)


class TestLivePlot:
    LINES = (
        {"step": 5, "time_s": 1.0, "loss": 2.0, "train_bits_per_byte": 3.25, "tokens_per_s": 1e3},
        {"step": 5, "time_s": 1.0, "bits_per_byte": 3.0},
        {"step": 10, "time_s": 2.0, "loss": 1.5, "train_bits_per_byte": 2.75, "tokens_per_s": 2e3},
    )

    def test_a_notebook_sees_every_log_point(self, monkeypatch):
        import IPython.display

        shown = []
        monkeypatch.setattr(live, "is_headless", lambda: False)
        monkeypatch.setattr(live, "_PAUSE_S", -1.0)
        monkeypatch.setattr(IPython.display, "display", shown.append)
        seen = []
        with live.watch_live(toys.config(target=2.5), toys.corpus()) as plot:
            (widget,) = shown
            assert "tiny on toy: getting ready; the first losses come after 5 steps" in widget.value
            assert not re.findall(r">[\d.]+( m?s)?</text>", widget.value)  # numbers on the axes
            for line in self.LINES:
                plot(line)
                seen.append(widget.value)
        assert len(set(seen)) == 3
        assert "target (validation) 2.5" in widget.value
        assert "<polyline" in widget.value
        assert "<circle" in widget.value
        told = "3.0000 bits per byte after 5 steps; now 10 steps, 2 s of training, 2,000 tokens/s."
        assert told in widget.value  # the loss was not measured at the last step

    def test_training_losses_are_told_and_drawn_in_the_unit_of_the_axis(self):
        """Before the first evaluation too, and by the bytes a token of the windows that are judged, as the log has."""
        plot = live.watch_live(toys.config(), toys.corpus())
        plot(self.LINES[0])
        assert "training loss 3.250 bits per byte after 5 steps" in plot.told()
        assert "nats" not in plot.picture()
        for line in self.LINES[1:]:
            plot(line)
        drawn = re.search(r'<polyline points="([^"]*)"', plot.picture())[1].split()
        mark = re.search(r'<circle cx="[\d.]+" cy="([\d.]+)"', plot.picture())[1]
        first, last = (float(point.partition(",")[2]) for point in drawn)
        assert first < float(mark) < last  # down the page from 3.25 over 3, measured in between, to 2.75

    def test_a_picture_that_nobody_would_see_is_left_out(self, monkeypatch):
        import IPython.display

        monkeypatch.setattr(live, "is_headless", lambda: False)
        monkeypatch.setattr(live, "_PAUSE_S", 1e9)
        shown = []
        monkeypatch.setattr(IPython.display, "display", shown.append)
        with live.watch_live(toys.config(), toys.corpus()) as plot:
            before = shown[0].value
            plot(self.LINES[0])
            assert shown[0].value == before
        assert shown[0].value != before  # the last state is always shown

    def test_alone_it_says_how_the_run_ended(self, capsys):
        with live.watch_live(toys.config(rungs=("muon",)), toys.corpus()) as plot:
            for line in self.LINES:
                plot(line)
            assert not capsys.readouterr().out
        assert capsys.readouterr().out.startswith("muon: 3.0000 bits per byte after 5 steps; now 10")

    def test_a_run_that_never_began_shows_nothing(self, capsys):
        with pytest.raises(ValueError, match="no"), live.watch_live(toys.config(), toys.corpus()):
            raise ValueError("no")
        assert not capsys.readouterr().out


def test_the_verdict_names_its_groups():
    assert compare.verdict_text(FIVE, LATER, ("the old", "the new")).startswith("the new takes 2 s more")


def test_results_go_where_those_of_a_run_go(command, tmp_path, monkeypatch):
    """To the book's folder, also from a folder within it."""
    group(tmp_path / "a", FIVE, target=1.0)
    (tmp_path / "chapters").mkdir()
    monkeypatch.chdir(tmp_path / "chapters")
    place = SimpleNamespace(first=True, world=1)
    assert commands._folder(None, place) == tmp_path / ".rooflab/speedrun/run-001"
    assert f"The curves are in {tmp_path}/.rooflab/speedrun/compare.svg." in command("compare", "../a", "../a")[1]
    assert f"The page is {tmp_path}/.rooflab/speedrun.html." in command("leaderboard", "../a")[1]
    assert (tmp_path / ".rooflab/speedrun.html").is_file()
    assert not list((tmp_path / "chapters").iterdir())


@pytest.mark.parametrize("target", ["nan", "-1", "0", "low"])
@pytest.mark.parametrize("action", [["compare", "a", "b"], ["leaderboard", "a"]], ids=lambda each: each[0])
def test_a_target_that_no_loss_has_is_refused(action, target, capsys):
    with pytest.raises(SystemExit):
        cli.main(["speedrun", *action, f"--target={target}"])
    assert f"expected a number above zero; found '{target}'" in capsys.readouterr().err
