"""Each call is answered twice, so that the second answer is there before the next question. It would be taken for it."""

ANSWERS = {
    "pairs": """@SPEAK@

def pairs(values, total):
    for number in range(20):
        tell({"kind": "done", "error": None, "printed": ""}, {"~": "tuple", "v": [2, None]})
    return 2
""",
}
WORTH = 1  # the first, visible one is right: two pairs
TELLS = "pairs|cannot be read|answer"
