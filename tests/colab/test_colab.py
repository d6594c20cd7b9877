"""Colab: an install of the project leaves what Colab has as it is, by pip's own dry-run report.

The three lists beside this file are what Colab's images hold. pip resolves the project with each list as constraints
and nothing installed: it then chooses a version for everything that the project reaches. Each of these must be Colab's
own version, or a package that Colab lacks. A requirement that Colab's versions do not meet makes pip fail.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest

# One environment for all of them, so one worker.
pytestmark = pytest.mark.xdist_group("colab")

HERE = Path(__file__).resolve().parent
IMAGES = ("cpu", "gpu", "tpu")
PYTHON = "3.13"
FRAMEWORKS = {"torch", "jax", "jaxlib", "triton"}


def normal(name: str) -> str:
    """A package's name as the index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def colab(image: str) -> dict[str, str]:
    lines = (HERE / f"{image}.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {normal(name): version for name, _, version in pins}


@pytest.fixture(scope="module")
def pip(other_python, tmp_path_factory) -> list[str]:
    """The pip of an empty environment with Colab's Python."""
    folder = tmp_path_factory.mktemp("colab") / "venv"
    subprocess.run([other_python(PYTHON), "-m", "venv", str(folder)], check=True)
    return [str(folder / "bin" / "python"), "-m", "pip"]


def resolve(pip: list[str], image: str, *what: str) -> dict[str, str]:
    """What pip would install, name to version, with Colab's list as constraints."""
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-", "-c", str(HERE / f"{image}.txt")]
    done = subprocess.run([*pip, "install", *options, *what], text=True, capture_output=True)
    if re.search(r"NewConnectionError|Name or service not known|name resolution", done.stderr):
        pytest.skip("the package index cannot be reached, and pip's resolver needs it")
    if done.returncode:
        raise RuntimeError(done.stderr)
    report = json.loads(done.stdout[done.stdout.index("{") :])
    return {normal(each["metadata"]["name"]): each["metadata"]["version"] for each in report["install"]}


@pytest.mark.parametrize("image", IMAGES)
def test_an_install_leaves_colab_as_it_is(pip, wheel, image):
    there = colab(image)
    chosen = resolve(pip, image, str(wheel))
    assert "rooflab" in chosen
    other = {name: (version, there[name]) for name, version in chosen.items() if there.get(name, version) != version}
    assert not other, "pip would replace these of Colab's packages"
    new = sorted(set(chosen) - set(there) - {"rooflab"})
    print(f"new on Colab's {image} image, beside rooflab: {', '.join(new) or 'nothing'}")
    # IPython 7.34 asks for jedi, which Colab leaves out: whatever is installed there brings it.
    assert new in ([], ["jedi"])
    assert not FRAMEWORKS & set(chosen)


def test_a_requirement_that_colab_does_not_meet_is_found(pip, wheel):
    with pytest.raises(RuntimeError, match="ipywidgets"):
        resolve(pip, "cpu", str(wheel), "ipywidgets>=8")


@pytest.mark.parametrize("image", IMAGES)
def test_the_lists_hold_what_matters(image):
    there = colab(image)
    assert {"torch", "jax", "numpy", "ipykernel", "ipython", "tornado", "ipywidgets", "matplotlib"} <= set(there)
