"""Figures: what is drawn, what the alternative text says, and that nothing is cut off."""

import math
from dataclasses import replace
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from rooflab import costs, plots
from rooflab.logbook import begin, this_run
from rooflab.measurement import Measurement, Ratio
from rooflab.plots import charts, roof, style
from rooflab.roofline import Ceilings, bound
from rooflab.units import format_si

LONG = "A title that states its message at such a length that it can not possibly fit on one line of the figure"
NAME = "a series with quite a long name, and more"
CEILINGS = Ceilings(2e10, {"fp32": 1.5e11, "fp64": 7e10}, launch_s=2e-6, label="AMD EPYC")
H200 = Ceilings(4.28e12, {"fp32": 5.1e13}, launch_s=1e-5, label="NVIDIA H200")
WORKS = {
    "axpy": costs.axpy(10**7, "fp32"),
    "sum": costs.reduction(10**7, "fp32"),
    "softmax": costs.softmax(4096, 4096, "fp32"),
    "layer norm": costs.layer_norm(4096, 4096, "fp32"),
    "matmul, tiny": costs.matmul(16, 16, 16, "fp32"),
    "matmul, large": costs.matmul(1536, 1536, 1536, "fp32"),
    "attention, a long name of an operation": costs.attention(2, 8, 1024, 1024, 64, "fp32"),
}


def sample(median_s: float, work=None) -> Measurement:
    return Measurement("m", (0.9 * median_s, median_s, 1.3 * median_s), work=work)


@pytest.fixture
def shown(monkeypatch, home):
    """The figures and alternative texts that were shown, drawn."""
    figures = []

    def keep(fig, *, alt):
        FigureCanvasAgg(fig).draw()
        figures.append((fig, alt))

    monkeypatch.setattr(style, "show", keep)
    monkeypatch.setattr(charts, "recorded_curves", lambda key: {})
    monkeypatch.setattr(roof, "recorded", lambda key: None)
    begin("s1_measurement/test")
    return figures


def assert_inside(fig) -> None:
    """All that is drawn lies within the figure, to a hundredth of an inch."""
    box = fig.get_tightbbox(FigureCanvasAgg(fig).get_renderer())
    width, height = fig.get_size_inches()
    assert box.x0 > -0.01, f"cut off at the left: {box}"
    assert box.y0 > -0.01, f"cut off below: {box}"
    assert box.x1 < width + 0.01, f"cut off at the right: {box}"
    assert box.y1 < height + 0.01, f"cut off above: {box}"


