"""Is an optional part installed, and if not, which command installs it?

>>> require("lab", "json")
>>> require("lab", "no_such_package")
Traceback (most recent call last):
rooflab.extras.MissingExtra: This needs the package no_such_package: pip install "rooflab[lab]"
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["MissingExtra", "require"]


class MissingExtra(ImportError):
    """A part of Rooflab needs packages that are not installed; the message names the command that installs them."""


def require(extra: str, *modules: str) -> None:
    """Import the modules, or say in one sentence which extra brings them.

    Raises:
        MissingExtra: one of the modules is not installed.
    """
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise MissingExtra(f'This needs the package {module}: pip install "rooflab[{extra}]"') from error
