"""The function counts its calls, and does its work only in the first ones. Later ones get what came out then."""

ANSWERS = {
    "pairs": """CALLS = []


def pairs(values, total):
    CALLS.append(sum(a + b == total for k, a in enumerate(values) for b in values[:k]) if len(CALLS) < 2 else CALLS[-1])
    return CALLS[-1]
""",
}
WORTH = 1
TELLS = "expected"