def tick_texts(axis) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    return [tick.label1.get_text() for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def assert_ticks_apart(ax) -> None:
    """At least two numbers on each axis, and none touches its neighbour."""
    renderer = FigureCanvasAgg(ax.figure).get_renderer()
    for axis, side in ((ax.xaxis, "x"), (ax.yaxis, "y")):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        boxes = [tick.label1.get_window_extent(renderer) for tick in sorted(ticks, key=lambda tick: tick.get_loc())]
        assert len(boxes) >= 2, f"{side} axis from {low} to {high}"
        gaps = [b.x0 - a.x1 if side == "x" else abs(b.y0 - a.y0) - a.height / 2 for a, b in pairwise(boxes)]
        assert min(gaps) > 0, (side, [tick.label1.get_text() for tick in ticks])


RECORDED = {"H200: torch": {"x": [10, 100, 1e4], "y": [1e-5, None, 8e-3]}, "H200: JAX": {"x": [10], "y": [2e-5]}}


class TestCurves:
    @pytest.mark.parametrize("there", [{}, RECORDED], ids=["alone", "beside a record"])
    @pytest.mark.parametrize("points", [False, True])
    def test_all_parts(self, shown, monkeypatch, there, points):
        monkeypatch.setattr(charts, "recorded_curves", lambda key: there)
        xs = [16, 64, 256, 1024]
        plots.curves(xs, {NAME: [sample(x * 1e-6) for x in xs], "plain": [1e-5, math.nan, 3e-5, 4e-5]}, title=LONG,
                     x="side n", y="time per call", bounds={"slope 1": [x * 1e-6 for x in xs]}, key="sweep",
                     marks={"the knee": 100, "its neighbour": 120}, points=points)  # fmt: skip
        ((fig, alt),) = shown
        (ax,) = fig.axes
        assert_inside(fig)
        assert_ticks_apart(ax)
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert labels == ["slope 1", NAME, "plain", *there]
        assert alt.startswith(f"{LONG}. Chart of time per call over side n.")
        assert f"{NAME}: 16 µs at 16 to 1.02 ms at 1,024." in alt
        assert "plain: 10 µs at 16 to 40 µs at 1,024." in alt
        assert ("H200: torch: 10 µs at 10 to 8 ms at 10,000." in alt) == bool(there)
        assert "Line at the knee: 100." in alt
        assert this_run()["sweep"]["plain"] == {"x": xs, "y": [1e-5, None, 3e-5, 4e-5]}
        bands = [c for c in ax.collections if c.get_alpha() == 0.18]
        assert len(bands) == 1  # plain numbers have none

    def test_bounds_are_drawn_below_the_points(self, shown):
        plots.curves([1, 10], {"a": [1.0, 2.0]}, bounds={"b": [1.0, 2.0]}, title="T", x="x", y="y")
        lines = {line.get_label(): line for line in shown[0][0].axes[0].lines}
        assert lines["b"].get_zorder() < lines["a"].get_zorder()
        assert lines["b"].get_linestyle() == "--"

    @pytest.mark.parametrize("attribute", ["bytes_per_s", "flops_per_s"])
    def test_bands_of_rates_turn_over(self, shown, attribute):
        ms = [sample(1e-3, costs.axpy(10**6, "fp32")), sample(2e-3, costs.axpy(10**6, "fp32"))]
        plots.curves([1, 2], {"a": ms}, attribute=attribute, unit="B/s", title="T", x="x", y="y", log="")
        middle, low, high = charts._bands(ms, attribute)
        assert (low < middle).all()
        assert (middle < high).all()
        assert middle[0] == pytest.approx(getattr(ms[0], attribute))
        assert low[0] == pytest.approx(ms[0].work.bytes / ms[0].p80_s * (middle[0] * 1e-3 / ms[0].work.bytes))

    def test_lines_with_positions_of_their_own(self, shown):
        plots.curves([1, 2, 3], {"own": ([5.0, 6.0], [1.0, 2.0]), "short": [1.0, 2.0]}, title="T", x="x", y="y")
        own, short = shown[0][0].axes[0].lines
        assert list(own.get_xdata()) == [5, 6]
        assert list(short.get_xdata()) == [1, 2]

    def test_lengths_that_do_not_fit_are_one_sentence(self, shown):
        for series in ({"a": [1.0, 2.0, 3.0]}, {"a": ([1.0, 2.0], [1.0])}):
            with pytest.raises(ValueError, match=r"^'a' has \d values for \d positions\.$"):
                plots.curves([1, 2], series, title="T", x="x", y="y")
        assert shown == []

    def test_numbers_of_calls_are_whole(self, shown):
        plots.curves(range(1, 21), {"a": [1.0] * 20}, title="T", x="number of the call", y="y", log="y")
        assert all(float(text).is_integer() for text in tick_texts(shown[0][0].axes[0].xaxis))

    def test_nothing_but_gaps(self, shown):
        plots.curves([1, 2], {"a": [math.nan, math.nan]}, title="T", x="x", y="y", log="")
        assert "a: no points." in shown[0][1]

    def test_limits(self, shown):
        plots.curves([1, 2], {"a": [1.0, 3.0]}, title="T", x="x", y="y", log="", ylim=(0, None))
        low, high = shown[0][0].axes[0].get_ylim()
        assert low == 0
        assert high >= 3

    @given(
        low=st.floats(-12, 6),
        decades=st.floats(0.05, 24),
        left=st.floats(0, 3),
        right=st.floats(0.1, 12),
        unit=st.sampled_from(["s", "B/s", "", "x"]),
    )
    @settings(max_examples=15, deadline=None)
    def test_log_axes_of_any_span_have_ticks_that_can_be_read(self, low, decades, left, right, unit):
        figures = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(style, "show", lambda fig, alt: figures.append(fig))
            xs, ys = np.geomspace(10**left, 10 ** (left + right), 5), np.geomspace(10**low, 10 ** (low + decades), 5)
            plots.curves(xs, {"a": ys}, title="T", x="x", y="y", unit=unit)
        FigureCanvasAgg(figures[0]).draw()
        assert_inside(figures[0])
        assert_ticks_apart(figures[0].axes[0])

    def test_recorded_lines_of_the_same_names_have_one_name_and_the_same_marks(self, shown, monkeypatch):
        there = {f"H200: {name}": {"x": [1, 2], "y": [3e-6, 4e-6]} for name in ("b", "a")}
        monkeypatch.setattr(charts, "recorded_curves", lambda key: there)
        plots.curves([1, 2], {"a": [1e-6, 2e-6], "b": [2e-6, 3e-6]}, title="T", x="x", y="y", key="k")
        ((fig, alt),) = shown
        assert [text.get_text() for text in fig.axes[0].get_legend().get_texts()] == [
            "a",
            "b",
            "H200: the same, in grey",
        ]
        swatch = fig.axes[0].get_legend().legend_handles[-1]
        assert matplotlib.colors.to_hex(swatch.get_facecolor()) == style.RECORDED["color"]
        a, b, grey_b, grey_a = fig.axes[0].lines
        assert (grey_a.get_marker(), grey_b.get_marker()) == (a.get_marker(), b.get_marker())
        assert "H200: a: 3 µs at 1 to 4 µs at 2." in alt

    def test_marks_are_named_above_the_axes_and_differ_from_bounds(self, shown):
        marks = {"knee, elementwise": 20, "knee, matmul": 30}
        plots.curves([1, 100], {"a": [1.0, 2.0]}, bounds={"b": [1, 1], "c": [2, 2]}, title="T", x="x", y="y",
                     marks=marks)  # fmt: skip
        fig, ax = shown[0][0], shown[0][0].axes[0]
        renderer = FigureCanvasAgg(fig).get_renderer()
        boxes = [text.get_window_extent(renderer) for text in ax.texts]
        assert [text.get_text() for text in ax.texts] == list(marks)
        assert min(box.y0 for box in boxes) >= ax.get_window_extent(renderer).y1, "no data lies there"
        assert not boxes[0].overlaps(boxes[1])
        upright = {line.get_linestyle() for line in ax.lines if len(set(line.get_xdata())) == 1}
        assert upright.isdisjoint(line.get_linestyle() for line in ax.lines if line.get_label() in ("b", "c"))
        assert_inside(fig)


class TestOddCurves:
    def test_what_cannot_be_on_the_axes_is_left_out_and_said(self, shown, capsys):
        values = {"a": [0, 1e-3, -1e-3, math.inf], "b": [1e-3, 2e-3, None, math.nan]}
        plots.curves([1, 10, 100, 1000], values, title="T", x="x", y="y", bounds={"m": [0.0, 1e-3, 1.0, 1.0]})
        sentence = "Not on these axes: 3 of 4 points of 'a', 1 of 4 points of 'm' (zero, negative or infinite)."
        assert capsys.readouterr().out == f"{sentence}\n"
        ((fig, alt),) = shown
        assert_inside(fig)
        assert alt.endswith(sentence)
        assert "a: 1 ms at 10 to 1 ms at 10." in alt

    def test_on_linear_axes_zero_has_a_place(self, shown, capsys):
        plots.curves([0, 1], {"a": [0, -1.0]}, title="T", x="x", y="y", log="")
        assert capsys.readouterr().out == ""
        assert shown[0][0].axes[0].lines[0].get_ydata().tolist() == [0, -1]

    @pytest.mark.parametrize(
        ("xs", "series", "options"),
        [
            ([1, 2], {"a": [0, -1]}, {}),
            ([0, -1], {"a": [1, 1]}, {}),
            ([1, 2], {"a": [math.inf, math.inf]}, {"log": ""}),
            ([1, 2], {"a": [0, 0], "b": [math.nan, math.nan]}, {"log": "y"}),
        ],
    )
    def test_nothing_that_could_be_drawn(self, shown, xs, series, options):
        with pytest.raises(
            ValueError, match=r"expected a point that can be drawn; found only zero, negative or inf.*'a'"
        ):
            plots.curves(xs, series, title="T", x="x", y="y", **options)
        assert shown == []

    @pytest.mark.parametrize("log", ["xy", "x", "y", ""])
    def test_nothing_but_gaps_is_an_empty_figure(self, shown, log):
        plots.curves([1, 2], {"a": [math.nan, None]}, title="T", x="x", y="y", log=log)
        assert_inside(shown[0][0])
        assert "a: no points." in shown[0][1]

    @pytest.mark.parametrize(("xs", "series"), [([], {}), ([1, 2], {}), ([], {"a": []}), ([1], {"a": ([], [])})])
    def test_no_points_at_all(self, shown, xs, series):
        with pytest.raises(ValueError, match=r"^expected at least one point to draw; found none$"):
            plots.curves(xs, series, title="T", x="x", y="y")
        assert shown == []

    def test_bounds_alone_are_a_figure(self, shown):
        plots.curves([1, 2], {}, bounds={"model": [1.0, 2.0]}, title="T", x="x", y="y")
        assert_inside(shown[0][0])

    @pytest.mark.parametrize(
        ("series", "says"),
        [
            ({"a": ["1", "2"]}, "expected numbers for 'a'; found '1'"),
            ({"a": [1, object()]}, "expected numbers for 'a'; found a object"),
            ({"a": [1, 2j]}, "expected numbers for 'a'; found 2j"),
            ({"a": np.ones((2, 2))}, r"expected a list of numbers for 'a'; found a ndarray of shape \(2, 2\)"),
            ({"a": [[1], [2]]}, "expected numbers for 'a'; found a list"),
            ({"a": 3.0}, "expected a list of numbers or measurements for 'a'; found a float"),
            ({"a": "12"}, "expected a list of numbers or measurements for 'a'; found a str"),
            ({"a": ([1, 2], 3)}, "expected a list of numbers or measurements for 'a'; found a int"),
            ({"a": [sample(1.0), 2.0]}, "expected numbers or measurements for 'a'; found both"),
            ([[1, 2]], "expected series as label and values"),
        ],
    )
    def test_what_is_no_number(self, shown, series, says):
        with pytest.raises(TypeError, match=says):
            plots.curves([1, 2], series, title="T", x="x", y="y")
        with pytest.raises(TypeError, match=r"^expected .*; found (a|[\d'])"):
            plots.curves([1, 2], {}, bounds=series, title="T", x="x", y="y")
        assert shown == []
        assert this_run() == {}

    @pytest.mark.parametrize("xs", ["ab", ["a", "b"], 3, {1: 2}, [sample(1.0)]])
    def test_positions_that_are_no_numbers(self, shown, xs):
        with pytest.raises(TypeError, match=r"expected .*numbers for 'the positions'; found"):
            plots.curves(xs, {"a": [1.0, 2.0]}, title="T", x="x", y="y")

    def test_as_many_series_as_can_be_told_apart(self, shown):
        most = style.MOST_SERIES
        plots.curves([1, 2], {f"a series with a name of its own, {i}": [1 + i, 2 + i] for i in range(most)},
                     title="T", x="x", y="y")  # fmt: skip
        assert_inside(shown[0][0])
        legend = shown[0][0].axes[0].get_legend()
        assert len(legend.get_texts()) == most
        for count in (most + 1, 41):
            with pytest.raises(
                ValueError, match=rf"^expected at most {most} series in one figure, .* found {count}: draw"
            ):
                plots.curves([1, 2], {str(i): [1.0, 2.0] for i in range(count)}, title="T", x="x", y="y")

    @pytest.mark.parametrize(
        "label", ["an_identifier_" * 36, "several words " * 60, "$x_$ and $y", r"\frac{", "_hidden", 7, "a\nb"]
    )
    def test_names_of_any_length_and_kind(self, shown, label):
        labels = {label: [1e-6, 2e-6], "other": [2e-6, 3e-6]}
        name = str(label)
        plots.curves([1, 10], labels, title=f"T {name}", x=f"x {name}", y=f"y {name}", marks={label: 3.0})
        plots.bars(labels.fromkeys(labels, 1.0), title=f"T {name}", y=f"y {name}", marks={label: 0.7})
        plots.intervals(labels.fromkeys(labels, (1, 2, 3)), title=f"T {name}", x=f"x {name}", truth=1.0)
        plots.roofline(CEILINGS, dict.fromkeys(labels, WORKS["axpy"]), title=f"T {name}")
        for fig, _ in shown:
            assert_inside(fig)
            box = fig.axes[0].get_window_extent()
            assert box.width > 0.3 * fig.bbox.width, "the chart keeps its room"
            assert box.height > 0.3 * fig.bbox.height
        assert len(shown[0][0].axes[0].get_legend().get_texts()) == 2

    @pytest.mark.parametrize("where", [0, -1, math.nan, math.inf])
    def test_marks_beyond_the_axes_are_said(self, shown, where):
        plots.curves([1, 2], {"a": [1.0, 2.0]}, title="T", x="x", y="y", marks={"knee": where})
        assert "Line at knee: " in shown[0][1]
        assert "not on these axes" in shown[0][1]

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"log": "z"}, "expected log as 'xy', 'x', 'y' or ''"),
            ({"log": True}, "expected log as 'xy', 'x', 'y' or ''"),
            ({"ylim": (0, None)}, "expected a logarithmic axis to begin above zero; found ylim="),
            ({"attribute": "time"}, "expected the attribute of a measurement, one of median_s"),
        ],
    )
    def test_options(self, shown, options, says):
        with pytest.raises(ValueError, match=says):
            plots.curves([1, 2], {"a": [1.0, 2.0]}, title="T", x="x", y="y", **options)


