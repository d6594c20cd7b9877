"""How does JupyterLab open at the map of the book, also where nobody may write to the home folder?

    python tools/lab.py [options of jupyter lab]

>>> command([], root=True)[-1]
'--allow-root'
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What Jupyter, IPython and matplotlib keep below the home folder, and would not start without.
FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")


def command(options: Sequence[str], *, root: bool) -> list[str]:
    """Return the command that opens JupyterLab; ``root`` tells whether the superuser runs it."""
    jupyter = str(Path(sys.executable).with_name("jupyter"))
    words = [jupyter, "lab", f"--ServerApp.root_dir={ROOT}", "--LabApp.default_url=/lab/tree/chapters/index.ipynb"]
    return [*words, *options, *(["--allow-root"] if root else [])]


def writable(folder: Path) -> bool:
    """Whether something can be made in a folder, found out by doing it."""
    probe = folder / f".rooflab-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def move_out_of_home(environment: MutableMapping[str, str], home: Path, instead: Path) -> bool:
    """Point everything that is kept at home to ``instead``, where the home folder takes nothing; returns whether."""
    if writable(home):
        return False
    for name in FOLDERS:
        environment.setdefault(name, str(instead / name.lower()))
    return True


def switch_news_off(environment: MutableMapping[str, str], folder: Path) -> None:
    """Let JupyterLab not ask about news, in a window over the text: settings of our own, before those of the reader."""
    told = folder / "labconfig" / "page_config.json"
    told.parent.mkdir(parents=True, exist_ok=True)
    settings = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    told.write_text(json.dumps(settings), encoding="utf-8")
    search = [str(folder), *filter(None, [environment.get("JUPYTER_CONFIG_PATH")])]
    environment["JUPYTER_CONFIG_PATH"] = os.pathsep.join(search)


def main(options: Sequence[str]) -> None:
    """Become JupyterLab."""
    kept = ROOT / ".rooflab" / "jupyter"
    if move_out_of_home(os.environ, Path.home(), kept):
        print(f"Your home folder cannot be written; Jupyter keeps its files in {kept}.")
    with contextlib.suppress(OSError):  # a clone that cannot be written shows the window
        switch_news_off(os.environ, ROOT / ".rooflab" / "jupyter-settings")
    words = command(options, root=hasattr(os, "getuid") and os.getuid() == 0)
    if not os.access(words[0], os.X_OK):
        sys.exit(f"JupyterLab is not installed beside {sys.executable}: use `make lab`, or pip install -e '.[lab]'.")
    os.execv(words[0], words)


if __name__ == "__main__":
    main(sys.argv[1:])
