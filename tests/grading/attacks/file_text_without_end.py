"""Texts open a million links, and bring pictures that none of them shows: who shows them looks for the end of each."""

from arena import named, text


def hand_in(notebook):
    named(notebook)["why"]["source"] = "![" * 700_000
    many = {f"{number:07}": {"image/png": "x"} for number in range(400_000)}
    notebook["cells"].append(text("attachment:" * 100_000) | {"attachments": many})
    notebook["cells"].append(text("\\begin{a}" * 100_000))
    return notebook


TELLS = "No response"
