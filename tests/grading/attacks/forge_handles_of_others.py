"""The answer names objects by numbers that were never given: of others, of the grader, negative ones and texts."""

ANSWERS = {
    "account": """@SPEAK@

def Account(balance=0):
    for number in (0, 10**6, -1):
        tell({"kind": "done", "error": None}, {"~": "tuple", "v": [
            {"~": "handle", "n": number, "callable": True, "mine": False, "type": "builtins.function"}, None]})
    tell({"kind": "done"}, {"~": "handle", "n": "0", "type": 5})
""",
}
TELLS = "names an object|raised|Account|connection|stopped|closed|ended|object"