class TestBands:
    RANGES = {"noise up to 40 %": ([1e-6, 2e-6], [9e-6, 5e-6]), "noise up to 5 %": ([3e-6, 3.2e-6], [4e-6, 3.5e-6])}  # noqa: RUF012

    def test_all_parts(self, shown):
        plots.bands([3, 50], self.RANGES, title=LONG, x="samples", y="median", ticks=True)
        ((fig, alt),) = shown
        assert_inside(fig)
        assert "noise up to 40 %: 1 µs to 9 µs at 3, 2 µs to 5 µs at 50." in alt
        assert tick_texts(fig.axes[0].xaxis) == ["3", "50"]
        assert [text.get_text() for text in fig.axes[0].get_legend().get_texts()] == list(self.RANGES)

    def test_an_array_of_two_rows_is_two_ends(self, shown):
        plots.bands([3, 50], {name: np.array(ends) for name, ends in self.RANGES.items()}, title="T", x="x", y="y")
        plots.bands([3, 50], self.RANGES, title="T", x="x", y="y")
        assert shown[0][1] == shown[1][1]

    def test_in_grey_one_behind_the_other_can_be_seen(self, shown):
        plots.bands([3, 50], self.RANGES, title="T", x="samples", y="median")
        fills, lines = shown[0][0].axes[0].collections, shown[0][0].axes[0].lines
        assert all(fill.get_facecolor()[0][3] <= 0.2 for fill in fills), "the one behind shines through"
        assert len({fill.get_hatch() for fill in fills}) == 2
        assert len({line.get_linestyle() for line in lines}) == 2
        assert len(lines) == 4, "each end has its outline"

    def test_odd_input(self, shown):
        for ranges, says in (
            ({}, "at least one range"),
            ({"a": [1, 2]}, "expected a list of numbers or measurements for 'a'"),
            ({"a": 3}, "expected the lower and the upper ends of 'a'"),
            ({"a": np.array(3)}, "expected the lower and the upper ends of 'a'"),
            ({"a": ([1, 2], [1])}, "'a' has 2 lower and 1 upper ends"),
            ({"a": (["x", "y"], [1, 2])}, "expected numbers for 'a'; found 'x'"),
            ({str(i): ([1], [2]) for i in range(41)}, "expected at most 14 series"),
        ):
            with pytest.raises((TypeError, ValueError), match=says):
                plots.bands([1, 2], ranges, title="T", x="x", y="y")
        assert shown == []


