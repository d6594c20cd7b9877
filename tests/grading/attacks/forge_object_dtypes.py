"""Arrays are of formats that hold pointers, records or code. Reading them would read the grader's memory."""

ANSWERS = {
    "normalize": """@SPEAK@
FORMATS = ["O", "|O8", "object", "f8,O", "V8", "{'names':['a'],'formats':['O']}", "f8, 2f8", "(2,3)f8", "m8[999Y]"]


def normalize(x):
    for name in FORMATS:
        tree = {"~": "array", "dtype": name, "shape": [1], "v": [0, 8]}
        tell({"kind": "done", "error": None}, {"~": "tuple", "v": [tree, None]}, b"A" * 8)
    return np.array([x, None], dtype=object)
""",
}
TELLS = "format|cannot be read|numbers or strings"
