"""A function of the grader is called back with as many arguments as a range has. They would fill its memory."""

ANSWERS = {
    "iterate": """@SPEAK@

def iterate(f, x, n):
    many = {"~": "range", "v": {"~": "tuple", "v": [0, 2 * 10**9, 1]}}
    tell({"kind": "callback", "number": 0}, {"~": "tuple", "v": [many, {"~": "dict", "v": []}]})
    return [1, 2, 4, 8, 16]
""",
}
TELLS = "range|too many|too long|cannot be read|none of the grader's"
