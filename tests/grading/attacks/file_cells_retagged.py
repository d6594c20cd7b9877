"""Checks and answers are tagged as what is not run: skip-execution, demo, raises-exception, and others."""

ANSWERS = {"pairs": "def pairs(values, total):\n    return 0\n"}


def hand_in(notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = [
            "skip-execution",
            "demo",
            "raises-exception",
            "remove-cell",
            "solution",
            "parameters",
        ]
    return notebook


TELLS = "expected"
