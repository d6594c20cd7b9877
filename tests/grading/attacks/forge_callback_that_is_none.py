"""The student calls back functions that the grader never gave: other numbers, texts, and with arguments that are none."""

ANSWERS = {
    "iterate": """@SPEAK@

def iterate(f, x, n):
    for number in (10**9, -1, "0", None, True, 0.0):
        tell({"kind": "callback", "number": number}, {"~": "tuple", "v": [{"~": "tuple", "v": []}, {"~": "dict", "v": []}]})
    return [1, 2, 4, 8, 16]
""",
    "pairs": "@SPEAK@\n\ndef pairs(values, total):\n    tell({'kind': 'callback', 'number': 0}, 5)\n    return 2\n",
}
TELLS = "none of the grader's"