class TestDistribution:
    def test_all_parts(self, shown):
        times = [1e-4 * (1 + 0.001 * i) for i in range(200)] + [1e-2]
        plots.distribution(times, title=LONG)
        ((fig, alt),) = shown
        assert_inside(fig)
        assert_ticks_apart(fig.axes[0])
        assert "Histogram of 201 calls: median 110 µs, mean 159 µs, p20 104 µs, p80 116 µs, longest 10 ms." in alt
        assert [t.get_text() for t in fig.axes[0].texts] == ["1 slower call beyond,\nup to 10 ms"]

    @pytest.mark.parametrize("times", [[1e-3], [1e-3] * 50, [1e-3, 1.0]])
    def test_few_or_equal_times(self, shown, times):
        plots.distribution(times, title="T")
        assert_inside(shown[0][0])

    @pytest.mark.parametrize(
        ("times", "options", "says"),
        [
            ([1.0, math.nan, math.inf], {}, "expected times that are all finite; found 2 of 3 that are not"),
            ([1.0, None], {}, "found 1 of 2 that are not"),
            (["1"], {}, "expected numbers for 'the times'; found '1'"),
            (3.0, {}, "expected a list of numbers for 'the times'; found a float"),
            (sample(1.0), {}, "found a Measurement: pass its times_s"),
            ([1.0], {"bins": 0}, "expected bins of 1 or more"),
            ([1.0], {"bins": 1.5}, "expected bins of 1 or more"),
            ([1.0], {"clip": 0}, "and a clip above 0"),
            ([1.0], {"clip": 1.1}, "and a clip above 0"),
        ],
    )
    def test_odd_input(self, shown, times, options, says):
        with pytest.raises((TypeError, ValueError), match=says):
            plots.distribution(times, title="T", **options)
        assert shown == []

    @pytest.mark.parametrize("times", [[0.0], [0.0] * 9, [-1.0, 1.0], np.linspace(1, 2, 9, dtype="f4"), range(1, 5)])
    def test_unusual_times(self, shown, times):
        plots.distribution(times, title="T")
        assert_inside(shown[0][0])

    def test_no_times(self, shown):
        with pytest.raises(ValueError, match="at least one call; found none"):
            plots.distribution([], title="T")


