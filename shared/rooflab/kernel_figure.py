"""Pictures of the benchmark of kernels: one for each group of them, as large as a page of a book holds.

>>> picture_of("softmax_backward"), picture_of("a_new_one")
('rows-backward', 'others')
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["PICTURES", "draw_pictures", "file_name", "picture_of", "share_text"]

# Of each picture: the title, and the kernels from top to bottom.
PICTURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "rows-forward": ("Softmax and norms, forward", ("softmax", "rms_norm", "layer_norm", "add_rms_norm")),
    "rows-backward": (
        "Softmax and norms, backward",
        ("softmax_backward", "rms_norm_backward", "layer_norm_backward"),
    ),
    "pointwise": ("Activations", ("gelu", "gelu_backward", "swiglu", "swiglu_backward")),
    "quantize": ("Rounding to 8 and 4 bits", ("rows_to_fp8", "tensor_to_fp8", "mxfp8", "mxfp4", "nvfp4")),
    "products": (
        "Matrix products",
        ("matmul", "scaled_matmul_tensor", "scaled_matmul_row", "scaled_matmul_block", "squared_relu",
         "squared_relu_gradient"),
    ),
    "attention": ("Attention", ("attention", "attention_training", "rotary_heads", "rotary_heads_backward")),
    "decode": (
        "Decoding, a few rows or one query",
        ("matvec_plain", "matvec_int8", "matvec_fp8", "matvec_int4", "attention_decode"),
    ),
    "jax": (
        "Kernels for JAX",
        ("pallas_softmax", "pallas_rms_norm", "pallas_matmul", "pallas_attention", "pallas_attention_training"),
    ),
    "loss": ("Last layer and loss", ("linear_cross_entropy", "cross_entropy", "cross_entropy_capped")),
}  # fmt: skip
_OTHERS = ("Others", ())
# In every picture a rival looks the same; 0 is the look of ours.
_RIVALS = ("eager", "compiled", "liger", "jax", "torchao", "torch", "flash", "flex", "cudnn", "cublas", "scaled_mm",
           "xla")  # fmt: skip
_CEILINGS = {
    "copy": "a copy", "add": "an addition", "traffic": "equal traffic", "product": "the product alone",
    "cudnn": "cuDNN", "cublas": "cuBLAS", "scaled_mm": "torch's _scaled_mm", "compiled": "torch.compile",
    "triton": "ours in Triton",
}  # fmt: skip
# What the numbers of a size are, by the first word of the kernel's name; other sizes say it themselves.
_LETTERS = {
    **dict.fromkeys(("softmax", "rms", "layer", "add", "gelu", "swiglu", "rows", "tensor", "mxfp8", "mxfp4", "nvfp4"),
                    "rows x columns"),
    **dict.fromkeys(("matmul", "scaled", "squared"), "M x N x K"),
    "matvec": "rows x N x K", "rotary": "B x T x 3 x H x D", "linear": "tokens x words x width",
    "cross": "tokens x words",
}  # fmt: skip
_NAMES = {"torch": "torch's own int4/int8 product"}  # in the legend, of what has no name of its own
_LANES = (0.0, -0.27, 0.27)  # rows; points of about the same speed lie on several, so that none covers another
_NEAR = 0.025  # of the axis; points of one lane lie farther apart, where that is possible
_FAR = 0.5  # from this share on nothing is lost where the axis does not begin at 0: the points tell more


def picture_of(kernel: str) -> str:
    """Return the name of the picture that shows a kernel; ``"others"`` for one that belongs to none."""
    return next((name for name, (_, kernels) in PICTURES.items() if kernel in kernels), "others")


def file_name(picture: str, wanted: Sequence[str] = (), size: str | None = None) -> str:
    """Return the name of a picture's file, which says what was asked for: all of it, or some kernels, or one size.

    >>> file_name("rows-forward"), file_name("rows-forward", ["gelu", "softmax"], "16384 x 1024")
    ('kernels-rows-forward.png', 'kernels-softmax-16384x1024.png')
    """
    _, kernels = PICTURES.get(picture, _OTHERS)
    own = [kernel for kernel in kernels if kernel in wanted]
    words = own if own and len(own) < len(kernels) else [picture]
    if size:
        words.append(re.sub(r"[^\w=]+", "-", re.sub(r"(?<=\d)\s*x\s*(?=\d)", "x", size.strip())))
    return f"kernels-{'-'.join(words)}.png"


def share_text(share: float, target: float) -> str:
    """Return a share as it is written: with two digits, or as many more as show that it misses its target.

    >>> share_text(0.8956, 0.9), share_text(0.9, 0.9)
    ('0.896', '0.90')
    """
    digits = next((digits for digits in range(2, 6) if share >= target or round(share, digits) < target), 6)
    return f"{share:.{digits}f}"


def draw_pictures(found: Mapping[str, Mapping[str, Any]], where: str = "") -> dict[str, bytes]:
    """Return pictures (PNG) by name: a line for each case, a point for each candidate at its share of the ceiling.

    Args:
        found: of each case ("softmax 8 x 8"): ``ceiling``, ``target`` and ``seconds`` by candidate.
        where: device and day, such as "H200, 2026-11-30"; stands below the axis.
    """
    grouped: dict[str, list[str]] = {}
    for case in found:
        grouped.setdefault(picture_of(case.partition(" ")[0]), []).append(case)
    return {
        name: _draw(*PICTURES.get(name, _OTHERS), {case: found[case] for case in grouped[name]}, where)
        for name in (*PICTURES, "others") if name in grouped
    }  # fmt: skip


def _draw(title: str, order: Sequence[str], found: Mapping[str, Mapping[str, Any]], where: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from .plots.style import BOUND, house_style, png

    lines = _lines(order, found)
    with matplotlib.rc_context(house_style):
        high = 0.33 if any(len(one["seconds"]) > 2 for one in found.values()) else 0.26  # inches; rivals need room
        fig = Figure(figsize=(7.2, 1.5 + high * len(lines)), layout="constrained")
        ax = fig.subplots()
        ax.axvline(1.0, linestyle="--", label="ceiling", **dict[str, Any](BOUND))
        left, right = _limits(found)
        _points(ax, lines, found, right - left)
        ax.set_yticks(range(len(lines)), [text if case else "" for text, case in lines])
        for place, (text, case) in enumerate(lines):
            if not case:
                _heading(ax, place, text)
        ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        axis = "share of the ceiling's speed" + (f", from {left:.2f} on" if left else "")
        ax.set(ylim=(len(lines) - 0.4, -0.6), xlim=(left, right), xlabel=axis + (f" ({where})" if where else ""))
        marks = len(ax.get_legend_handles_labels()[0])
        fig.legend(loc="outside lower center", ncols=math.ceil(marks / math.ceil(marks / 5)))
        fig.suptitle(f"{title}: how near each comes to its ceiling", x=0.01, ha="left")
        return png(fig)


def _heading(ax: Any, place: int, text: str) -> None:
    """Write a kernel's name and, smaller, what belongs to it into an empty line, for the axis has no room for it."""
    name, _, rest = text.partition(", ") if ", " in text else text.partition(" ")
    look = {"va": "center", "zorder": 2, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5}}
    first = ax.text(0.008, place, name, transform=ax.get_yaxis_transform(), fontweight="bold", **look)
    ax.annotate(rest, (1, 0.5), (5, 0), xycoords=first,
                textcoords="offset points", fontsize=8.5, **look)  # fmt: skip


