"""Functions are made by functions."""

ANSWERS = {
    "iterate": """def make(count_from):
    steps = count_from

    def repeat(f, x, n):
        nonlocal steps
        found = [x]
        while len(found) <= n:
            found += [f(found[-1])]
            steps += 1
        return found

    return repeat


iterate = make(0)
""",
}