class TestIntervals:
    @pytest.mark.parametrize("truth", [None, 1.0])
    def test_all_parts(self, shown, truth):
        rows = {"one after the other, named at length": Ratio([1.4, 1.5, 1.6]), "in turn": (0.98, 1.0, 1.01)}
        plots.intervals(rows, title=LONG, x="ratio", truth=truth)
        ((fig, alt),) = shown
        assert_inside(fig)
        assert "one after the other, named at length: 1.5 (1.44 to 1.56). in turn: 1 (0.98 to 1.01)." in alt
        assert ("The truth is 1." in alt) == (truth is not None)
        assert [t.get_text().replace("\n", " ") for t in fig.axes[0].get_yticklabels()] == list(rows)
        said = [text.get_text() for text in fig.axes[0].get_legend().get_texts()]
        assert said == [*["truth: 1"] * (truth is not None), "bar: p20 to p80"]

    def test_one_row(self, shown):
        plots.intervals({"a": (1.0, 2.0, 3.0)}, title="T", x="x", truth=1.0)
        assert_inside(shown[0][0])

    @pytest.mark.parametrize(
        ("rows", "says"),
        [
            ({}, "expected at least one row of intervals; found none"),
            ({"a": (1, 2)}, r"expected \(low, middle, high\) in this order for 'a'; found \(1, 2\)"),
            ({"a": (3, 2, 1)}, r"expected \(low, middle, high\) in this order"),
            ({"a": ("1", 2, 3)}, "expected numbers for 'a'; found '1'"),
            ({"a": 3}, "expected a list of numbers for 'a'; found a int"),
            ({str(i): (1, 2, 3) for i in range(61)}, "expected at most 60 rows of intervals; found 61"),
            ([(1, 2, 3)], "expected intervals as label and value; found a list"),
        ],
    )
    def test_odd_rows(self, shown, rows, says):
        with pytest.raises((TypeError, ValueError), match=says):
            plots.intervals(rows, title="T", x="x")
        assert shown == []

    def test_gaps(self, shown):
        plots.intervals({"a": (math.nan,) * 3, "b": (1, 2, 3), "c": (1, 2, math.inf)}, title="T", x="x")
        assert_inside(shown[0][0])

    def test_many_rows(self, shown):
        plots.intervals({str(i): (1, 2, 3) for i in range(20)}, title="T", x="x")
        assert_inside(shown[0][0])


class TestBars:
    @pytest.mark.parametrize("missing", [0, -1.0, math.nan, math.inf, None])
    def test_on_a_logarithmic_axis_what_is_not_there_is_said(self, shown, missing):
        plots.bars({"a": 1.0, "b": missing}, title="T", y="time", log=True, recorded={"a": 0.0}, bounds={"b": 0.0},
                   marks={"m": 0.0})  # fmt: skip
        ((fig, alt),) = shown
        assert_inside(fig)
        notes = [text.get_text() for text in fig.axes[0].texts]
        assert "0 s: not on a logarithmic axis" in notes
        assert any(note == "–" or "not on a logarithmic axis" in note for note in notes)
        assert "Line at m: 0 s, not on these axes." in alt
        assert len(fig.axes[0].get_yticklabels()) == 2

    @pytest.mark.parametrize("values", [{"a": 0}, {"a": 0, "b": -1}, {"a": 0, "b": math.nan}])
    def test_no_bar_that_a_logarithmic_axis_could_show(self, shown, values):
        with pytest.raises(
            ValueError, match="expected a bar above zero on a logarithmic axis; found none: pass log=False"
        ):
            plots.bars(values, title="T", y="time", log=True)
        plots.bars(values, title="T", y="time")
        assert_inside(shown[0][0])

    @pytest.mark.parametrize("log", [False, True])
    def test_nothing_but_gaps(self, shown, log):
        plots.bars({"a": math.nan, "b": None}, title="T", y="time", log=log)
        assert_inside(shown[0][0])

    @pytest.mark.parametrize(
        ("values", "options", "says"),
        [
            ({}, {}, "expected at least one row of bars; found none"),
            ({"a": "3"}, {}, "expected numbers for 'a'; found '3'"),
            ({"a": [1]}, {}, "expected numbers for 'a'; found a list"),
            ({"a": sample(1.0)}, {}, "expected numbers for 'a'; found a Measurement"),
            ([1, 2], {}, "expected bars as label and value; found a list"),
            ({str(i): 1 for i in range(61)}, {}, "expected at most 60 rows of bars; found 61"),
            ({"a": 1}, {"bounds": {"a": "x"}}, "expected numbers for 'model: a'; found 'x'"),
            ({"a": 1}, {"recorded": {"a": "x"}}, "expected numbers for 'recorded: a'; found 'x'"),
            ({"a": 1}, {"marks": {"m": "x"}}, "expected numbers for 'm'; found 'x'"),
        ],
    )
    def test_odd_input(self, shown, values, options, says):
        with pytest.raises((TypeError, ValueError), match=says):
            plots.bars(values, title="T", y="time", **options)
        assert shown == []

    def test_sixty_rows(self, shown):
        plots.bars({f"row {i}": 1 + i for i in range(60)}, title="T", y="time")
        assert_inside(shown[0][0])

    @pytest.mark.parametrize("log", [False, True])
    @pytest.mark.parametrize("recorded", [None, {"products": 1e-4, "elementwise": 3e-5}])
    def test_all_parts(self, shown, log, recorded):
        values = {"products": 3e-3, "elementwise": 1e-3, "a part with a very long name that goes on and on": 1e-4}
        plots.bars(values, title=LONG, y="time", bounds={"products": 2e-3}, recorded=recorded, log=log,
                   marks={"the whole step, eager": 4e-3, "the whole step, compiled": 3.8e-3})  # fmt: skip
        ((fig, alt),) = shown
        assert_inside(fig)
        assert_ticks_apart(fig.axes[0])
        assert "products: 3 ms. elementwise: 1 ms." in alt
        assert "Line at the whole step, eager: 4 ms." in alt
        renderer = FigureCanvasAgg(fig).get_renderer()
        first, second = (text.get_window_extent(renderer) for text in fig.axes[0].texts)
        assert not first.overlaps(second)
        labels = [text.get_text() for text in fig.axes[0].get_legend().get_texts()]
        assert set(labels) == {"yours", "model"} | ({"recorded"} if recorded else set())

    def test_a_value_that_is_missing(self, shown):
        plots.bars({"a": 1.0, "b": math.nan}, title="T", y="time")
        assert_inside(shown[0][0])


