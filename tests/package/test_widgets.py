"""The explorers: panels where nobody can drag, and a form whose every control moves the figure."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from rooflab import explorer, widgets
from rooflab.plots import style
from rooflab.roofline import REGIMES, Ceilings
from rooflab.specs import chips
from rooflab.units import FORMATS

CPU = Ceilings(2e10, {"fp32": 1.5e11, "bf16": 7e11}, launch_s=2e-6, label="AMD EPYC", measured=True)
GPU = Ceilings(4.28e12, {"fp32": 5.1e13, "bf16": 7e14}, launch_s=1e-5, label="NVIDIA H200", measured=True)
MANY = Ceilings(4.28e12, {"fp64": 6e13, "fp32": 5.1e13, "tf32": 4.1e14, "fp16": 7e14, "bf16": 7e14, "int8": 1.3e15,
                          "fp8": 1.31e15}, label="close together")  # fmt: skip
SLOW_MEMORY = Ceilings(2e10, {"fp32": 1e13}, launch_s=1e-6, label="no chip")  # has a bandwidth-bound stretch


@pytest.fixture
def shown(monkeypatch):
    figures = []
    monkeypatch.setattr(style, "show", lambda fig, alt: figures.append((fig, alt)))
    return figures


@pytest.fixture
def displayed():
    """What was displayed, one after the other."""
    return []


@pytest.fixture
def drag(monkeypatch, displayed):
    """A reader sits before a notebook: the form that a widget displays, as (controls by name, caption, image)."""
    import IPython.display

    from rooflab import plots

    monkeypatch.setattr(explorer, "is_headless", lambda: False)
    monkeypatch.setattr(IPython.display, "display", displayed.append)
    # Small pictures: what changes is to be seen, not to be admired.
    real = plots.style.png
    monkeypatch.setattr(plots.style, "png", lambda fig, pixels_per_inch: real(fig, pixels_per_inch=40))

    def form(make, *args, **kwargs):
        make(*args, **kwargs)
        *controls, caption, image = displayed[-1].children
        return {control.description: control for control in controls}, caption, image

    return form


def inside(fig) -> bool:
    FigureCanvasAgg(fig).draw()
    box = fig.get_tightbbox(FigureCanvasAgg(fig).get_renderer())
    width, height = fig.get_size_inches()
    return box.x0 > -0.02 and box.y0 > -0.02 and box.x1 < width + 0.02 and box.y1 < height + 0.02


class TestPanels:
    @pytest.mark.parametrize("ceilings", [CPU, GPU, SLOW_MEMORY])
    def test_each_panel_of_the_regimes_is_in_another_one(self, shown, ceilings):
        widgets.regimes(ceilings)
        ((fig, alt),) = shown
        panels = {"a small product": "overhead", "a large addition": "bandwidth", "a large product": "compute"}
        assert [ax.get_title(loc="left") or ax.get_title() for ax in fig.axes] == list(panels)
        for name, regime in panels.items():
            assert f": {regime}-bound" in alt.split(f"{name}: ")[1].split(" of the peak")[0]
        assert inside(fig)

    def test_a_device_whose_launches_are_free_still_has_panels(self, shown):
        widgets.regimes(Ceilings(1e10, {"fp32": 1e9}))
        assert len(shown[0][0].axes) == 3

    @pytest.mark.parametrize("ceilings", [None, CPU, GPU])
    def test_roofline(self, shown, ceilings):
        widgets.roofline(ceilings)
        ((fig, alt),) = shown
        assert len(fig.axes) == 3
        assert all(f"batch {b}: " in alt for b in (1, 64, 4096))
        assert alt.count("-bound: intensity") == 3
        assert inside(fig)

    def test_a_chip_to_start_from(self, shown):
        widgets.roofline(chip="t4")
        widgets.roofline(chip="h200")
        assert shown[0][1] != shown[1][1]
        with pytest.raises(KeyError, match="h300"):
            widgets.roofline(chip="h300")

    def test_equal_settings_are_equal_pictures(self, shown):
        for _ in range(2):
            widgets.regimes(CPU)
        first, second = (style.png(fig, pixels_per_inch=40) for fig, _ in shown)
        assert first == second

    def test_one_legend_for_all_panels(self, shown):
        widgets.regimes(CPU)
        ((fig, _),) = shown
        assert [ax.get_legend() for ax in fig.axes] == [None] * 3
        (legend,) = fig.legends
        assert [text.get_text() for text in legend.get_texts()] == [
            *REGIMES,
            "the model's time: the longest of the three",
            "this step's",
        ]
        assert inside(fig)

    def test_panels_that_differ_keep_their_legends(self, shown):
        def draw(ax, name):
            ax.plot([1, 2], label=name)
            ax.legend()
            return name

        explorer.explore(draw, {}, {"a": {"name": "a"}, "b": {"name": "b"}}, title="T")
        assert all(ax.get_legend() for ax in shown[0][0].axes)
        explorer.explore(draw, {}, {"alone": {"name": "a"}}, title="T")
        with pytest.raises(ValueError, match="expected panels to show where nobody can drag"):
            explorer.explore(draw, {}, {}, title="T")

    def test_the_roofs_are_named_in_the_last_panel_and_at_one_height_in_all(self, shown):
        widgets.roofline(MANY)
        axes = shown[0][0].axes
        assert [len(roof_names(ax)) for ax in axes] == [0, 0, len(MANY.flops_per_s) - 1]
        assert len({ax.get_ylim() for ax in axes}) == 1
        assert inside(shown[0][0])

    @pytest.mark.parametrize("make", [widgets.roofline, widgets.regimes])
    def test_ceilings_that_are_none(self, shown, make):
        with pytest.raises(ValueError, match=r"expected ceilings with a rate in one format or more.*alone \(20 GB/s\)"):
            make(Ceilings(2e10, {}))
        with pytest.raises(TypeError, match=r"expected Ceilings .*; found a Chip"):
            make(chips()[0])
        assert shown == []

    def test_regimes_in_a_format_without_a_rate(self, shown):
        with pytest.raises(KeyError, match=r"rate on AMD EPYC \(fp32, bf16\); found fp8"):
            widgets.regimes(CPU, "fp8")


def roof_names(ax) -> list:
    return [text for text in ax.texts if text.get_gid() == explorer.SHARED]


class TestRoofNames:
    def drawn(self, roof: Ceilings, fmt: str, batch: int = 64, n: int = 4096, size=(6.9, 3.9)):
        fig = Figure(figsize=size, layout="constrained")
        ax = fig.subplots()
        widgets._draw_point(ax, roof, widgets.OPERATIONS[next(iter(widgets.OPERATIONS))](batch, n, fmt))
        FigureCanvasAgg(fig).draw()
        return fig, ax

    def test_every_roof_has_a_name_slow_to_fast_and_equal_ones_share_it(self):
        _, ax = self.drawn(MANY, "bf16")
        said = [text.get_text() for text in sorted(roof_names(ax), key=lambda text: text.xy[1])]
        rates = ["fp32: 51 T", "fp64: 60 T", "tf32: 410 T", "fp16, bf16: 700 T", "int8: 1.3 P", "fp8: 1.31 P"]
        assert said == [f"{rate}FLOP/s" for rate in rates]
        (bold,) = (text.get_text() for text in roof_names(ax) if text.get_fontweight() == "bold")
        assert bold == "fp16, bf16: 700 TFLOP/s"

    @pytest.mark.parametrize("chip", [chip for chip in chips() if chip.flops_per_s], ids=lambda chip: chip.id)
    def test_no_name_lies_on_another_or_beyond_the_figure(self, chip):
        fig, ax = self.drawn(Ceilings.of_chip(chip), next(iter(chip.flops_per_s)))
        renderer = FigureCanvasAgg(fig).get_renderer()
        boxes = sorted((text.get_window_extent(renderer) for text in roof_names(ax)), key=lambda box: box.y0)
        assert all(above.y0 >= below.y1 - 3 for below, above in pairwise(boxes))
        assert inside(fig)
        assert {fmt for text in roof_names(ax) for fmt in text.get_text().split(":")[0].split(", ")} == set(
            chip.flops_per_s
        )

    @pytest.mark.parametrize("chip", [chip for chip in chips() if chip.flops_per_s][::6], ids=lambda chip: chip.id)
    @pytest.mark.parametrize("batch", [1, 8, 64, 512, 4096])
    def test_the_regime_is_not_named_on_its_roof(self, chip, batch):
        roof, fmt = replace(Ceilings.of_chip(chip), launch_s=1e-6), next(iter(chip.flops_per_s))
        fig, ax = self.drawn(roof, fmt, batch, size=(3.3, 3.2))  # as narrow as a panel
        (name,) = (text for text in ax.texts if text.get_text() in REGIMES)
        box = Text.get_window_extent(name, FigureCanvasAgg(fig).get_renderer())
        (used,) = (line for line in ax.lines if line.get_linewidth() == 2)
        assert not any(box.contains(x, y) for x, y in ax.transData.transform(used.get_xydata()))

    @given(st.lists(st.floats(0, 200), min_size=1, max_size=12))
    def test_places_keep_their_order_and_their_distance(self, wanted):
        places = widgets.spread(sorted(wanted), gap=10, top=200)
        assert all(b - a >= 10 - 1e-9 for a, b in pairwise(places))
        assert max(places) <= 200


def ends(control) -> list:
    if hasattr(control, "base"):
        return [control.base**control.min, control.base**control.max]
    return [value for _, value in control.options][:: len(control.options) - 1]


class TestForms:
    @pytest.mark.parametrize("make", [widgets.regimes, widgets.roofline])
    def test_nothing_is_wider_than_a_narrow_page(self, drag, displayed, make):
        """The controls wrap, and neither they nor the picture may be wider than the cell's output."""
        controls, caption, image = drag(make, GPU)
        box = displayed[-1]
        assert (box.layout.flex_flow, box.layout.max_width) == ("row wrap", "100%")
        for control in controls.values():
            assert control.layout.max_width == "calc(100% - 4px)"
            assert control.layout.min_width == "0"
            assert control.layout.width == "auto"
        assert image.layout.max_width == "100%"
        assert caption.layout.width == "100%"

    def test_formats_are_listed_from_slow_to_fast(self, drag):
        controls, _, _ = drag(widgets.roofline, GPU)
        listed = [value for value, _ in controls["format"].options]
        assert [FORMATS[fmt] for fmt in listed] == sorted((FORMATS[fmt] for fmt in listed), reverse=True)
        assert listed[0] == "fp64"

    def test_a_slider_reaches_the_device_however_slow_or_fast(self, drag):
        for rates in ((1e6, 1e7, 1e-1), (1e16, 1e19, 1e-9)):
            controls, _, _ = drag(widgets.regimes, Ceilings(rates[0], {"fp32": rates[1]}, launch_s=rates[2]))
            found = [control.value for control in controls.values() if getattr(control, "base", 0) == 10.0]
            for control in (c for c in controls.values() if hasattr(c, "base")):
                steps = (math.log(control.value, control.base) - control.min) / control.step
                assert steps == pytest.approx(round(steps), abs=1e-6), "the page snaps to steps, also at the start"
            scale, unit = (1e12, "TFLOP/s") if rates[1] >= 1e12 else (1e9, "GFLOP/s")
            assert found == pytest.approx([max(rates[2] * 1e6, 0.01), rates[0] / 1e9, rates[1] / scale])
            assert f"peak π ({unit})" in [control.description for control in controls.values()]
        with pytest.raises(ValueError, match="expected a positive number where the slider 'x' starts; found 0"):
            explorer.slider("x", 0, 1, 2)

    @pytest.mark.parametrize(("make", "number"), [(widgets.regimes, 5), (widgets.roofline, 5)])
    @pytest.mark.parametrize("ceilings", [CPU, GPU], ids=["cpu", "gpu"])
    def test_every_control_moves_the_figure_at_both_ends(self, drag, make, number, ceilings):
        controls, caption, image = drag(make, ceilings)
        assert len(controls) == number
        seen = set()
        for control in controls.values():
            start = control.value
            for end in ends(control):
                before = bytes(image.value)
                moved = control.value != end
                control.value = end
                assert not moved or bytes(image.value) != before, (control.description, end)
                assert "-bound" in caption.value or "no rate in" in caption.value
                seen.update(regime for regime in REGIMES if f"{regime}-bound" in caption.value)
            control.value = start
        assert len(seen) >= 2

    def test_all_sliders_at_their_ends_together(self, drag):
        controls, caption, image = drag(widgets.regimes, CPU)
        for which in (0, 1):
            for control in controls.values():
                control.value = ends(control)[which]
            assert "-bound" in caption.value
            assert bytes(image.value).startswith(b"\x89PNG")

    def test_the_caption_is_read_out_and_escaped(self, drag):
        _, caption, _ = drag(widgets.roofline, Ceilings(1e10, {"fp32": 1e12}, label="<b>chip</b>"))
        assert 'role="status"' in caption.value
        assert "<b>" not in caption.value

    def test_the_readers_device_comes_first(self, drag):
        controls, _, _ = drag(widgets.roofline, CPU)
        assert controls["chip"].value == "this device: AMD EPYC (measured)"
        assert controls["chip"].options[0][1] == controls["chip"].value
        controls, _, _ = drag(widgets.roofline)
        assert "H100" in controls["chip"].value


