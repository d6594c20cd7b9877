# mypy: disallow-untyped-defs=False, disable-error-code="assignment,misc"
"""Few rows times weights in 4 bits for Hopper: from memory to the matrix units without shared memory between.

The mathematics is that of :mod:`.triton_matvec`. There, what limits weights in 4 bits are whole numbers: the units for
logical instructions take 64 lanes in a clock, half of what is issued, so that at 8.6e12 codes a second there is time
for two of them a code:

>>> round(132 * 64 * 1.98e9 / 8.6e12, 1)
1.9

* A word of eight codes, shifted by 0, 4, 8 and 12 bits, has in its halves the codes k and k + 4. Three shifts and four
  logical instructions make eight numbers: no bytes are permuted. x is, and it serves all rows of a block.
* Sums do not care for the order of k. A thread loads 16 bytes in one go, which are 32 successive codes of a row, and
  these are what it has to have for its part of eight products: whatever the matrix units call their columns, x follows.
* All sums of a group have accumulators of their own, which get the group's scale; so one row of x and eight cost the
  same.
* Warps share K, and never wait for each other before the end, where they add up. Some may have other rows instead:
  these ask for the same x at about the same time, which counts with eight rows of x.
* The next `BUFFERS` - 1 blocks are on their way to registers while one is multiplied. There is one copy of the loop for
  each buffer, so that nothing has to be moved between registers.

In Gluon, because Triton's own choice is to have each block of weights in shared memory.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

__all__ = ["matvec_hopper_kernel"]


def _asm(kind: str, magic: str, less: str) -> str:
    """PTX: eight codes in one register to numbers less 8, k and k + 4 in each of four registers."""
    return f"""{{
        .reg .b32 p, q, r, b;
        mov.b32 b, 0x{less * 2};
        shr.u32 p, $4, 4;
        shr.u32 q, $4, 8;
        shr.u32 r, $4, 12;
        lop3.b32 $0, $4, 0x000F000F, 0x{magic * 2}, 0xEA;
        lop3.b32 $1, q, 0x000F000F, 0x{magic * 2}, 0xEA;
        lop3.b32 $2, p, 0x000F000F, 0x{magic * 2}, 0xEA;
        lop3.b32 $3, r, 0x000F000F, 0x{magic * 2}, 0xEA;
        add.rn.{kind}x2 $0, $0, b;
        add.rn.{kind}x2 $1, $1, b;
        add.rn.{kind}x2 $2, $2, b;
        add.rn.{kind}x2 $3, $3, b;
        }}"""


# As in `triton_matvec`: 0x4300 is 128 in bf16 with a last place of one, 0x6400 is 1024 in fp16.
_BF16 = gl.constexpr(_asm("bf16", "4300", "C308"))
_FP16 = gl.constexpr(_asm("f16", "6400", "E408"))
_REGISTERS = gl.constexpr("=&r,=&r,=&r,=&r,r,r,r,r")


@gluon.constexpr_function
def _bits(first, number, axis, rank):
    """Places of a layout's bits: powers of two from `first` along an axis, for so many elements."""
    powers = [first << i for i in range(number.bit_length() - 1)]
    return [[power if each == axis else 0 for each in range(rank)] for power in powers]


