"""The layout rules of the repository: what it must hold, and what it must not."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Folders of one person's or one machine's: written in two parts, so that this file does not hold one.
PRIVATE = re.compile(r"(?<![\w.$}~<>)\]])/(?:work|root|home|Users|Volumes|private|mnt|opt)" + r"/[\w.-]+")
BINARY = {".png", ".jpg", ".ico", ".woff2", ".npz", ".npy", ".gz"}


def files() -> list[Path]:
    """Every file that is, or could be, committed."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        hidden = {".venv", ".git", ".artifacts", "__pycache__"}
        return [p for p in ROOT.rglob("*") if p.is_file() and not hidden & set(p.relative_to(ROOT).parts)]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def private_paths(text: str) -> list[str]:
    return [found[0] for found in PRIVATE.finditer(text)]


def test_no_file_names_a_folder_of_one_machine():
    wrong = {}
    for path in files():
        if path.suffix not in BINARY and (found := private_paths(path.read_text(encoding="utf-8", errors="replace"))):
            wrong[path.relative_to(ROOT).as_posix()] = found[:3]
    assert not wrong


def test_a_folder_of_one_machine_is_found():
    assert private_paths("open('/" + "home/ada/book.txt')")
    assert private_paths("see /" + "work/main/x.py")
    assert not private_paths("bytes/work/unit, ~/.cache/rooflab, https://host/home/page, $HOME/x, ./work/x")


def test_ci_runs_the_tests_and_nothing_else():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.strip() and not line.startswith("#")] == ["exec make test"]


@pytest.mark.parametrize("target", ["help", "tour", "lab", "test", "check", "build", "record", "lock", "clean"])
def test_make_help_lists_every_target(target):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    told = subprocess.run(["make", "-C", str(ROOT), "--no-print-directory", "help"], text=True, capture_output=True)
    assert told.returncode == 0, told.stderr
    assert re.search(rf"^  make {target} +\S", told.stdout, re.MULTILINE)


def normal(requirement: str) -> str:
    """The name in a requirement, as the index compares names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement.strip(), maxsplit=1)[0]).lower()


def test_the_lock_pins_everything_that_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)}
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith(("#", "-c "))]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+(; .+)?", pin) for pin in pins)
    assert {normal(each) for each in asked} <= {normal(pin) for pin in pins}
    assert not [pin for pin in pins if "+" in pin], "a local version would tie the lock to one kind of machine"
