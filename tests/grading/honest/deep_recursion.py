"""A function calls itself five hundred times."""

ANSWERS = {
    "pairs": """def pairs(values, total, depth=500):
    if depth:
        return pairs(values, total, depth - 1)
    return sum(a + b == total for k, a in enumerate(values) for b in values[:k])
""",
}
