"""How does an executed notebook look as plain HTML?

>>> self_contained('<p onclick="x()">a<img src="https://example.org/x.png" alt="a badge"><script>1</script></p>')
'<p>a<span class="gone">a badge</span></p>'
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .mathml import to_html

__all__ = ["CellRenderer", "Figure", "Page", "picture", "render", "self_contained"]

_WIDGET = "application/vnd.jupyter.widget-view+json"
_WIDGET_NOTE = "An interactive widget stands here: open the notebook to use it."
_LOADS = ("script", "link", "iframe", "object", "embed", "base", "meta", "style", "audio", "video", "source")


@dataclass(frozen=True)
class Figure:
    """One picture: the ``data:`` address, its alternative text, its anchor in the notebook, its width on the page."""

    source: str
    alt: str
    anchor: str
    width: int | None


@dataclass(frozen=True)
class Page:
    """A rendered notebook: its title, its body, its (anchor, heading) pairs, and its figures."""

    title: str
    body: str
    headings: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...]


def self_contained(fragment: str) -> str:
    """Take out of HTML whatever would load something or run: scripts, styles, foreign pictures, handlers.

    Links that lead out stay links; those to files beside the notebook become plain text, as they lead nowhere here.
    """
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(fragment, "html.parser")
    for tag in soup(list(_LOADS)):
        tag.decompose()
    for tag in soup(True):
        for name in list(tag.attrs):
            if name.lower().startswith("on") or name.lower() in ("srcset", "background", "ping"):
                del tag[name]
        if "url(" in str(tag.get("style", "")).lower():
            del tag["style"]
        if tag.name in ("img", "image", "use"):
            source = str(tag.get("src") or tag.get("href") or tag.get("xlink:href") or "")
            if not source.startswith(("data:", "#")):
                text = soup.new_tag("span", attrs={"class": "gone"})
                text.string = str(tag.get("alt", ""))
                tag.replace_with(text)
        elif tag.name == "a" and not re.match(r"https?://|mailto:|#", str(tag.get("href", ""))):
            tag.unwrap()
    return str(soup)


def render(notebook: Any, key: str) -> Page:
    """Render a notebook.

    Args:
        notebook: an nbformat node (version 4).
        key: a short name, the beginning of all anchors in it.
    """
    return CellRenderer(key).render(notebook)


class CellRenderer:
    """Renders the parts of one notebook, and keeps its headings and figures.

    Args:
        key: a short name, the beginning of all anchors in it.
    """

    def __init__(self, key: str) -> None:
        from nbconvert.filters.highlight import Highlight2HTML

        self.key = key
        self.title = ""
        self.headings: list[tuple[str, str]] = []
        self.figures: list[Figure] = []
        self._highlight = Highlight2HTML(pygments_lexer="python")
        self._markdown = _markdown(self)

    def render(self, notebook: Any) -> Page:
        """Render a whole notebook, without what only the instructor should see."""
        cells = [self._cell(cell) for cell in notebook.cells]
        body = "\n".join(filter(None, cells))
        return Page(self.title or self.key, body, tuple(self.headings), tuple(self.figures))

    def heading(self, text: str, level: int) -> str:
        """A heading one level lower than in the notebook; the first title is the page's and not repeated."""
        plain = html.unescape(re.sub("<[^>]*>", "", text)).strip()
        if level == 1 and not self.title:
            self.title = plain
            return ""
        anchor = f"{self.key}-{len(self.headings) + 1}"
        if level <= 2:
            self.headings.append((anchor, plain))
            return f'<h3 id="{anchor}">{text}</h3>\n'
        return f"<h{min(level + 1, 6)}>{text}</h{min(level + 1, 6)}>\n"

    def _cell(self, cell: Any) -> str:
        if answer := _answer(cell):
            return answer
        if cell.cell_type == "markdown":
            return self.markdown(cell.source, cell.get("attachments"))
        if cell.cell_type != "code" or not cell.source.strip():
            return ""
        code = self.code(cell.source)
        if "hide-input" in cell.metadata.get("tags", []):
            code = f'<details class="hidden-code"><summary>code</summary>{code}</details>'
        number = cell.get("execution_count") or " "
        shown = self.outputs(cell.get("outputs", []))
        return f'<div class="cell"><span class="number" aria-hidden="true">[{number}]</span>{code}{shown}</div>'

    def markdown(self, source: str, attachments: Any = None) -> str:
        """A text, with its formulas as MathML and the pictures that were pasted into it."""
        self._markdown.renderer.attachments = attachments or {}
        return f'<div class="text">{self_contained(self._markdown.render(source))}</div>'

    def code(self, source: str) -> str:
        """Python in colours."""
        return str(self._highlight(source)).strip().replace("<pre>", '<pre tabindex="0">', 1)

    def outputs(self, outputs: Iterable[Any]) -> str:
        """What a cell has printed and shown, nbformat nodes; empty without any."""
        shown = "\n".join(filter(None, map(self._output, outputs)))
        return f'<div class="outputs">{shown}</div>' if shown else ""

    def _output(self, output: Any) -> str:
        from nbconvert.filters.ansi import ansi2html

        if output.output_type == "stream":
            return f'<pre class="{html.escape(output.name)}" tabindex="0">{ansi2html(output.text)}</pre>'
        if output.output_type == "error":
            text = "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
            return f'<pre class="error" tabindex="0">{ansi2html(text)}</pre>'
        return self._data(output.data, output.get("metadata", {}))

    def _data(self, data: Any, metadata: Any) -> str:
        from nbconvert.filters.ansi import ansi2html

        if "image/svg+xml" in data:
            return self._picture("image/svg+xml", data, metadata)
        if "text/html" in data and (shown := self_contained(_joined(data["text/html"])).strip()):
            return f'<div class="html">{shown}</div>'
        for kind in ("image/png", "image/jpeg"):
            if kind in data:
                return self._picture(kind, data, metadata)
        if "text/markdown" in data:
            return self.markdown(_joined(data["text/markdown"]))
        if "text/latex" in data:
            return to_html(_joined(data["text/latex"]).strip("$ \n"), display=True)
        if _WIDGET in data:
            return f'<p class="note">{_WIDGET_NOTE}</p>'
        return f'<pre tabindex="0">{ansi2html(_joined(data.get("text/plain", "")))}</pre>'

    def _picture(self, kind: str, data: Any, metadata: Any) -> str:
        import base64

        content = _joined(data[kind])
        if kind == "image/svg+xml":
            content = base64.b64encode(content.encode()).decode()
        about = metadata.get(kind, {})
        plain = _joined(data.get("text/plain", ""))
        alt = about.get("alt") or ("" if plain.startswith("<") else plain) or f"Figure of {self.title}"
        anchor = f"{self.key}-figure-{len(self.figures) + 1}"
        source = f"data:{kind};base64,{''.join(content.split())}"
        figure = Figure(source, alt, anchor, about.get("width"))
        self.figures.append(figure)
        return f'<figure id="{anchor}">{picture(figure)}</figure>'


