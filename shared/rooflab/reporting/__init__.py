"""How do executed notebooks and grades become one page that needs no network?

>>> write_report.__name__
'write_report'
"""

from __future__ import annotations

from .page import write_report

__all__ = ["write_report"]
