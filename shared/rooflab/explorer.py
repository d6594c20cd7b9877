"""How does a figure follow its controls, and what stands in its place where nobody can drag?

>>> def draw(ax, n):
...     ax.plot([1, n], [1, n])
...     return f"up to {n}"
>>> explore(draw, {}, {"short": {"n": 2}, "long": {"n": 9}}, title="Two lines")
Two lines. short: up to 2 long: up to 9
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .display import escape, is_headless

__all__ = ["SHARED", "choice", "explore", "slider"]

# Draws one state on an axes and returns the sentence that says what it shows.
Draw = Callable[..., str]
# What bears this mark and reads the same in all panels is drawn in the last one only.
SHARED = "the same in all panels"


def explore(draw: Draw, controls: Mapping[str, Any], panels: Mapping[str, Mapping[str, Any]], *, title: str) -> None:
    """Show a figure that follows its controls, or panels of it where nobody can drag.

    Args:
        draw: ``draw(ax, **values)`` draws one state and returns its caption.
        controls: argument of ``draw`` to a function that makes its widget.
        panels: caption to values of the static form, two or three of them.
        title: the message of the static form.
    """
    if not panels:
        raise ValueError("expected panels to show where nobody can drag, two or three of them; found none")
    if is_headless():
        _static(draw, panels, title=title)
    else:
        _live(draw, controls)


def _static(draw: Draw, panels: Mapping[str, Mapping[str, Any]], *, title: str) -> None:
    from . import plots

    with plots.figure(title, columns=len(panels), size=(3.1 * len(panels) + 0.4, 3.5)) as axes:
        axes = [axes] if len(panels) == 1 else axes
        said = []
        for ax, (name, values) in zip(axes, panels.items(), strict=True):
            said.append(f"{name}: {draw(ax, **values)}")
            ax.set_title(name, fontsize=10)
        for ax in axes[1:]:
            ax.set_ylabel("")
        _share_labels(axes)
        _share_legend(axes)
        axes[0].figure.alt = " ".join([f"{title.rstrip('.')}.", *said])


def _share_labels(axes: Sequence[Any]) -> None:
    """Where all panels bear the same labels beside the axes: one height for all, the labels in the last one only."""
    marked = [[text for text in ax.texts if text.get_gid() == SHARED] for ax in axes]
    if not marked[0] or len({tuple(text.get_text() for text in texts) for texts in marked}) > 1:
        return
    low, high = (choose(end) for choose, end in zip((min, max), zip(*(ax.get_ylim() for ax in axes), strict=True),
                                                    strict=True))  # fmt: skip
    for ax in axes:
        ax.set_ylim(low, high)
    for texts in marked[:-1]:
        for text in texts:
            text.remove()


def _share_legend(axes: Sequence[Any]) -> None:
    """One legend below for all panels, where theirs are the same."""
    legends = [ax.get_legend() for ax in axes]
    if None in legends or len({tuple(text.get_text() for text in each.get_texts()) for each in legends}) > 1:
        return
    handles, labels = axes[0].get_legend_handles_labels()
    for each in legends:
        each.remove()
    axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _live(draw: Draw, controls: Mapping[str, Any]) -> None:
    import ipywidgets
    import matplotlib
    from IPython.display import display
    from matplotlib.figure import Figure

    from .plots import house_style
    from .plots.style import png

    made = {name: make() for name, make in controls.items()}
    image = ipywidgets.Image(format="png", layout={"max_width": "100%", "width": "660px"})
    caption = ipywidgets.HTML(layout={"width": "100%"})

    def redraw(_: Any = None) -> None:
        with matplotlib.rc_context(house_style):
            fig = Figure(figsize=(6.9, 3.9), layout="constrained")
            text = draw(fig.subplots(), **{name: widget.value for name, widget in made.items()})
            image.value = png(fig, pixels_per_inch=144)
        caption.value = f'<p style="margin:0" role="status">{escape(text)}</p>'

    for widget in made.values():
        widget.observe(redraw, names="value")
    redraw()
    # A row that wraps: on a narrow page the controls stand below each other, and nothing has to be scrolled sideways.
    box = ipywidgets.Box([*made.values(), caption, image], layout={"display": "flex", "flex_flow": "row wrap",
                         "width": "100%", "max_width": "100%", "overflow": "hidden"})  # fmt: skip
    box.add_class("rooflab-explorer")
    display(box)


# Two beside each other where the page is wide enough, never wider than the page (2 px of margin at each side).
_WRAPPING = {"flex": "1 1 24em", "width": "auto", "min_width": "0", "max_width": "calc(100% - 4px)"}
_NAMED = {"description_width": "10em"}


def slider(label: str, value: float, low: float, high: float, *, base: int = 10) -> Callable[[], Any]:
    """A slider over powers of ``base``, from base^low to base^high, or farther where the value lies outside.

    Raises:
        ValueError: the value is not positive and finite.
    """
    if not 0 < value < math.inf:
        raise ValueError(f"expected a positive number where the slider {label!r} starts; found {value!r}")
    # The page snaps to steps from the lower end on: the ends are moved so that the value itself is on a step.
    step, at = (0.05 if base == 10 else 0.25), math.log(value, base)
    low, high = at - step * max(0, math.ceil((at - low) / step)), at + step * max(0, math.ceil((high - at) / step))

    def make() -> Any:
        import ipywidgets

        return ipywidgets.FloatLogSlider(
            value=value, base=base, min=low, max=high, step=step, description=label,
            readout_format=",.3r" if base == 10 else ",.0f", style=_NAMED, layout=_WRAPPING,
        )  # fmt: skip

    return make


def choice(label: str, options: Sequence[tuple[str, str]], value: str) -> Callable[[], Any]:
    """A list to choose from."""

    def make() -> Any:
        import ipywidgets

        return ipywidgets.Dropdown(options=options, value=value, description=label, style=_NAMED, layout=_WRAPPING)

    return make
