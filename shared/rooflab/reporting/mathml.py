r"""How is a formula shown where no script and no network is?

As MathML, which browsers draw themselves. Without the small package that converts, its TeX is shown as it is.

>>> to_html(r"x \ge 1", display=False).startswith(("<math", '<code class="tex">'))
True
"""

from __future__ import annotations

import html
import re

__all__ = ["to_html"]

# The converter makes one element of each upright letter; as one element they are a word, with a word's spacing.
_LETTERS = re.compile(r'(?:<mi mathvariant="normal">[^<&]</mi>){2,}')

# Environments that the converter does not know, or numbers the lines of; numbers would point nowhere here.
_ENVIRONMENTS = {"align": "align*", "aligned": "align*", "eqnarray": "align*", "gather": "matrix", "gathered": "matrix"}
_ENVIRONMENT = re.compile(rf"\\(begin|end)\{{({'|'.join(_ENVIRONMENTS)})\}}")


def to_html(tex: str, *, display: bool) -> str:
    """Convert a formula.

    Args:
        tex: without its dollar signs.
        display: on a line of its own, or in the running text.
    """
    tex = tex.strip()
    formula = _convert(tex, display)
    if formula is None:
        text = f'<code class="tex">{html.escape(tex)}</code>'
        return f"<p>{text}</p>" if display else text
    formula = _LETTERS.sub(_word, formula)
    return formula.replace("<math ", f'<math alttext="{html.escape(tex)}" ', 1)


def _convert(tex: str, display: bool) -> str | None:
    """MathML, or None where the package is missing or the formula is beyond it: the TeX itself is legible."""
    known = _ENVIRONMENT.sub(lambda match: f"\\{match[1]}{{{_ENVIRONMENTS[match[2]]}}}", tex)
    try:
        from latex2mathml.converter import convert

        formula: str = convert(known, display="block" if display else "inline")
    except Exception:  # it raises a dozen kinds of error on what it cannot read
        return None
    return None if "<mi>&</mi>" in formula or "<mi>\\" in formula else formula


def _word(letters: re.Match[str]) -> str:
    return f'<mi mathvariant="normal">{re.sub("<[^>]*>", "", letters[0])}</mi>'
