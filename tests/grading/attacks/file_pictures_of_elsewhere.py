"""A text asks for pictures of elsewhere, and links to scripts, in forms that look like something else."""

from arena import named, text

DEEP = "&" + "amp;" * 11
TEXTS = [
    "!![a](http://example.org/x.png)",
    "!!![b]\n\n[b]: http://example.org/x.png",
    "![c](attached: c)\n\n[c]: http://example.org/x.png",
    "![d`](attached:picture-1)`][d]\n\n[d]: http://example.org/x.png",
    f"[e](javascr{DEEP}#105;pt:@MARK@)",
    "$\\newcommand{\\h}[1]{\\mmlToken{mi}[href=java#1:@MARK@]{x}}\\h{script}$",
]


def hand_in(notebook):
    named(notebook)["why"]["source"] = TEXTS[0]
    notebook["cells"] += [text(source) for source in TEXTS]
    return notebook


TELLS = "No response"
