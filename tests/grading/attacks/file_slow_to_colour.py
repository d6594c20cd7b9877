"""Code and text that take those who colour code for hours. The page of feedback, and Formgrader, would never come."""

from arena import code, text

TRAPS = [" \n" * 100_000, "'\\N{" * 50_000]


def hand_in(notebook):
    for trap in TRAPS:
        notebook["cells"] += [code(f"a = 1\n{trap}"), text(f"~~~python\n{trap}\n~~~"), text(f"```perl\n{trap}\n```")]
    return notebook


TELLS = "No response"
