"""Is a file of tensors still as it was written? torch reads on over a byte that is another one.

>>> import tempfile, torch
>>> path = Path(tempfile.mkdtemp()) / "values.pt"
>>> torch.save({"step": 7}, path)
>>> read_tensors(path)
{'step': 7}
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

__all__ = ["read_tensors"]


def read_tensors(path: Path) -> Any:
    """Return what `torch.save` wrote, in main memory.

    Raises:
        Exception: of many kinds, where the file is damaged; `zipfile.BadZipFile` where a checksum is not that of what
            it stands for.
    """
    import torch

    with zipfile.ZipFile(path) as archive:
        if broken := archive.testzip():
            raise zipfile.BadZipFile(f"{broken} is not as it was written")
    return torch.load(path, map_location="cpu", weights_only=True)