def _lines(order: Sequence[str], found: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """From top to bottom: text, and the case that is drawn there; none where the text is a heading."""
    by_kernel: dict[str, list[str]] = {}
    for case in found:
        by_kernel.setdefault(case.partition(" ")[0], []).append(case)
    lines: list[tuple[str, str]] = []
    for kernel in sorted(by_kernel, key=lambda name: order.index(name) if name in order else len(order)):
        cases = by_kernel[kernel]
        ceiling = found[cases[0]]["ceiling"]
        letters = _LETTERS.get(kernel.removeprefix("pallas_").partition("_")[0])
        named = f"{kernel}, {letters}" if letters else kernel
        lines.append((f"{named} (ceiling: {_CEILINGS.get(ceiling, ceiling)})", ""))
        lines += [(case.partition(" ")[2], case) for case in cases]
    return lines


def _limits(found: Mapping[str, Mapping[str, Any]]) -> tuple[float, float]:
    """Both ends of the axis: every point and target on it, and the ceiling; 0, if some of them are nearer to it."""
    from .kernels.benchmark import share

    shown = [value for one in found.values() for value in (*share(one["seconds"], one["ceiling"]).values(),
                                                           one["target"])]  # fmt: skip
    left = math.floor(20 * (min(shown) - 0.02)) / 20 if min(shown) >= _FAR else 0.0
    right = max(1.02, *shown)
    return left, right + 0.03 * (right - left)  # a point at the edge is whole


def _points(ax: Any, lines: Sequence[tuple[str, str]], found: Mapping[str, Mapping[str, Any]], span: float) -> None:
    """Draw the candidates, the targets and our shares as numbers, with a heading over these."""
    from .kernels.benchmark import OURS, share
    from .plots.style import series_style

    shares = {case: share(found[case]["seconds"], found[case]["ceiling"]) for _, case in lines if case}
    present = {name for each in shares.values() for name in each} - {OURS}
    rivals = [name for name in _RIVALS if name in present] + sorted(present - set(_RIVALS))
    at: dict[str, list[tuple[float, float]]] = {name: [] for name in (OURS, *rivals)}
    targets: list[tuple[float, int]] = []
    ours = {"fontsize": 8.5, "color": series_style(0)["color"]}
    ax.annotate(OURS, (1.01, 1.0), xycoords="axes fraction", va="bottom", **ours)  # above all lines
    beside = {"xycoords": ("axes fraction", "data"), "va": "center", **ours}
    for place, (_, case) in enumerate(lines):
        if not case:
            continue
        ax.axhline(place, color="#e4e4e4", linewidth=0.7, zorder=0.5)
        targets.append((found[case]["target"], place))
        points = {name: shares[case][name] for name in at if name in shares[case]}
        for name, lane in _apart(points, _NEAR * span).items():
            at[name].append((points[name], place + lane))
        ax.annotate(share_text(shares[case][OURS], found[case]["target"]), (1.01, place), **beside)
    bare: dict[str, Any] = {"linestyle": "none"}
    ax.plot(*zip(*targets, strict=True), label="target", marker="|", color="#333333", markersize=11, **bare)
    ax.plot(*zip(*at[OURS], strict=True), label=OURS, **series_style(0) | bare | {"markersize": 6.2, "zorder": 4})
    for name in rivals:
        look = series_style(1 + _RIVALS.index(name) if name in _RIVALS else len(_RIVALS) + 1)
        look |= bare | {"markersize": 4.5, "zorder": 4.5}  # on ours, which is larger: none is hidden
        ax.plot(*zip(*at[name], strict=True), label=_NAMES.get(name, name), **look)


def _apart(points: Mapping[str, float], near: float) -> dict[str, float]:
    """The lane of each point of a line: the first one where no other is near, else where they are farthest away.

    >>> _apart({"rooflab": 0.99, "eager": 0.5, "liger": 0.98, "compiled": 0.99}, 0.02)
    {'rooflab': 0.0, 'eager': 0.0, 'liger': -0.27, 'compiled': 0.27}
    """
    lanes: dict[str, float] = {}
    for name, value in points.items():
        room = {
            lane: min((abs(value - points[other]) for other, its in lanes.items() if its == lane), default=math.inf)
            for lane in _LANES
        }
        free = [lane for lane in _LANES if room[lane] >= near]
        lanes[name] = free[0] if free else max(room, key=room.__getitem__)
    return lanes