@gluon.constexpr_function
def _rows(R, ABREAST, axis, rank):
    """Rows of a thread: it has two of the 16 that a warp multiplies at a time, and those of other warps lie between."""
    return _bits(8, 2, axis, rank) + _bits(16 * ABREAST, R // (16 * ABREAST), axis, rank)


@gluon.constexpr_function
def _words_layout(R, D, GROUP, WARPS, ABREAST, SPREAD):
    """Of [groups, R, words of a group, 4]: the four are one word, seen as four bytes.

    Eight threads have a row each, and four share the words of a row: each has successive ones of each group, or, if
    SPREAD, all four words of a group of 32, so that it loads 16 bytes in one go then, too.
    """
    own = 4 if SPREAD else GROUP // 32
    apart = 128 // GROUP if SPREAD else 1  # groups among four threads
    registers = _bits(1, 4, 3, 4) + _bits(1, own, 2, 4) + _rows(R, ABREAST, 1, 4)
    registers += _bits(WARPS * apart, D // apart, 0, 4)
    threads = _bits(own, 4 // apart, 2, 4) + _bits(WARPS, apart, 0, 4) + _bits(1, 8, 1, 4)
    warps = _bits(16, ABREAST, 1, 4) + _bits(1, WARPS, 0, 4)
    return gl.DistributedLinearLayout(registers, threads, warps, [], [WARPS * D, R, GROUP // 8, 4])


@gluon.constexpr_function
def _x_layout(D, GROUP, WARPS, ABREAST):
    """Of [groups, k, 8 rows]: a thread has the x that meet its words."""
    registers = _bits(1, GROUP // 4, 1, 3) + _bits(WARPS, D, 0, 3)
    threads = _bits(GROUP // 4, 4, 1, 3) + _bits(1, 8, 2, 3)
    warps = [[0, 0, 0]] * (ABREAST.bit_length() - 1) + _bits(1, WARPS, 0, 3)
    return gl.DistributedLinearLayout(registers, threads, warps, [], [WARPS * D, GROUP, 8])


@gluon.constexpr_function
def _scales_layout(R, D, WARPS, ABREAST):
    """Of [warps, D, R], for products [groups, R, 8]: D scales of a row are loaded in one go, by all four threads."""
    registers = _bits(1, D, 1, 3) + _rows(R, ABREAST, 2, 3)
    threads = [[0, 0, 0], [0, 0, 0], *_bits(1, 8, 2, 3)]
    warps = _bits(16, ABREAST, 2, 3) + _bits(1, WARPS, 0, 3)
    return gl.DistributedLinearLayout(registers, threads, warps, [], [WARPS, D, R])


@gluon.jit
def _places(layout: gl.constexpr, SHAPE: gl.constexpr):
    """Places along three axes."""
    g = gl.arange(0, SHAPE[0], layout=gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None, None]
    a = gl.arange(0, SHAPE[1], layout=gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :, None]
    b = gl.arange(0, SHAPE[2], layout=gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, None, :]
    return g, a, b


@gluon.jit
def _words(at_w, step, end, SHAPE: gl.constexpr):
    """Load the words of a step's groups; they are read once, and should not drive x out of the cache."""
    at, g = at_w
    inside = g + step * SHAPE[0] < end
    return gl.load(at + step * (SHAPE[0] * SHAPE[2]), mask=inside, other=0, eviction_policy="evict_first")


@gluon.jit
def _numbers(words, x, mma: gl.constexpr, layout: gl.constexpr, SHAPE: gl.constexpr):
    """Operands of two products from words [groups, R, words] and x [groups, k, 8]: the even k, and the odd ones."""
    GROUPS: gl.constexpr = SHAPE[0]
    R: gl.constexpr = SHAPE[1]
    OWN: gl.constexpr = SHAPE[2] // 4  # words of a thread
    words = gl.convert_layout(words, gl.SliceLayout(3, layout))
    four, _ = gl.broadcast(words[:, :, :, None], gl.zeros([GROUPS, R, 4 * OWN, 4], gl.int32, layout))
    if x.dtype == gl.bfloat16:
        even, odd = gl.inline_asm_elementwise(
            _BF16, _REGISTERS, [four], dtype=(gl.bfloat16, gl.bfloat16), is_pure=True, pack=4
        )
    else:
        even, odd = gl.inline_asm_elementwise(
            _FP16, _REGISTERS, [four], dtype=(gl.float16, gl.float16), is_pure=True, pack=4
        )
    # Four threads times their words times four numbers: for the matrix units, which want of each thread four numbers of
    # sixteen, the threads' place is before the last. Nothing moves: registers only get other names.
    even = even.reshape([GROUPS, R, 4, OWN, 4]).permute([0, 1, 3, 2, 4]).reshape([GROUPS, R, 16 * OWN])
    odd = odd.reshape([GROUPS, R, 4, OWN, 4]).permute([0, 1, 3, 2, 4]).reshape([GROUPS, R, 16 * OWN])
    # A k of eight is 4 b + 2 c + d: d says which product, and b comes last, as in the registers above.
    x_even, x_odd = gl.split(x.reshape([GROUPS, 4, OWN, 2, 2, 2, 8]).permute([0, 2, 1, 4, 3, 6, 5]))
    a: gl.constexpr = gl.DotOperandLayout(0, mma, 4)
    b: gl.constexpr = gl.DotOperandLayout(1, mma, 4)
    even = gl.convert_layout(even, a, assert_trivial=True)
    odd = gl.convert_layout(odd, a, assert_trivial=True)
    x_even = gl.convert_layout(x_even.reshape([GROUPS, 16 * OWN, 8]), b, assert_trivial=True)
    x_odd = gl.convert_layout(x_odd.reshape([GROUPS, 16 * OWN, 8]), b, assert_trivial=True)
    return even, odd, x_even, x_odd


@gluon.jit
def _by_group(values, mma: gl.constexpr, SHAPE: gl.constexpr):
    """Values [warps, D, R] as products are laid out: [groups, R, 1]. Nothing moves."""
    values = values.permute([1, 0, 2]).reshape([SHAPE[0], SHAPE[1]])
    return gl.convert_layout(values, gl.SliceLayout(2, mma), assert_trivial=True)[:, :, None]


@gluon.jit
def _add(
    total, words, at_x, at_s, step, end, mma: gl.constexpr, layout: gl.constexpr, SHAPE: gl.constexpr,
    ZERO: gl.constexpr,
):  # fmt: skip
    """Add the products of one step's groups, scaled, to [groups, R, 8]."""
    GROUPS: gl.constexpr = SHAPE[0]
    x, g_x = at_x
    s, z, g_s, s_group = at_s
    inside = g_s + step * GROUPS < end
    x = gl.load(x + step * (GROUPS * SHAPE[2] * 8), mask=g_x + step * GROUPS < end, other=0.0)
    scale = _by_group(gl.load(s + step * GROUPS * s_group, mask=inside, other=0.0), mma, SHAPE)
    if ZERO:
        z = _by_group(gl.load(z + step * GROUPS * s_group, mask=inside, other=0), mma, SHAPE)
    even, odd, x_even, x_odd = _numbers(words, x, mma, layout, SHAPE)
    nothing = gl.zeros([GROUPS, SHAPE[1], 8], gl.float32, mma)
    acc = mma_v2(odd, x_odd, mma_v2(even, x_even, nothing))
    if ZERO:  # the sums of x come from the matrix units, too
        one = gl.full([GROUPS, SHAPE[1], SHAPE[2] * 4], 1.0, x.dtype, gl.DotOperandLayout(0, mma, 4))
        acc -= (z.to(gl.float32) - 8.0) * mma_v2(one, x_odd, mma_v2(one, x_even, nothing))
    return total + acc * scale.to(gl.float32)


@gluon.jit(do_not_specialize=["rows", "steps"])
def matvec_hopper_kernel(
    y, x, w, scale, zero, N, K, w_step, x_step, s_row, s_group, rows, steps,
    R: gl.constexpr, D: gl.constexpr, BUFFERS: gl.constexpr, ABREAST: gl.constexpr, SPREAD: gl.constexpr,
    GROUP: gl.constexpr, ZERO: gl.constexpr,
):  # fmt: skip
    """R rows of W times up to 8 rows of x, over a range of `steps` times D groups for each warp.

    w is [N, K / 8] in words of 32 bits, its rows w_step apart; scale and zero are [N, K / GROUP],
    their rows s_row and their columns s_group apart; y is [splits, rows, N].
    D divides K / GROUP. Grid: (N / R, splits), both rounded up.
    """
    WARPS: gl.constexpr = gl.num_warps() // ABREAST  # among which K is shared
    SHAPE: gl.constexpr = [WARPS * D, R, GROUP // 8]
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [WARPS, ABREAST, 1], [1, 16, 8])
    layout: gl.constexpr = _words_layout(R, D, GROUP, WARPS, ABREAST, 0)
    first = gl.program_id(1) * steps
    last = gl.minimum(first + steps, gl.cdiv(K // GROUP, SHAPE[0]))
    end = gl.minimum(last * SHAPE[0], K // GROUP)
    # Beyond the last row of W or of x the last one is computed again, and not stored.
    # Of the axis of groups, each warp has every WARPS-th place; there it has D successive groups.
    g, row, j = _places(gl.SliceLayout(3, _words_layout(R, D, GROUP, WARPS, ABREAST, SPREAD)), SHAPE)
    g = g % WARPS * D + g // WARPS
    row = gl.minimum(gl.program_id(0) * R + row, N - 1).to(gl.int64)
    at_w = w + row * w_step + (g * SHAPE[2] + j), g
    g, k, b = _places(_x_layout(D, GROUP, WARPS, ABREAST), [SHAPE[0], GROUP, 8])
    g = g % WARPS * D + g // WARPS
    at_x = x + gl.minimum(b, rows - 1).to(gl.int64) * x_step + (g * GROUP + k), g
    warp, d, row = _places(_scales_layout(R, D, WARPS, ABREAST), [WARPS, D, R])
    of_group = gl.minimum(gl.program_id(0) * R + row, N - 1).to(gl.int64) * s_row + (warp * D + d) * s_group
    at_s = scale + of_group, zero + of_group if ZERO else zero, warp * D, s_group
    total = gl.zeros([SHAPE[0], R, 8], gl.float32, mma)
    coming = ()  # grown by sums, because kernels have no starred tuples
    for i in gl.static_range(BUFFERS - 1):
        coming = coming + (_words(at_w, first + i, end, SHAPE),)  # noqa: RUF005
    for start in range(first, last, BUFFERS):
        for i in gl.static_range(BUFFERS):
            coming = coming + (_words(at_w, start + i + BUFFERS - 1, end, SHAPE),)  # noqa: RUF005
            total = _add(total, coming[0], at_x, at_s, start + i, end, mma, layout, SHAPE, ZERO)
            coming = coming[1:]
    sums: gl.constexpr = gl.SliceLayout(0, mma)
    row = gl.program_id(0) * R + gl.arange(0, R, layout=gl.SliceLayout(1, sums))[:, None]
    b = gl.arange(0, 8, layout=gl.SliceLayout(0, sums))[None, :]
    at_y = y + (gl.program_id(1) * rows + b).to(gl.int64) * N + row
    gl.store(at_y, gl.sum(total, 0).to(y.dtype.element_ty), mask=(row < N) & (b < rows))
