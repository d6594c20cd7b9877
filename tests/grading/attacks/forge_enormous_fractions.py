"""The answer is hundreds of fractions of enormous numbers. To reduce one takes a moment, to reduce all of them minutes."""

ANSWERS = {
    "pairs": """@SPEAK@

def pairs(values, total):
    number = {"~": "int", "v": "f" * 99_999}
    one = {"~": "Fraction", "v": {"~": "tuple", "v": [number, {"~": "int", "v": "e" * 99_998}]}}
    tell({"kind": "done"}, {"~": "tuple", "v": [[one] * 300, None]})
""",
}
TELLS = "enormous numbers"
