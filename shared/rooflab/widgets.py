"""What changes when we drag?

Two explorers: the three regimes of a step, and the roofline of any chip. Where nobody is there to drag, each shows
panels of chosen settings instead, so that a printed page tells the same story.

>>> from rooflab.roofline import Ceilings
>>> regimes(Ceilings(1e11, {"fp32": 1e12}, launch_s=1e-6))  # doctest: +ELLIPSIS
Three steps on one device, three regimes. a small product: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import costs
from .display import escape, is_headless
from .knees import matmul_leaves_overhead
from .roofline import REGIMES, Ceilings, attainable, bound
from .specs import chips
from .units import format_si

__all__ = ["explore", "regimes", "roofline"]

# Draws one state on an axes and returns the sentence that says what it shows.
Draw = Callable[..., str]


def explore(draw: Draw, controls: Mapping[str, Any], panels: Mapping[str, Mapping[str, Any]], *, title: str) -> None:
    """Show a figure that follows its controls, or panels of it where nobody can drag.

    Args:
        draw: ``draw(ax, **values)`` draws one state and returns its caption.
        controls: argument of ``draw`` to a function that makes its widget.
        panels: caption to values of the static form, two or three of them.
        title: the message of the static form.
    """
    if is_headless():
        _static(draw, panels, title=title)
    else:
        _live(draw, controls)


def _static(draw: Draw, panels: Mapping[str, Mapping[str, Any]], *, title: str) -> None:
    from . import plots

    with plots.figure(title, columns=len(panels), size=(3.1 * len(panels) + 0.4, 3.5)) as axes:
        said = []
        for ax, (name, values) in zip(axes, panels.items(), strict=True):
            said.append(f"{name}: {draw(ax, **values)}")
            ax.set_title(name, fontsize=10)
        for ax in axes[1:]:
            ax.set_ylabel("")
        axes[0].figure.alt = " ".join([f"{title.rstrip('.')}.", *said])


def _live(draw: Draw, controls: Mapping[str, Any]) -> None:
    import ipywidgets
    import matplotlib
    from IPython.display import display
    from matplotlib.figure import Figure

    from .plots import house_style
    from .plots.style import png

    made = {name: make() for name, make in controls.items()}
    image = ipywidgets.Image(format="png", layout={"max_width": "100%", "width": "660px"})
    caption = ipywidgets.HTML()

    def redraw(_: Any = None) -> None:
        with matplotlib.rc_context(house_style):
            fig = Figure(figsize=(6.9, 3.9), layout="constrained")
            text = draw(fig.subplots(), **{name: widget.value for name, widget in made.items()})
            image.value = png(fig, pixels_per_inch=144)
        caption.value = f'<p style="margin:0" role="status">{escape(text)}</p>'

    for widget in made.values():
        widget.observe(redraw, names="value")
    redraw()
    box = ipywidgets.VBox([*made.values(), caption, image])
    box.add_class("rooflab-explorer")
    display(box)


def _slider(label: str, value: float, low: float, high: float, *, base: int = 10) -> Callable[[], Any]:
    """A slider over powers of ``base``, from base^low to base^high."""

    def make() -> Any:
        import ipywidgets

        return ipywidgets.FloatLogSlider(
            value=value, base=base, min=low, max=high, step=0.05 if base == 10 else 0.25, description=label,
            readout_format=".3g" if base == 10 else ",.0f", style={"description_width": "13em"},
            layout={"width": "560px"},
        )  # fmt: skip

    return make


def _choice(label: str, options: Sequence[tuple[str, str]], value: str) -> Callable[[], Any]:
    def make() -> Any:
        import ipywidgets

        return ipywidgets.Dropdown(options=options, value=value, description=label,
                                   style={"description_width": "13em"}, layout={"width": "560px"})  # fmt: skip

    return make


# What the explorer of regimes runs on n x n matrices.
STEPS: Mapping[str, Callable[[int, str], costs.Work]] = {
    "product": lambda n, fmt: costs.matmul(n, n, n, fmt),
    "matrix-vector product": lambda n, fmt: costs.matvec(n, n, fmt),
    "addition in place": lambda n, fmt: costs.elementwise(n * n, dtype=fmt),
}


def regimes(ceilings: Ceilings, dtype: str = "fp32") -> None:
    """Explore t = max(t0, bytes / beta, flops / pi) for a step on n x n matrices: three terms and the winner.

    Args:
        ceilings: where the sliders start; usually the device's own.
        dtype: format of the matrices.
    """
    start = {"overhead_us": max(ceilings.launch_s * 1e6, 0.01), "gb_per_s": ceilings.bytes_per_s / 1e9,
             "tflops_per_s": ceilings.rate(dtype) / 1e12}  # fmt: skip

    def draw(ax: Any, step: str, overhead_us: float, gb_per_s: float, tflops_per_s: float, n: float) -> str:
        device = Ceilings(gb_per_s * 1e9, {dtype: tflops_per_s * 1e12}, launch_s=overhead_us * 1e-6)
        return _draw_regimes(ax, step, device, dtype, int(n))

    panels = {
        "a small product": start | {"step": "product", "n": _knee(ceilings, dtype) / 8},
        "a large addition": start | {"step": "addition in place", "n": 16384},
        "a large product": start | {"step": "product", "n": 16384},
    }
    controls = {
        "step": _choice("step", [(name, name) for name in STEPS], "product"),
        "overhead_us": _slider("overhead t₀ (µs)", start["overhead_us"], -2, 3),
        "gb_per_s": _slider("bandwidth β (GB/s)", start["gb_per_s"], 0, 4.5),
        "tflops_per_s": _slider("peak π (TFLOP/s)", start["tflops_per_s"], -2, 4),
        "n": _slider("side n", 512, 2, 15, base=2),
    }
    explore(draw, controls, panels, title="Three steps on one device, three regimes")


def _draw_regimes(ax: Any, step: str, device: Ceilings, dtype: str, n: int) -> str:
    """The three terms over the side, the winner thick, and the step at side n; returns what it says."""
    from .plots.style import series_style, set_axis

    sides, work = np.geomspace(4, 32768, 60).astype(int).tolist(), STEPS[step]
    bounds = [bound(work(side, dtype), device) for side in sides]
    for i, regime in enumerate(REGIMES):
        style = series_style(i) | {"marker": ""}
        ax.plot(sides, [getattr(b, f"{regime}_s") for b in bounds], linestyle="--", linewidth=1.2, **style)
        where = [b.time_s if b.regime == regime else np.nan for b in bounds]
        ax.plot(sides, where, label=regime, linewidth=3.2, **style)
    here = bound(work(n, dtype), device)
    ax.plot([n], [here.time_s], marker="o", markersize=9, color="black", zorder=5)
    set_axis(ax.xaxis, label="side n", unit="", log=True)
    set_axis(ax.yaxis, label="time of the step", unit="s", log=True)
    ax.set_ylim(min(1e-7, here.time_s / 3), max(here.time_s, *(b.time_s for b in bounds)) * 3)
    ax.legend(loc="upper left")
    return (f"{step}, n = {n:,}: {here.regime}-bound, {format_si(here.time_s, 's')}; "
            f"{format_si(here.flops_per_s / device.rate(dtype), '%')} of the peak.")  # fmt: skip


def _knee(ceilings: Ceilings, dtype: str) -> int:
    """The side at which a product leaves the overhead regime; at least 32, where launches are free."""
    return max(32, int(matmul_leaves_overhead(ceilings, dtype)))


OPERATIONS: Mapping[str, Callable[[int, int, str], costs.Work]] = {
    "matrix product, batch × n × n": lambda batch, n, fmt: costs.matmul(batch, n, n, fmt),
    "softmax of batch rows of n": lambda batch, n, fmt: costs.softmax(batch, n, fmt),
    "layer norm of batch rows of n": lambda batch, n, fmt: costs.layer_norm(batch, n, fmt),
    "attention over n tokens, head 64": lambda batch, n, fmt: costs.attention(batch, 16, n, n, 64, fmt),
}


def roofline(ceilings: Ceilings | None = None, *, chip: str = "h100-sxm") -> None:
    """Explore the roofline: pick a chip, a format and sizes, and see the point move and the regime flip.

    Args:
        ceilings: the reader's own measured ceilings, offered as the chip "this device".
        chip: where the explorer starts when there are none.
    """
    roofs = {f"{row.name} (datasheet)": Ceilings.of_chip(row) for row in chips() if row.flops_per_s}
    if ceilings is not None:
        roofs = {f"this device: {ceilings.label} (measured)": ceilings} | roofs
    names = list(roofs)
    first = names[0] if ceilings is not None else next(n for n in names if roofs[n] == _of(chip))

    def draw(ax: Any, where: str, dtype: str, operation: str, batch: float, n: float) -> str:
        roof = roofs[where]
        if dtype not in roof.flops_per_s:
            known = ", ".join(roof.flops_per_s)
            ax.set_axis_off()
            ax.text(0.5, 0.5, f"no rate in {dtype} here\n(but in {known})", transform=ax.transAxes, ha="center")
            return f"{where} has no rate in {dtype}; pick one of {known}."
        return _draw_point(ax, roof, OPERATIONS[operation](int(batch), int(n), dtype))

    formats = list(dict.fromkeys(fmt for roof in roofs.values() for fmt in roof.flops_per_s))
    start_format = next(fmt for fmt in ("bf16", "fp32", *formats) if fmt in roofs[first].flops_per_s)
    product = next(iter(OPERATIONS))
    base = {"where": first, "dtype": start_format, "operation": product, "n": 4096}
    panels = {f"batch {b}": base | {"batch": b} for b in (1, 64, 4096)}
    controls = {
        "where": _choice("chip", [(name, name) for name in names], first),
        "dtype": _choice("format", [(fmt, fmt) for fmt in formats], start_format),
        "operation": _choice("operation", [(name, name) for name in OPERATIONS], product),
        "batch": _slider("batch", 1, 0, 16, base=2),
        "n": _slider("n", 4096, 4, 16, base=2),
    }
    explore(draw, controls, panels, title="The batch moves a matrix product along the roof")


def _draw_point(ax: Any, roof: Ceilings, work: costs.Work) -> str:
    """The roof, and one operation under it; returns what it says."""
    from .plots.style import series_style, set_axis

    grid = np.geomspace(min(0.05, work.intensity / 3), max(2e4, work.intensity * 3), 300)
    dotted: dict[str, Any] = {"linestyle": ":", "color": "#b5b5b5", "linewidth": 1, "zorder": 1}
    for fmt in roof.flops_per_s:
        look = {"linestyle": "-", "color": "#333333", "linewidth": 2, "zorder": 2} if fmt == work.dtype else dotted
        ax.plot(grid, attainable(grid, roof, fmt), **look)
    here, ridge = bound(work, roof), roof.ridge(work.dtype)
    ax.axvline(ridge, color="#777777", linewidth=0.9, linestyle=(0, (1, 2)))
    ax.annotate(f"ridge {format_si(ridge)}", (ridge, 0.03), xycoords=("data", "axes fraction"), fontsize=9,
                xytext=(4, 0), textcoords="offset points", color="#555555")  # fmt: skip
    colour = series_style(REGIMES.index(here.regime))["color"]
    ax.plot([work.intensity], [here.flops_per_s], marker="o", markersize=11, color=colour, zorder=5)
    side = -1 if work.intensity > grid[len(grid) // 2] else 1
    ax.annotate(here.regime, (work.intensity, here.flops_per_s), xytext=(9 * side, -11), color=colour, fontsize=9,
                textcoords="offset points", ha="left" if side > 0 else "right", fontweight="bold")  # fmt: skip
    set_axis(ax.xaxis, label="intensity (FLOP/byte)", unit="", log=True)
    set_axis(ax.yaxis, label="rate", unit="FLOP/s", log=True)
    ax.set_xlim(grid[0], grid[-1])
    ax.set_ylim(min(roof.bytes_per_s * 0.05, here.flops_per_s / 3), max(roof.flops_per_s.values()) * 3)
    return (f"{here.regime}-bound: intensity {format_si(work.intensity)} against a ridge of {format_si(ridge)} "
            f"FLOP/byte; at best {format_si(here.flops_per_s, 'FLOP/s')}, "
            f"{format_si(here.flops_per_s / roof.rate(work.dtype), '%')} of the peak.")  # fmt: skip


def _of(chip_id: str) -> Ceilings:
    from .specs import chip

    return Ceilings.of_chip(chip(chip_id))
