"""Text cells and outputs hold HTML with scripts, which would run with the rights of whoever reads the notebook."""

from arena import code, named, text

SCRIPT = "<script>@MARK@</script>"
CELLS = [
    f"from IPython.display import HTML, Javascript, SVG, display\ndisplay(HTML('{SCRIPT}'), Javascript('@MARK@'))\n"
    f"display(SVG('<svg onload=@MARK@><g/></svg>'))\ndisplay({{'text/markdown': '{SCRIPT}', 'text/latex': '{SCRIPT}'}}, raw=True)",
    f"print('{SCRIPT}')",
    f"raise ValueError('{SCRIPT}')",
    f"%%html\n{SCRIPT}",
]
TEXTS = [SCRIPT, "<img src=x onerror=@MARK@>", "[click](javascript:@MARK@)", "<a\nhref='javascript:@MARK@'>x</a>"]


def hand_in(notebook):
    named(notebook)["why"]["source"] = ["The mean moves.\n", SCRIPT]
    notebook["cells"] += [code(source) for source in CELLS] + [text(source) for source in TEXTS]
    notebook["cells"][1]["outputs"] = [{"output_type": "display_data", "data": {"text/html": SCRIPT}, "metadata": {}}]
    return notebook


TELLS = "No response"
