"""Binder: repo2docker turns binder/ into a Dockerfile that installs our files, and only CPU builds."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

# One environment for all of them, so one worker.
pytestmark = pytest.mark.xdist_group("binder")

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".artifacts" / "repo2docker"
REPO2DOCKER = "jupyter-repo2docker==2026.4.0"


@pytest.fixture(scope="module")
def repo2docker() -> str:
    """The command, in an environment of its own: it wants other packages than the book. Made once, then kept."""
    command = CACHE / "bin" / "jupyter-repo2docker"
    stamp = CACHE / ".ready"
    if not stamp.exists() or stamp.read_text() != REPO2DOCKER:
        shutil.rmtree(CACHE, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True)
        pip = [str(CACHE / "bin" / "python"), "-m", "pip", "install", "--quiet", REPO2DOCKER]
        done = subprocess.run(pip, text=True, capture_output=True)
        if done.returncode:
            words = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            pytest.skip(f"{REPO2DOCKER} cannot be installed here: {words}")
        stamp.write_text(REPO2DOCKER)
    return str(command)


@pytest.fixture
def checkout(tmp_path) -> Path:
    """What repo2docker looks at: our files without the environment and its gigabytes."""
    for name in ("pyproject.toml", "requirements.lock", "requirements-cuda.lock", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "binder", tmp_path / "binder")
    return tmp_path


def dockerfile(command: str, folder: Path) -> str:
    done = subprocess.run([command, "--no-build", "--debug", "."], cwd=folder, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_dockerfile_installs_our_files(repo2docker, checkout):
    text = dockerfile(repo2docker, checkout)
    version = (ROOT / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    assert f"environment.py-{version}-" in text.replace("-2e", ".").replace("-2d", "-"), (
        "the environment of that Python"
    )
    assert re.search(r"pip install --no-cache-dir -r \"?binder/requirements\.txt", text)
    packages = [line for line in (ROOT / "binder" / "apt.txt").read_text().splitlines() if not line.startswith("#")]
    assert re.search(rf"apt-get install [^\n]*{re.escape(' '.join(packages))}", text)
    assert "./binder/postBuild" in text
    # The pins and the package are read from the checkout, so it has to be there before pip runs.
    assert text.index("COPY --chown=0:0 src/ ") < text.index("pip install --no-cache-dir -r")


def test_without_binder_the_dockerfile_would_not(repo2docker, checkout):
    shutil.rmtree(checkout / "binder")
    assert "binder/" not in dockerfile(repo2docker, checkout)


def test_the_image_is_pinned_and_has_no_cuda():
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    pins = (ROOT / "requirements.lock").read_text()
    torch = next(line for line in lines if line.startswith("torch=="))
    assert torch.endswith("+cpu")
    assert torch.removesuffix("+cpu") + "\n" in pins, "Binder has the torch of the lock"
    assert "-c ../requirements.lock" in lines
    project = next(line for line in lines if line.startswith("-e ."))
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"\w+", project)[1:]) <= set(known)


def test_post_build_accepts_a_cpu_environment():
    """Run where the tests run: an environment from the same lock."""
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        pytest.skip("this environment holds a CUDA build of torch, which postBuild refuses: it is meant to")
    path = ROOT / "binder" / "postBuild"
    assert path.stat().st_mode & 0o111
    variables = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([str(path)], env=variables, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
