"""What compiles all kernels of a module at once may take long: a slow machine needs more than a test has elsewhere."""

import pytest

from .compiling import PATIENCE_S


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(getattr(item, "module", None), "told_elsewhere"):
            item.add_marker(pytest.mark.timeout(PATIENCE_S + 60))