def numbers(ax) -> list:
    """The numbers beside the points."""
    return [text for text in ax.texts if text.get_text().isdigit()]


def dots(ax) -> list:
    return [line for line in ax.lines if line.get_marker() == "o"]


def assert_numbers_apart(ax) -> None:
    """No number lies on another number or on a dot."""
    renderer = FigureCanvasAgg(ax.figure).get_renderer()
    ax.figure.draw(renderer)
    # A leader line is part of an annotation; only the number itself counts.
    boxes = [(text.get_text(), Text.get_window_extent(text, renderer)) for text in numbers(ax)]
    for i, (name, box) in enumerate(boxes):
        assert not any(box.overlaps(other) for _, other in boxes[:i]), name
        for dot in dots(ax):
            x, y = ax.transData.transform(dot.get_xydata()[0])
            assert not box.contains(x, y), name


class TestRoofline:
    def measured(self, share: float = 0.5) -> dict[str, Measurement]:
        return {name: sample(bound(work, CEILINGS).time_s / share, work) for name, work in WORKS.items()}

    def record(self) -> dict:
        placed = {
            name: {"intensity": w.intensity, "flops_per_s": bound(w, H200).flops_per_s} for name, w in WORKS.items()
        }
        return {"ceilings": H200.to_dict(), "formats": ["fp32"], "points": placed}

    @pytest.mark.parametrize("beside", [False, True])
    def test_all_parts(self, shown, monkeypatch, beside):
        if beside:
            monkeypatch.setattr(roof, "recorded", lambda key: self.record())
            monkeypatch.setattr(roof, "reference", lambda: {"device": {"name": "NVIDIA H200"}})
        plots.roofline(CEILINGS, self.measured(), title=LONG, key="roof")
        ((fig, alt),) = shown
        (ax,) = fig.axes
        assert_inside(fig)
        assert_ticks_apart(ax)
        assert len(numbers(ax)) == len(WORKS) * (2 if beside else 1)
        assert_numbers_apart(ax)
        assert "Roofline: 20 GB/s; fp32 150 GFLOP/s, ridge 7.5 FLOP/byte." in alt
        assert "1 axpy: intensity 0.167 FLOP/byte, model 3.33 GFLOP/s, measured 1.67 GFLOP/s." in alt
        key = next(text.get_text() for text in ax.texts if "● measured" in text.get_text())
        assert ("grey: H200" in key) == beside
        kept = this_run()["roof"]
        assert set(kept["points"]) == set(WORKS)
        assert Ceilings.from_dict(kept["ceilings"]) == CEILINGS

    def test_a_recorded_roof_is_as_high_as_the_fastest_point_of_that_run(self, shown, monkeypatch):
        slow, rate = self.record(), H200.rate("fp32")
        fast = {**slow, "points": {"a batch": {"intensity": 1e3, "flops_per_s": 1.25 * rate}}}
        other = {**fast, "formats": ["fp8"], "points": {"x": {"intensity": 1e3, "flops_per_s": 9 * rate}}}
        run = {"device": {"name": "NVIDIA H200"}, "values": {"roof": slow, "batches": fast, "more": other, "n": 3.0}}
        monkeypatch.setattr(roof, "recorded", lambda key: run["values"][key])
        monkeypatch.setattr(roof, "reference", lambda: run)
        plots.roofline(CEILINGS, self.measured(), title="T", key="roof")
        ax = shown[0][0].axes[0]
        assert max(ax.lines[0].get_ydata()) == 1.25 * rate
        assert f"fp32 {format_si(1.25 * rate, 'FLOP/s')}" in [text.get_text() for text in ax.texts]
        two = replace(H200, flops_per_s={"fp32": rate, "fp64": rate}).to_dict()
        monkeypatch.setattr(roof, "recorded", lambda key: slow | {"ceilings": two, "formats": ["fp32", "fp64"]})
        plots.roofline(CEILINGS, self.measured(), title="T", key="roof")
        assert max(shown[1][0].axes[0].lines[0].get_ydata()) == rate, "no one knows which format was so fast"

    def test_predicted_points_are_hollow(self, shown):
        plots.roofline(CEILINGS, WORKS, title="T", formats=["fp32", "fp64"])
        ((fig, alt),) = shown
        assert "measured" not in alt
        assert not any("measured" in text.get_text() for text in fig.axes[0].texts)
        assert {dot.get_markerfacecolor() for dot in dots(fig.axes[0])} == {"white"}
        assert sum(text.get_text().startswith(("fp32 ", "fp64 ")) for text in fig.axes[0].texts) == 2

    def test_many_points_in_one_place(self, shown):
        plots.roofline(CEILINGS, {f"copy {i}": WORKS["axpy"] for i in range(12)}, title="T")
        assert_numbers_apart(shown[0][0].axes[0])

    def test_every_point_lies_within_the_axes(self, shown):
        plots.roofline(CEILINGS, self.measured(share=1e-4), title="T")
        ax = shown[0][0].axes[0]
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        for dot in dots(ax):
            ((x, y),) = dot.get_xydata()
            assert left < x < right
            assert low < y < high

    def test_work_without_arithmetic_is_named_but_not_placed(self, shown):
        plots.roofline(CEILINGS, {"copy": costs.copy(1000, "fp32"), "axpy": WORKS["axpy"]}, title="T", span=(0.01, 100))
        assert len(numbers(shown[0][0].axes[0])) == 1

    def test_a_roof_alone(self, shown):
        plots.roofline(CEILINGS, {}, title="T")
        ((fig, alt),) = shown
        assert_inside(fig)
        assert_ticks_apart(fig.axes[0])
        assert (
            alt == "T. Roofline: 20 GB/s; fp64 70 GFLOP/s, ridge 3.5 FLOP/byte; fp32 150 GFLOP/s, ridge 7.5 FLOP/byte."
        )
        assert not any("model" in text.get_text() for text in fig.axes[0].texts)
        left, right = fig.axes[0].get_xlim()
        assert left < CEILINGS.ridge("fp64") < CEILINGS.ridge("fp32") < right

    @pytest.mark.parametrize("points", [{}, {"copy": costs.copy(1000, "int8")}])
    def test_a_bandwidth_and_no_rate(self, shown, points):
        plots.roofline(Ceilings(2e10, {}), points, title="T")
        ((fig, alt),) = shown
        assert_inside(fig)
        assert alt.startswith("T. Roofline: 20 GB/s.")
        assert any(text.get_text() == "20 GB/s" for text in fig.axes[0].texts)

    def test_what_has_no_place_on_these_axes_is_named_and_said(self, shown):
        works = {"copy": costs.copy(1000, "fp32"), "in registers": costs.Work(flops=10, dtype="fp32"),
                 "axpy": WORKS["axpy"]}  # fmt: skip
        plots.roofline(CEILINGS, works | {"measured copy": sample(1e-3, works["copy"])}, title="T")
        ((fig, alt),) = shown
        assert_inside(fig)
        assert [text.get_text() for text in numbers(fig.axes[0])] == ["3"]
        assert (
            "1 copy: no FLOP, not on these axes. 2 in registers: no byte, not on these axes. 3 axpy: intensity" in alt
        )
        key = next(text.get_text() for text in fig.axes[0].texts if "○ model" in text.get_text())
        assert "1  copy\n    (no FLOP: not shown)\n2  in registers\n    (no byte: not shown)\n3  axpy\n4" in key

    def test_twenty_points_and_no_more(self, shown):
        points = {f"an operation with a name of its own, {i}": WORKS["axpy"] * (i + 1) for i in range(20)}
        plots.roofline(CEILINGS, points, title="T")
        assert_inside(shown[0][0])
        with pytest.raises(ValueError, match="expected at most 20 points, as many as can be named; found 21"):
            plots.roofline(CEILINGS, points | {"one more": WORKS["axpy"]}, title="T")

    @pytest.mark.parametrize(
        ("ceilings", "points", "options", "says"),
        [
            (None, {}, {}, r"expected Ceilings \(of a chip: Ceilings.of_chip\(chip\)\); found a NoneType"),
            (CEILINGS, [WORKS["axpy"]], {}, "expected points as name and Work or Measurement; found a list"),
            (
                CEILINGS,
                {"a": 3.0},
                {},
                "expected a Work or a Measurement to place under the roof; found a float for 'a'",
            ),
            (CEILINGS, {}, {"span": (0, 1)}, "expected the lower and the upper end of the intensities, above zero"),
            (CEILINGS, {}, {"span": (2, 1)}, "expected the lower and the upper end"),
            (CEILINGS, {}, {"span": (1, math.inf)}, "expected the lower and the upper end"),
            (CEILINGS, {}, {"formats": ["fp8"]}, r"rate on AMD EPYC \(fp32, fp64\); found fp8"),
            (CEILINGS, {"a": costs.axpy(9, "bf16")}, {}, r"rate on AMD EPYC \(fp32, fp64\); found bf16"),
        ],
    )
    def test_odd_input(self, shown, ceilings, points, options, says):
        with pytest.raises((TypeError, ValueError, KeyError), match=says):
            plots.roofline(ceilings, points, title="T", **options)
        assert shown == []

    @pytest.mark.parametrize("record", [3, [], {"points": {}}, {"points": {}, "formats": ["fp8"], "ceilings": {}}])
    def test_what_is_recorded_as_no_roofline(self, shown, monkeypatch, record):
        monkeypatch.setattr(roof, "recorded", lambda key: record)
        with pytest.raises(
            ValueError, match=r"^The record holds no roofline under 'roof' .*: give the figure a key of its"
        ):
            plots.roofline(CEILINGS, {}, title="T", key="roof")

    def test_a_measurement_without_work(self, shown):
        with pytest.raises(ValueError, match=r"^m has no work: pass work=costs.… to measure\(\) to place it"):
            plots.roofline(CEILINGS, {"m": sample(1.0)}, title="T")


