"""A class: its machine, a running JupyterHub on it, and a course that is handed out."""

import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "browser")]

import hubsetup  # noqa: E402
from labpage import FLAGS, free_port  # noqa: E402
from machine import CLASS, IS_ROOT, Machine  # noqa: E402


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    """The machine of the class; nobody is logged in."""
    for program in ("bwrap", "node", "npm", "chromium"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (as root on Debian, `make test` installs it)")
    try:
        installed = hubsetup.install()
    except hubsetup.Unreachable as reason:
        pytest.skip(str(reason))
    return Machine(tmp_path_factory.mktemp("class"), installed)


@pytest.fixture(scope="session")
def hub(machine):
    """The address of JupyterHub, configured by the file that the documentation offers; all passwords are "secret"."""
    port, log = free_port(), machine.folder / "hub" / "log"
    words = [
        "jupyterhub", "-f", str(hubsetup.ROOT / "docs" / "hub" / "jupyterhub_config.py"),
        f"--JupyterHub.bind_url=http://127.0.0.1:{port}", f"--JupyterHub.hub_port={free_port()}",
        f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{free_port()}",
        "--JupyterHub.authenticator_class=dummy", "--DummyAuthenticator.password=secret",
        "--Spawner.args=['--LabApp.expose_app_in_browser=True']",
    ]  # fmt: skip
    if not IS_ROOT:
        words += ["--JupyterHub.spawner_class=simple"]
        words += [f"--SimpleLocalProcessSpawner.home_dir_template={CLASS}/home/{{username}}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            machine.command(*words), env=machine.environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_until_up(f"http://127.0.0.1:{port}/hub/login", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()  # and with it the proxy and every account's server
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_up(address, process, log):
    limit = time.monotonic() + 300
    while time.monotonic() < limit and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=30).close()
        except OSError:
            time.sleep(0.3)
        else:
            return
    raise RuntimeError("JupyterHub did not start:\n" + "\n".join(log.read_text().splitlines()[-20:]))


@pytest.fixture
def browser():
    """Chromium; each account gets a context of its own, as on a computer of its own."""
    from playwright.sync_api import sync_playwright

    hubsetup.SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield chromium
        chromium.close()
