"""Arrays have shapes that no array has: negative, fractional, of a thousand axes, and products that overflow."""

ANSWERS = {
    "normalize": """@SPEAK@
SHAPES = [[-1, -8], [1.5], [2**62, 4, 0, 2**62], [1] * 1000, ["8"], [2**63, 2]]
COUNTER = [0]


def normalize(x):
    shape = SHAPES[int(x[0, 0] * 100) % len(SHAPES)]
    tree = {"~": "array", "dtype": "<f8", "shape": shape, "v": [0, 8]}
    tell({"kind": "done", "error": None}, {"~": "tuple", "v": [tree, None]}, b"A" * 8)
""",
}
TELLS = "shape|cannot be read|whole number|bytes"
