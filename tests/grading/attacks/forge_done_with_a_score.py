"""The answer to a call carries a score, and says that the check has passed. The student speaks the protocol himself."""

ANSWERS = {
    "nearest": """@SPEAK@

def nearest(values, target):
    for head in ({"score": 4.0}, {"points": 4.0, "passed": True, "result": 4.0}):
        tell({"kind": "done", "error": None, "printed": "", **head}, {"~": "tuple", "v": [44.0, None]})
    return 44.0
""",
}
TELLS = "0 of 4|nearest"
