"""Which formats of numbers are there, and how many bytes does one number take?

>>> bytes_of("bf16"), bytes_of("fp4")
(2, 0.5)
>>> format_name("torch.bfloat16")
'bf16'
"""

from __future__ import annotations

__all__ = ["FORMATS", "bytes_of", "format_name"]

# Bits that one number takes in memory. tf32 is a way to multiply, not to store: its operands lie in memory as fp32.
FORMATS: dict[str, int] = {
    "fp64": 64,
    "fp32": 32,
    "tf32": 32,
    "fp16": 16,
    "bf16": 16,
    "fp8": 8,
    "fp6": 6,
    "fp4": 4,
    "int8": 8,
    "int4": 4,
}

# What the array libraries call the same formats.
_FORMAT_ALIASES = {
    "float64": "fp64",
    "double": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "uint8": "int8",
    "uint4": "int4",
}
_FORMAT_FAMILIES = (("float8_", "fp8"), ("float6_", "fp6"), ("float4_", "fp4"))


def format_name(dtype: object) -> str:
    """Return the name in `FORMATS` of a format given by our name or by a torch, JAX or NumPy dtype.

    >>> format_name("torch.bfloat16"), format_name("float8_e4m3fn")
    ('bf16', 'fp8')

    Raises:
        ValueError: if the format is unknown; the message lists the known ones.
    """
    text = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.").lower()
    text = _FORMAT_ALIASES.get(text, text)
    for prefix, name in _FORMAT_FAMILIES:
        if text.startswith(prefix):
            return name
    if text not in FORMATS:
        raise ValueError(f"expected a number format, one of {', '.join(FORMATS)}; found {dtype!r}")
    return text


def bytes_of(dtype: object) -> float:
    """Return the bytes that one number of a format takes in memory (0.5 for fp4), without block scales.

    Raises:
        ValueError: if the format is unknown.
    """
    bits = FORMATS[format_name(dtype)]
    return bits // 8 if bits % 8 == 0 else bits / 8
