"""The instructions on words that kernels write as inline assembly, carried out in NumPy: Triton's interpreter has none.

A kernel's own text is parsed, so that what is tested is what a GPU gets. NaN is what NVIDIA's chips make of it: 0x7FFF
in bf16 and 0x7FFFFFFF in fp32, whatever came in.
"""

import re
from dataclasses import dataclass

import numpy as np

_MINUS = np.uint32(0x80008000)


def run(asm, values, outputs=1):
    """The words $0, $1, ... that instructions leave, of arrays of words behind these; one is returned alone."""
    names = {f"${place}": value for place, value in enumerate(values, start=outputs)}
    for line in asm.strip().strip("{}").split(";"):
        name, _, operands = line.strip().partition(" ")
        if not name or name == ".reg":
            continue
        into, *given = [each.strip() for each in operands.split(",")]
        names[into] = _CARRIED_OUT[name](*(_value(names, each) for each in given))
    made = [names[f"${place}"] for place in range(outputs)]
    return made if outputs > 1 else made[0]


def install(monkeypatch):
    """Let Triton's interpreter run such assembly; returns the texts that it carries out, as they are met."""
    from triton.runtime import interpreter

    met = []

    def create(self, asm, constraints, handles, kinds, pure, pack):
        assert (pure, pack, len(kinds)) == (True, 1, 1)
        assert constraints == ",".join(["=r"] + ["r"] * len(handles))
        given = np.broadcast_arrays(*(np.atleast_1d(each.data).view(np.uint32) for each in handles))
        made = run(asm, given)
        met.append(asm)
        kind = kinds[0].element_ty if hasattr(kinds[0], "element_ty") else kinds[0]
        dtype = np.float32 if kind.is_fp32() else np.int32
        return _Made(interpreter.TensorHandle(made.astype(np.uint32).view(dtype).reshape(handles[0].data.shape), kind))

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_inline_asm", create)
    return met


@dataclass
class _Made:
    result: object

    def get_result(self, place):
        assert place == 0
        return self.result


def _value(names, operand):
    if operand in names:
        return names[operand]
    if operand.startswith("0f"):
        return np.uint32(int(operand[2:], 16))
    assert re.fullmatch(r"0x[0-9A-Fa-f]+|\d+", operand), operand
    return np.uint32(int(operand, 0))


def _halves(word):
    """The two numbers of bf16 in a word as float64, the lower one first."""
    word = np.asarray(word, np.uint32)
    return (word << 16).view(np.float32).astype(np.float64), (word & 0xFFFF0000).view(np.float32).astype(np.float64)


def _bits(number):
    """Of float64 the bits in bf16, rounded once to nearest, ties to even."""
    number = np.asarray(number, np.float64)
    _, exponent = np.frexp(number)
    step = np.ldexp(1.0, np.maximum(np.where(np.isfinite(number), exponent, 0) - 8, -133))
    rounded = np.where(np.isfinite(number), np.rint(number / step) * step, number).astype(np.float32)
    bits = np.atleast_1d(rounded).view(np.uint32).reshape(number.shape) >> 16
    return np.where(np.isnan(number), np.uint32(0x7FFF), bits)


def _pairs(function):
    """An instruction on numbers as one on both halves of words."""

    def carried_out(*words):
        low, high = (function(*numbers) for numbers in zip(*map(_halves, words), strict=True))
        return _bits(low) | _bits(high) << np.uint32(16)

    return carried_out


def _fma(a, b, c):
    """Exact in float64 but for sums of something tiny and something large, which are no ties of bf16."""
    with np.errstate(invalid="ignore", over="ignore"):
        return a * b + c


def _singles(function):
    def carried_out(*words):
        numbers = (np.asarray(word, np.uint32).view(np.float32).astype(np.float64) for word in words)
        with np.errstate(over="ignore"):
            made = function(*numbers).astype(np.float32)
        return np.where(np.isnan(made), np.uint32(0x7FFFFFFF), made.view(np.uint32))

    return carried_out


def _reciprocal(a):
    """One unit in the last place too large, as the instruction may be; what is subnormal counts as 0."""
    with np.errstate(divide="ignore"):
        return np.where(np.abs(a) < 2.0**-126, np.copysign(np.inf, a), 1 / a * (1 + 2.0**-23))


def _prmt(a, b, selector):
    """Bytes of two words by four digits, the lowest one first; digit + 8 is the byte's sign, eight times."""
    both = np.asarray(a, np.uint64) | np.asarray(b, np.uint64) << np.uint64(32)
    word = np.zeros(both.shape, np.uint64)
    for place in range(4):
        digit = int(selector) >> 4 * place & 15
        byte = both >> np.uint64(8 * (digit & 7)) & np.uint64(255)
        word |= (np.where(byte > 127, np.uint64(255), np.uint64(0)) if digit > 7 else byte) << np.uint64(8 * place)
    return word.astype(np.uint32)


def _lop3(a, b, c, table):
    """Bit by bit, the table's bit at 4 a + 2 b + c."""
    found = np.zeros(np.broadcast(a, b, c).shape, np.uint32)
    for place in range(8):
        if int(table) >> place & 1:
            found |= (a if place & 4 else ~a) & (b if place & 2 else ~b) & (c if place & 1 else ~c)
    return found


def _mad(a, b, c):
    return (np.asarray(a, np.uint64) * b + c & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _upper_first(a, b):
    high, low = (np.asarray(word, np.uint32).view(np.float32).astype(np.float64) for word in (a, b))
    return _bits(high) << np.uint32(16) | _bits(low)


_CARRIED_OUT = {
    "mov.b32": lambda a: a,
    "and.b32": np.bitwise_and,
    "shl.b32": np.left_shift,
    "min.u32": np.minimum,
    "prmt.b32": _prmt,
    "lop3.b32": _lop3,
    "mad.lo.u32": _mad,
    "abs.bf16x2": lambda a: a & ~_MINUS,
    "max.bf16x2": _pairs(np.fmax),
    "max.NaN.bf16x2": _pairs(np.maximum),
    "min.bf16x2": _pairs(np.fmin),
    "fma.rn.bf16x2": _pairs(_fma),
    "fma.rn.f32": _singles(_fma),
    "rcp.approx.ftz.f32": _singles(_reciprocal),
    "cvt.rn.bf16x2.f32": _upper_first,
}
