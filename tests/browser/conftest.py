"""A JupyterLab of its own for the browser tests, on a copy of the book, and a headless Chromium."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from labpage import FLAGS, free_port

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / ".artifacts" / "screenshots"


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is not installed (as root on Debian, `make test` installs it)")
    return found


@pytest.fixture(scope="session")
def book(tmp_path_factory) -> Path:
    """A copy of what a reader opens: JupyterLab saves into it."""
    folder = tmp_path_factory.mktemp("book")
    for name in ("chapters", "labs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.py", ".ipynb_checkpoints"))
    for path in (ROOT / "solutions").glob("*/lab*.ipynb"):
        target = folder / "solved" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.copytree(Path(__file__).parent / "fixtures", folder / "fixtures")
    return folder


def environment(folder: Path) -> dict[str, str]:
    """The variables of a reader who has never started Jupyter here."""
    ours = ("JUPYTER", "IPYTHON", "ROOFLAB", "TRITON_INTERPRET")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # The "Jupyter news" question would lie over the page.
    quiet = folder / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    return kept | {
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "IPYTHONDIR": str(folder / "ipython"),
        "ROOFLAB_HOME": str(folder / "rooflab"),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "shared"), os.environ.get("PYTHONPATH")))),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.fixture(scope="session")
def jupyterlab(book, tmp_path_factory) -> Iterator[str]:
    """The address of a running JupyterLab, as http://127.0.0.1:port?token=..."""
    folder, port, token = tmp_path_factory.mktemp("jupyter"), free_port(), secrets.token_hex(16)
    log = folder / "server.log"
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser",
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={book}", f"--IdentityProvider.token={token}", "--LabApp.news_url=None",
    ]  # fmt: skip
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment(folder), stdout=output, stderr=output, cwd=book)
    try:
        _wait_until_up(f"http://127.0.0.1:{port}/api?token={token}", server, log)
        yield f"http://127.0.0.1:{port}?token={token}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_until_up(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + 300
    while time.monotonic() < limit:
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(address, timeout=30).close()
        except OSError:
            time.sleep(0.3)
        else:
            return
    raise RuntimeError("JupyterLab did not start:\n" + "\n".join(log.read_text().splitlines()[-20:]))


@pytest.fixture
def notebook_page(chromium) -> Iterator[object]:
    """A fresh browser with one page that looks for errors."""
    from labpage import NotebookPage
    from playwright.sync_api import sync_playwright

    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        yield NotebookPage(page, SCREENSHOTS)
        browser.close()