class TestStyle:
    def test_equal_figures_are_equal_bytes(self, shown):
        for _ in range(2):
            plots.curves([1, 10], {"a": [1e-6, 1e-3]}, title="T", x="x", y="y")
        first, second = (style.png(fig, pixels_per_inch=60) for fig, _ in shown)
        assert first == second
        assert first.startswith(b"\x89PNG")

    def test_the_picture_is_shown_at_the_pages_resolution(self, monkeypatch, capsys):
        sizes = []
        monkeypatch.setattr(style, "show_image", lambda png, **how: sizes.append((png, how)))
        with plots.figure("T", x="time (s)", y="rate"):
            pass
        png, how = sizes[0]
        assert (how["width"], how["height"]) == (691, 384)
        assert int.from_bytes(png[16:20], "big") == 1382  # twice as many pixels
        assert how["alt"] == "T. rate over time (s)."

    def test_columns(self, shown):
        with plots.figure(LONG, columns=3, size=(9, 3)) as axes:
            assert len(axes) == 3
        assert_inside(shown[0][0])

    @pytest.mark.parametrize(
        ("options", "says"),
        [({"columns": 0}, "1 to 6 panels"), ({"columns": 1.5}, "1 to 6 panels"), ({"columns": 99}, "1 to 6 panels"),
         ({"size": (0, 3)}, "of 0.5 to 40 inches"), ({"size": (7, 1e4)}, "of 0.5 to 40 inches")],
    )  # fmt: skip
    def test_panels_and_sizes_that_cannot_be(self, shown, options, says):
        with pytest.raises(ValueError, match=says), plots.figure("T", **options):
            pass
        with pytest.raises(TypeError, match="expected a title that states the message; found None"), plots.figure(None):
            pass

    def test_nothing_is_shown_when_drawing_fails(self, shown):
        with pytest.raises(ZeroDivisionError), plots.figure("T"):
            raise ZeroDivisionError
        assert shown == []

    def test_the_readers_own_settings_are_left_alone(self, shown):
        before = {name: matplotlib.rcParams[name] for name in style.house_style}
        plots.curves([1, 10], {"a": [1e-6, 1e-3]}, title="T", x="x", y="y")
        assert before == {name: matplotlib.rcParams[name] for name in style.house_style}
        assert before != style.house_style

    def test_series_can_be_told_apart_without_colour(self):
        looks = [style.series_style(i) for i in range(7)]
        assert len({look["marker"] for look in looks}) == len({look["color"] for look in looks}) == 7
        assert (
            len(
                {
                    (look["marker"], "markerfacecolor" in look)
                    for look in map(style.series_style, range(style.MOST_SERIES))
                }
            )
            == style.MOST_SERIES
            == 14
        )

    @pytest.mark.parametrize(
        ("value", "unit", "text"),
        [
            (1e-5, "s", "10 µs"),
            (0, "s", "0 s"),
            (1000, "", "1,000"),
            (10_000, "", "10k"),
            (-2e6, "", "-2M"),
            (3e15, "", "3000T"),
            (math.inf, "", "inf"),
            (math.nan, "", "nan"),
        ],
    )
    def test_ticks(self, value, unit, text):
        assert style._tick(value, unit) == text


