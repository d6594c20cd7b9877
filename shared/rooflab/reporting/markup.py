"""Of what is a page made that needs no network and runs no scripts: its frame, its tables, its marks?

>>> pill("ok", True)
'<span class="pill good">ok</span>'
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

__all__ = ["Html", "document", "pill", "table"]


def document(title: str, contents: str, main: str, *, css: str | None = None) -> str:
    """A whole page.

    Args:
        title: plain text.
        contents: HTML of the table of contents.
        main: HTML of the sections.
        css: rules of its own, on top of the house's; with them the colours of code are left out.
    """
    house = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    code = _code_css() if css is None else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{code}
{house}{css or ""}
</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{contents}
<main id="main">
{main}
<footer>Written by Rooflab. This page needs no network and runs no scripts.</footer>
</main>
</body>
</html>
"""


def _code_css() -> str:
    from pygments.formatters import HtmlFormatter

    return HtmlFormatter(style="xcode").get_style_defs(".highlight")


class Html(str):
    """Text that is HTML already."""


def pill(text: str, good: bool) -> str:
    """A word in a coloured frame."""
    return f'<span class="pill {"good" if good else "bad"}">{escape(text)}</span>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names its rows; plain text is escaped."""

    def shown(text: str) -> str:
        return text if isinstance(text, Html) else escape(text)

    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in header)
    body = "".join(
        f'<tr><th scope="row">{shown(row[0])}</th>' + "".join(f"<td>{shown(text)}</td>" for text in row[1:]) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
