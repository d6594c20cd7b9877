"""A formula puts a link together by a macro of its own, so that no text in it is one; others hold whole pages."""

from arena import named, text


def hand_in(notebook):
    link = r"$\newcommand{\h}[1]{\href{java#1:alert('@MARK@')}{x}} \h{script}$"
    named(notebook)["why"]["source"] = link
    notebook["cells"].append(text("[page](data:text/html;base64,PGI+) [own](file:///etc/passwd)"))
    return notebook


TELLS = "No response"
