"""Do the notebooks run with Colab's versions? (Python 3.13 and the pins of tests/colab; not part of `make test`.)

    python tools/colab_check.py chapters/s1_measurement/u1_step_cost.ipynb ...

Makes .artifacts/colab with Colab's Python packages, installs the project's wheel into it as Colab would, checks that
pip replaced nothing, and executes each notebook outside the repository, as Colab opens it. ``--torch`` adds Colab's
release of torch with its CUDA libraries (5 GB on Linux); without it the notebooks meet a machine that has only JAX.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".artifacts" / "colab"
IMAGE = ROOT / "tests" / "colab" / "cpu.txt"
# What a Colab notebook reaches: its kernel, its widgets, its arrays.
PACKAGES = (
    "ipykernel", "ipython", "ipywidgets", "jax", "jaxlib", "jupyter_client", "matplotlib", "nbclient", "nbformat",
    "notebook", "numpy", "tornado", "tqdm", "traitlets",
)  # fmt: skip
EXECUTE = """
import nbformat, sys
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": "."}})
try:
    client.execute()
finally:
    nbformat.write(notebook, sys.argv[1])
views = [o for c in notebook.cells for o in c.get("outputs", []) if "application/vnd.jupyter.widget-view+json" in o.get("data", {})]
errors = [o for c in notebook.cells for o in c.get("outputs", []) if o["output_type"] == "error"]
print(f"{sum(c.cell_type == 'code' for c in notebook.cells)} code cells, {len(views)} widgets, {len(errors)} errors")
"""  # noqa: E501


def pins() -> dict[str, str]:
    """Return Colab's versions; a local part such as +cpu is dropped, since no index but Colab's has it."""
    lines = (line.partition("+")[0] for line in IMAGE.read_text(encoding="utf-8").splitlines())
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def pip(*arguments: str) -> str:
    """Run pip in Colab's environment; returns what it prints."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", *arguments]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def installed() -> dict[str, str]:
    """Return the packages of the environment."""
    return {each["name"].lower(): each["version"] for each in json.loads(pip("list", "--format", "json"))}


def make_environment(python: str, *, torch: bool) -> None:
    """Install Colab's versions of what a notebook reaches, and nothing newer of anything that Colab has."""
    subprocess.run([python, "-m", "venv", "--clear", str(VENV)], check=True)
    known = pins()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        # torch's own wheels ask for their own CUDA libraries, whatever else Colab carries.
        constraints.writelines(f"{name}=={version}\n" for name, version in known.items() if "nvidia" not in name)
        constraints.flush()
        wanted = [f"{name}=={known[name]}" for name in PACKAGES] + ([f"torch=={known['torch']}"] if torch else [])
        pip("install", "--quiet", "-c", constraints.name, *wanted)


def install_project() -> None:
    """Install the wheel as Colab's first cell does; whatever changes beside it is an error."""
    before = installed()
    with tempfile.TemporaryDirectory() as folder:
        pip("wheel", "--quiet", "--no-deps", "-w", folder, str(ROOT))
        pip("install", "--quiet", *map(str, Path(folder).glob("*.whl")))
    after = installed()
    changed = {name: (version, after.get(name)) for name, version in before.items() if after.get(name) != version}
    if changed:
        raise SystemExit(f"The install replaced {changed}")
    print(
        f"installed {', '.join(f'{name} {after[name]}' for name in sorted(set(after) - set(before)))}; nothing replaced"
    )
    names = ("python", "numpy", "jax", "torch", "ipython", "ipykernel", "ipywidgets", "matplotlib", "notebook")
    print(", ".join(f"{name} {after[name]}" for name in names if name in after))


def execute(notebook: Path, *, live: bool) -> bool:
    """Execute a copy in an empty folder; tells whether every cell ran."""
    out = ROOT / ".artifacts" / "colab-executed"
    out.mkdir(parents=True, exist_ok=True)
    copy = out / notebook.name
    copy.write_bytes(notebook.read_bytes())
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JUPYTER", "VIRTUAL"))}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        variables = kept | {
            "ROOFLAB_HEADLESS": "" if live else "1",
            "ROOFLAB_HOME": f"{folder}/home",
            "JUPYTER_PREFER_ENV_PATH": "1",
        }
        done = subprocess.run(
            [str(VENV / "bin" / "python"), "-c", EXECUTE, str(copy)], cwd=folder, env=variables, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    told = done.stdout.strip().splitlines() or ["(silent)"]
    print(
        f"{'ok  ' if done.returncode == 0 else 'FAIL'} {notebook.name}: {time.perf_counter() - began:.0f} s; {told[-1]}"
    )
    if done.returncode:
        print("\n".join(told[-25:]))
    return done.returncode == 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Execute notebooks with Colab's versions.")
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--python", default="python3.13", help="a Python 3.13 (default: the one on the PATH)")
    parser.add_argument("--torch", action="store_true", help="install Colab's release of torch too (5 GB)")
    parser.add_argument("--live", action="store_true", help="make the widgets, as for a reader who is there")
    parser.add_argument("--keep", action="store_true", help="use the environment of the last time")
    given = parser.parse_args()
    if missing := [str(path) for path in given.notebooks if not path.is_file()]:
        parser.error(f"there is no notebook {', '.join(missing)}")
    if not given.keep and shutil.which(given.python) is None:
        parser.error(f"there is no {given.python} here: name a Python 3.13 with --python")
    if given.keep and not (VENV / "bin" / "python").exists():
        parser.error(f"there is no environment of a last time in {VENV}: leave --keep out")
    if not given.keep:
        make_environment(given.python, torch=given.torch)
        install_project()
    failed = [path for path in given.notebooks if not execute(path, live=given.live)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
