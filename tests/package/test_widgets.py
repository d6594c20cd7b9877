"""The explorers: panels where nobody can drag, and a form whose every control moves the figure."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rooflab import widgets
from rooflab.plots import style
from rooflab.roofline import REGIMES, Ceilings
from rooflab.specs import chips
from rooflab.units import FORMATS

CPU = Ceilings(2e10, {"fp32": 1.5e11, "bf16": 7e11}, launch_s=2e-6, label="AMD EPYC", measured=True)
GPU = Ceilings(4.28e12, {"fp32": 5.1e13, "bf16": 7e14}, launch_s=1e-5, label="NVIDIA H200", measured=True)
SLOW_MEMORY = Ceilings(2e10, {"fp32": 1e13}, launch_s=1e-6, label="no chip")  # has a bandwidth-bound stretch


@pytest.fixture
def shown(monkeypatch):
    figures = []
    monkeypatch.setattr(style, "show", lambda fig, alt: figures.append((fig, alt)))
    return figures


@pytest.fixture
def drag(monkeypatch):
    """A reader sits before a notebook: the form that a widget displays, as (controls by name, caption, image)."""
    import IPython.display

    from rooflab import plots

    monkeypatch.setattr(widgets, "is_headless", lambda: False)
    displayed = []
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


def ends(control) -> list:
    if hasattr(control, "base"):
        return [control.base**control.min, control.base**control.max]
    return [value for _, value in control.options][:: len(control.options) - 1]


class TestForms:
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
        kept["draw"](ax, step="product", overhead_us=1.0, gb_per_s=20.0, tflops_per_s=10.0, n=64)
        legend = {text.get_text(): line.get_color() for text, line in zip(ax.get_legend().get_texts(),
                  ax.get_legend().get_lines(), strict=True)}  # fmt: skip
        assert legend == used
