"""Arrays name bytes that lie before or behind the message, and overlap. They would read what the grader has in memory."""

ANSWERS = {
    "normalize": """@SPEAK@

def normalize(x):
    for place in ([-8, 8], [0, 10**9], [2**63, 8], [0.0, 8], [8], None):
        tree = {"~": "array", "dtype": "<f8", "shape": [1], "v": place}
        tell({"kind": "done", "error": None}, {"~": "tuple", "v": [tree, None]}, b"A" * 8)
""",
}
TELLS = "did not send|cannot be read|whole number|pair"