class TestEveryChip:
    """The drawing itself, for all chips and formats: with a picture for each it would take minutes."""

    @pytest.fixture
    def draw(self, monkeypatch):
        kept = {}
        monkeypatch.setattr(widgets, "explore", lambda draw, controls, panels, title: kept.update(draw=draw))
        widgets.roofline(GPU)
        return kept["draw"]

    @pytest.mark.parametrize("chip", chips(), ids=lambda chip: chip.id)
    def test_formats(self, draw, chip):
        for fmt in FORMATS:
            ax = Figure().subplots()
            caption = draw(ax, where=f"{chip.name} (datasheet)", dtype=fmt, operation=next(iter(widgets.OPERATIONS)),
                           batch=64, n=4096) if chip.flops_per_s else "no rate in"  # fmt: skip
            if fmt in chip.flops_per_s:
                assert caption.split("-bound")[0] in REGIMES
            else:
                assert "no rate in" in caption

    @pytest.mark.parametrize("operation", widgets.OPERATIONS)
    @pytest.mark.parametrize("batch", [1, 1e5])
    @pytest.mark.parametrize("n", [10, 1e5])
    def test_the_point_lies_within_the_axes(self, draw, operation, batch, n):
        for where in ("this device: NVIDIA H200 (measured)", "NVIDIA T4 (datasheet)"):
            ax = Figure().subplots()
            formats = [fmt for fmt in ("bf16", "int4") if "no rate" not in draw(ax, where, fmt, operation, batch, n)]
            for fmt in formats:
                ax = Figure().subplots()
                draw(ax, where, fmt, operation, batch, n)
                (x, y) = (float(values[0]) for values in ax.lines[-1].get_data())
                (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
                assert left < x < right
                assert low < y < high

    def test_the_three_regimes_have_the_same_colours_in_both_explorers(self, draw, monkeypatch):
        """Overhead, bandwidth and compute are drawn in the order of REGIMES."""
        used = {}
        for batch, n in ((1, 64), (1, 16384), (16384, 16384)):
            ax = Figure().subplots()
            caption = draw(ax, "this device: NVIDIA H200 (measured)", "bf16", next(iter(widgets.OPERATIONS)), batch, n)
            used[caption.split("-bound")[0]] = ax.lines[-1].get_color()
        assert used == {regime: style.series_style(i)["color"] for i, regime in enumerate(REGIMES)}
        kept = {}
        monkeypatch.setattr(widgets, "explore", lambda draw, controls, panels, title: kept.update(draw=draw))
        widgets.regimes(SLOW_MEMORY)
        ax = Figure().subplots()
        kept["draw"](ax, step="product", overhead_us=1.0, gb_per_s=20.0, flops_per_s=10.0, n=64)
        legend = {text.get_text(): line.get_color() for text, line in zip(ax.get_legend().get_texts(),
                  ax.get_legend().get_lines(), strict=True)}  # fmt: skip
        assert {name: legend[name] for name in REGIMES} == used
