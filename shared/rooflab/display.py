"""How does something get onto the reader's page?

Rich where a notebook listens, plain text everywhere else; and one answer to the question whether anyone is there to
type and drag:

>>> show_text("a line", html="<p>a line</p>")
a line
"""

from __future__ import annotations

import html as html_lib
import os
import sys
from collections.abc import Iterable
from typing import Any

from .samples import Measurement, disturbance

__all__ = ["escape", "in_notebook", "is_headless", "say", "say_disturbed", "show_bundle", "show_image", "show_source",
           "show_text"]  # fmt: skip


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook (and not a script, a shell or a test)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def is_headless() -> bool:
    """Whether nobody is there to type or drag: in a script, or in a notebook that a runner or a grader executes."""
    return any(os.environ.get(name) for name in ("ROOFLAB_HEADLESS", "NBGRADER_EXECUTION")) or not in_notebook()


def escape(text: object) -> str:
    """Text made safe for HTML."""
    return html_lib.escape(str(text))


def show_bundle(bundle: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    """Show a MIME bundle; outside a notebook print its ``text/plain``."""
    if in_notebook():
        from IPython.display import display

        display(bundle, metadata=metadata or {}, raw=True)
    else:
        print(bundle["text/plain"])


def show_text(text: str, *, html: str = "") -> None:
    """Show HTML in a notebook, the text elsewhere."""
    show_bundle({"text/plain": text} | ({"text/html": html} if html else {}))


def show_image(png: bytes, *, alt: str, width: int, height: int) -> None:
    """Show a PNG picture with its alternative text.

    Args:
        png: the file's bytes, at any resolution.
        alt: what the picture says, for those who do not see it.
        width: on the page, in CSS pixels.
        height: likewise.
    """
    import base64

    encoded = base64.b64encode(png).decode("ascii")
    show_bundle({"image/png": encoded, "text/plain": alt},
                {"image/png": {"alt": alt, "width": width, "height": height}})  # fmt: skip


def say(sentence: str) -> None:
    """Show a remark below a figure or a table; on a page it breaks between words, as a stream of text does not."""
    show_text(sentence, html=f"<p>{escape(sentence)}</p>")


def say_disturbed(measurements: Iterable[Measurement]) -> None:
    """Say below a figure or a table that some of its measurements should not be trusted yet."""
    if sentence := disturbance(measurements):
        say(sentence)


def show_source(function: Any) -> None:
    """Show the source of a function of the library, so that the text can speak about the code that really runs."""
    import inspect
    import textwrap

    code = textwrap.dedent(inspect.getsource(function)).rstrip()
    show_bundle({"text/plain": code, "text/markdown": f"```python\n{code}\n```"})
