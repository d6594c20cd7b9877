# mypy: disallow-untyped-defs=False, disable-error-code="assignment"
"""Backward of RMS norm and layer norm over short rows: a warp has a row, and no warp waits for another.

The mathematics is that of :mod:`rooflab.kernels.rows.triton_norm`, whose programs share each row among their warps and
meet twice a row. Here the two sums over a row need no more than the warp that has it.

* One program of a multiprocessor has all of its warps, so that there is one partial sum for each column of a
  multiprocessor, and not one for every few rows that are in work: what is written and added up at the end is a quarter.
* The row that a warp takes next is on its way to registers while one is computed with: eight warps have 32 KB of x and
  dy under way at all times, where memory needs 26.
* These registers are loaded as words of 32 bits. Numbers of 16 bits that are loaded for the next turn of a loop would
  be packed two to a register at the end of the turn, which waits for them.

In Gluon, because Triton shares a row among all warps first, and only then takes further rows.

>>> norm_backward_warps_kernel.__name__
'norm_backward_warps_kernel'
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.extra.cuda import gdc_launch_dependents

from .triton_ring_hopper import add_pairs

__all__ = ["norm_backward_warps_kernel"]


@gluon.constexpr_function
def _layout(each, warps):
    """Of [warps, ...]: a thread has `each` numbers beside those of the next thread, 16 bytes, again and again."""
    return gl.BlockedLayout([1, each], [1, 32], [warps, 1], [1, 0])


@gluon.jit
def _words(array, step, r, inside, places):
    """Words of the rows r, zero where there is none."""
    return gl.load(array + step.to(gl.int64) * r + places, mask=inside, other=0)


@gluon.jit
def _numbers(words, format: gl.constexpr, layout: gl.constexpr):
    """The two numbers of each word, in fp32. Nothing moves: registers only get other names."""
    if format == gl.bfloat16:  # the first half of fp32
        first = (words << 16).to(gl.float32, bitcast=True)
        second = (words & -65536).to(gl.float32, bitcast=True)
    else:
        first = words.to(gl.int16).to(format, bitcast=True).to(gl.float32)
        second = (words >> 16).to(gl.int16).to(format, bitcast=True).to(gl.float32)
    both = gl.join(first, second).reshape([words.shape[0], 2 * words.shape[1]])
    return gl.convert_layout(both, layout, assert_trivial=True)


@gluon.jit
def _keep(parts, sums, c, cols):
    gl.store(parts + gl.program_id(0).to(gl.int64) * cols + c, gl.sum(sums, 0), mask=c < cols)


@gluon.jit(do_not_specialize=["rows"])
def norm_backward_warps_kernel(
    dx, dw_parts, db_parts, dy, dh, x, w, mean, rstd, rows, cols, dy_step, dh_step, x_step,
    RESIDUAL: gl.constexpr, CENTRED: gl.constexpr, BIAS: gl.constexpr, CHAINED: gl.constexpr, COLS: gl.constexpr,
):  # fmt: skip
    """The gradient with regard to x, and each program's part of those with regard to w and b.

    dy, dh and x are words of two numbers, and so are the steps of their rows; dx is [rows, cols].
    16 divides `cols` and 8 the steps. Grid: (programs,).
    """
    if CHAINED:
        gdc_launch_dependents()
    WARPS: gl.constexpr = gl.num_warps()
    format: gl.constexpr = dx.dtype.element_ty
    layout: gl.constexpr = _layout(8, WARPS)
    paired: gl.constexpr = _layout(4, WARPS)
    c = gl.arange(0, COLS, layout=gl.SliceLayout(0, layout))
    weight = gl.load(w + c, mask=c < cols, other=0.0).to(gl.float32)[None, :]
    own = gl.arange(0, WARPS, layout=gl.SliceLayout(1, layout))[:, None]
    places = gl.arange(0, COLS // 2, layout=gl.SliceLayout(0, paired))[None, :]
    along = gl.arange(0, WARPS, layout=gl.SliceLayout(1, paired))[:, None]
    known = places < cols // 2
    dw = gl.zeros([WARPS, COLS], gl.float32, layout)
    db = gl.zeros([WARPS, COLS], gl.float32, layout)
    step = gl.num_programs(0) * WARPS
    first = gl.program_id(0) * WARPS
    next_x = _words(x, x_step, first + along, known & (first + along < rows), places)
    next_g = _words(dy, dy_step, first + along, known & (first + along < rows), places)
    for start in range(first, rows, step):
        n = _numbers(next_x, format, layout)
        g = _numbers(next_g, format, layout)
        r = start + step + along
        next_x = _words(x, x_step, r, known & (r < rows), places)
        next_g = _words(dy, dy_step, r, known & (r < rows), places)
        r = start + own
        s = gl.load(rstd + r, mask=r < rows, other=0.0)
        if CENTRED:
            n -= gl.load(mean + r, mask=r < rows, other=0.0)
        n *= s
        dw += g * n
        if BIAS:
            db += g
        g *= weight  # 0 outside of the row
        if CENTRED:
            a, b = gl.reduce((n * g, g), 1, add_pairs)
            d = g * s - (n * (a[:, None] * s / cols) + b[:, None] * s / cols)
        else:
            d = g * s - n * (gl.sum(n * g, 1)[:, None] * s / cols)
        if RESIDUAL:
            r = start + along
            d += _numbers(_words(dh, dh_step, r, known & (r < rows), places), format, layout)
        r = start + own
        gl.store(dx + cols.to(gl.int64) * r + c[None, :], d.to(format), mask=(r < rows) & (c < cols)[None, :])
    _keep(dw_parts, dw, c, cols)
    if BIAS:
        _keep(db_parts, db, c, cols)
