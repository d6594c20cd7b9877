"""A progress bar of tqdm runs in a call."""

ANSWERS = {
    "iterate": """from tqdm.auto import tqdm, trange


def iterate(f, x, n):
    found = [x]
    for _ in tqdm(range(n), desc="steps"):
        found.append(f(found[-1]))
    return found
""",
}