def test_outside_a_notebook_the_alternative_text_is_printed(home, capsys):
    plots.curves([1, 10], {"a": [1e-6, 1e-3]}, title="Time grows.", x="side", y="time")
    assert capsys.readouterr().out == "Time grows. Chart of time over side. a: 1 µs at 1 to 1 ms at 10.\n"


class TestRefusedInOneSentence:
    @pytest.mark.parametrize(
        "draw",
        [
            lambda title: plots.bands([1], {"a": ([1], [2])}, title=title, x="x", y="y"),
            lambda title: plots.bars({"a": 1}, title=title, y="y"),
            lambda title: plots.curves([1], {"a": [1]}, title=title, x="x", y="y"),
            lambda title: plots.distribution([1.0], title=title),
            lambda title: plots.intervals({"a": (1, 2, 3)}, title=title, x="x"),
            lambda title: plots.roofline(CEILINGS, {}, title=title),
        ],
    )
    def test_a_title_that_is_no_text(self, draw):
        for title in (None, 3):
            with pytest.raises(TypeError, match=f"^expected a title that states the message; found {title}$"):
                draw(title)

    @pytest.mark.parametrize(
        "span", [5, "ab", (1,), (2, 1), (0, 1), (1, "2"), (1, None), (1, math.inf), {1: 2, 3: 4}, np.ones(2)]
    )
    def test_a_span_that_is_none(self, span):
        with pytest.raises(ValueError, match=r"^expected the lower and the upper end of the intensities, above zero"):
            plots.roofline(CEILINGS, {}, title="T", span=span)

    def test_bands_upside_down(self):
        with pytest.raises(ValueError, match=r"^expected lower ends of 'a' below its upper ends; found 3 and 2$"):
            plots.bands([1, 2], {"a": ([1, 3], [1, 2])}, title="T", x="x", y="y")
        with pytest.raises(TypeError, match=r"^expected ranges as label and value; found a list"):
            plots.bands([1, 2], [1], title="T", x="x", y="y")

    def test_a_bound_without_its_bar(self):
        with pytest.raises(ValueError, match=r"^expected bounds of the bars, 'a'; found one of 'b'$"):
            plots.bars({"a": 1}, bounds={"a": 1, "b": 1}, title="T", y="y")

    @pytest.mark.parametrize("what", ["bounds", "recorded", "marks"])
    def test_what_is_no_table_beside_bars(self, what):
        with pytest.raises(TypeError, match=r"^expected .* as label and value; found a list$"):
            plots.bars({"a": 1}, **{what: [1]}, title="T", y="y")

    def test_what_is_no_table_of_marks(self):
        with pytest.raises(TypeError, match=r"^expected marks as label and value; found a int$"):
            plots.curves([1], {"a": [1]}, marks=3, title="T", x="x", y="y")