def picture(figure: Figure) -> str:
    """The ``img`` element of a figure."""
    width = f' style="width:{int(figure.width)}px"' if figure.width else ""
    return f'<img src="{figure.source}" alt="{html.escape(figure.alt)}"{width}>'


def _answer(cell: Any) -> str:
    """What stands for a cell that only the instructor should see: a lab's solution, rubric or hidden check."""
    marks = cell.metadata.get("nbgrader", {})
    if "solution" in cell.metadata.get("tags", []) or "### BEGIN HIDDEN TESTS" in cell.source:
        return "<!-- -->"
    return '<p class="facts">The solution ran here; it is not shown.</p>' if marks.get("solution") else ""


def _joined(text: Any) -> str:
    return text if isinstance(text, str) else "".join(text)


def _markdown(renderer: CellRenderer) -> Any:
    """nbconvert's Markdown, with formulas as MathML and headings under our own anchors."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    class WithMath(IPythonRenderer):
        def block_math(self, body: str) -> str:
            return to_html(body, display=True)

        def inline_math(self, body: str) -> str:
            return to_html(body, display=False)

        def latex_environment(self, name: str, body: str) -> str:
            inner = body if name.startswith("equation") else f"\\begin{{{name}}}{body}\\end{{{name}}}"
            return to_html(inner, display=True)

        def heading(self, text: str, level: int, **attributes: Any) -> str:
            return renderer.heading(text, level)

    return MarkdownWithMath(renderer=WithMath(escape=False, exclude_anchor_links=True))
