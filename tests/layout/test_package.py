"""The layout rules of the package: layers, imports, sizes, docstrings. A rule that a reader would feel is a test."""

import ast
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "shared" / "rooflab"

LAYERS = {
    "thinking": {"costs", "knees", "numberformats", "roofline", "specs", "tolerances", "units"},
    "measuring": {
        "ceilings", "clocks", "counters", "device", "extras", "files", "footprint", "load", "locks", "logbook",
        "measurable", "measurement", "memory", "mlp", "neighbour", "probe", "profile", "ranks", "records",
        "samples", "shortage", "simulate", "state", "stopping",
    },
    "showing": {"display", "explorer", "plaintext", "plots", "progress", "tables", "widgets"},
    "teaching": {
        "__main__", "answers", "book", "bookmap", "check", "classroom", "cli", "devicecard", "execute",
        "grading", "kernel_bench", "kernel_commands", "kernel_figure", "kernel_ladder", "kernel_ladder_figure",
        "nbkernel", "prediction", "reporting", "runs", "scratch", "session", "speed", "tour", "traffic",
        "wording",
    },
}  # fmt: skip
# Each subject stands on the first two layers and on itself; nothing but teaching stands on a subject.
SUBJECTS = {"fabric", "formats", "kernels", "optim", "recompute", "speedrun"}
USES = {("speedrun", "kernels")}  # the one subject that puts another to work
ORDER = list(LAYERS)
# A subject's commands and what they show are teaching, although they stand in its folder.
COMMANDS = {
    "speedrun.__main__",
    "speedrun.commands",
    "speedrun.ending",
    "speedrun.interrupted",
    "speedrun.ladder",
    "speedrun.picture",
    "speedrun.race",
    "speedrun.sidebyside",
    "speedrun.teller",
    "speedrun.data.commands",
    "speedrun.compare",
    "speedrun.leaderboard",
    "speedrun.boardrows",
    "speedrun.live",
}
# The base dependencies that may be loaded with a module; everything else waits inside functions.
AT_TOP = {"numpy"}
# Modules that define modules or functions of torch or JAX; they are loaded when a model is made, and not before.
TORCH_AT_TOP = {"speedrun.attention", "speedrun.fp8", "speedrun.loss", "speedrun.model"}
JAX_AT_TOP = {"speedrun.twin.model", "speedrun.twin.updates"}
FRAMEWORK_OF = {
    "triton": "triton",
    "torch": "torch",
    "pallas": "jax",
    "metal": "torch",
}  # a kernel module's, by its name
MODULE_LINES, FUNCTION_LINES, NAMES = 300, 50, 12
IMPORT_S = 0.3

MODULES = sorted(PACKAGE.rglob("*.py"))
TOOLS = sorted((ROOT / "tools").glob("*.py"))


def name_of(path: Path) -> str:
    """``costs/work.py`` -> ``costs.work``; a package's ``__init__`` bears the package's name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def layer_of(name: str) -> str:
    """The layer, or the subject itself, of a module of the package."""
    if name in COMMANDS:
        return "teaching"
    part = name.partition(".")[0]
    if part in SUBJECTS:
        return part
    return next((layer for layer, names in LAYERS.items() if part in names), "")


def allowed(importer: str, imported: str) -> bool:
    """Whether a module of layer (or subject) ``importer`` may import from ``imported``."""
    if importer == imported:
        return True
    if importer in SUBJECTS:
        return imported in ORDER[:2] or (importer, imported) in USES
    if imported in SUBJECTS:
        return importer == "teaching"
    return ORDER.index(imported) <= ORDER.index(importer)


def for_types_only(tree: ast.Module) -> set[int]:
    """The nodes under ``if TYPE_CHECKING``: never run, so no dependency."""
    return {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }


def imports(tree: ast.Module, name: str, *, is_package: bool) -> Iterator[tuple[str, int]]:
    """Each absolute module name that ``name`` imports anywhere, with its line; rooflab's own as ``rooflab.x``."""
    skipped = for_types_only(tree)
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = ["rooflab", *name.split(".")] if name != "__init__" else ["rooflab"]
            base = parts[: len(parts) - node.level + is_package] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            if source == "rooflab":
                yield from ((f"rooflab.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield source, node.lineno


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported, also inside ``if`` and ``try``."""
    skipped = for_types_only(tree)
    queue: list[ast.AST] = list(tree.body)
    while queue:
        node = queue.pop()
        if id(node) in skipped or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.stmt):
            yield node
        queue += ast.iter_child_nodes(node)


def wrong_imports(source: str, name: str, *, is_package: bool = False) -> list[str]:
    """The imports of a module that climb the layers."""
    own = layer_of(name)
    wrong = []
    for module, line in imports(ast.parse(source), name, is_package=is_package):
        head, _, part = module.partition(".")
        if head != "rooflab" or not part or not layer_of(part):  # plain names such as rooflab.__version__ have no layer
            continue
        if not allowed(own, layer_of(part)):
            wrong.append(f"line {line}: {own} imports {part} ({layer_of(part)})")
    return wrong


def heavy_imports(source: str, name: str) -> list[str]:
    """The third-party packages that importing the module loads, beyond those that may be."""
    # What nbgrader calls are classes made of its own; nbgrader's configuration alone loads them.
    more = {"plots": {"matplotlib"}, "grading.course_marks": {"nbgrader"}}
    may = AT_TOP.union({"rooflab"}, sys.stdlib_module_names, *(more[key] for key in more if name.startswith(key)))
    # Kernels are decorated where they stand, so their modules are loaded when a kernel is used, and not before.
    if name.startswith("kernels.") and (framework := FRAMEWORK_OF.get(name.split(".")[-1].partition("_")[0])):
        may.add(framework)
    may |= {"torch"} if name in TORCH_AT_TOP else {"jax"} if name in JAX_AT_TOP else set()
    found = []
    for node in top_level(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        found += [f"line {node.lineno}: {each}" for each in names if each.split(".")[0] not in may]
    return found


def long_functions(source: str) -> list[str]:
    """The functions that are too long to take in at once; their docstrings do not count."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            words = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - words
            if lines > FUNCTION_LINES:
                found.append(f"{node.name}: {lines} lines")
    return found


def is_power_of_ten(value: float) -> bool:
    return math.isclose(value, 10.0 ** round(math.log10(value)), rel_tol=1e-12)


def chip_constants(source: str) -> list[str]:
    """Numbers of the size of a chip's rates: from 50 GB/s to 100 PFLOP/s and no plain power of ten, or ``989 * 1e12``.

    Powers of two are sizes, and a line that says ``not a chip`` is believed.
    """
    lines = source.splitlines()
    found = set()
    for node in ast.walk(ast.parse(source)):
        operands = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else (node,)
        values = [
            float(each.value)
            for each in operands
            if isinstance(each, ast.Constant) and type(each.value) in (int, float) and 0 < each.value < math.inf
        ]
        if len(values) != len(operands):
            continue
        scaled = len(values) == 1 or any(is_power_of_ten(value) and value >= 1e9 for value in values)
        value = math.prod(values)
        if scaled and 5e10 < value < 1e17 and not is_power_of_ten(value) and not math.log2(value).is_integer():
            line = getattr(node, "lineno", 1)
            if "not a chip" not in lines[line - 1]:
                found.add(f"line {line}: {value:g}")
    return sorted(found)


# The package's own __init__ loads its names lazily, from any layer; test_import_is_light covers it.
@pytest.mark.parametrize("path", [path for path in MODULES if name_of(path) != "__init__"], ids=name_of)
def test_every_module_has_a_layer_and_imports_downwards(path):
    name = name_of(path)
    assert layer_of(name), f"{name}: say in tests/layout/test_package.py to which layer it belongs"
    assert not wrong_imports(path.read_text(encoding="utf-8"), name, is_package=path.name == "__init__.py")


def test_a_climbing_import_is_found():
    assert wrong_imports("def f():\n    from .tables import table", "measurement")
    assert wrong_imports("from ..plots import style", "costs.work")
    assert wrong_imports("from rooflab import plots", "device")
    assert wrong_imports("from .kernels import softmax", "plots")
    assert wrong_imports("from ..tables import table", "speedrun.train")
    assert wrong_imports("from .commands import speedrun", "speedrun.train")
    assert not wrong_imports("from ..tables import table", "speedrun.commands")
    assert not wrong_imports("from .units import FORMATS", "measurement")
    assert wrong_imports("from ...tables import render_text", "speedrun.data.code")
    assert not wrong_imports("from ...tables import render_text", "speedrun.data.commands")
    assert not wrong_imports("from .work import Work", "costs", is_package=True)
    assert not wrong_imports("if TYPE_CHECKING:\n    from .plots import style", "costs")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_frameworks_wait_inside_functions(path):
    assert not heavy_imports(path.read_text(encoding="utf-8"), name_of(path))


def test_a_framework_at_the_top_is_found():
    assert heavy_imports("import torch", "measure")
    assert heavy_imports("try:\n    import jax.numpy as jnp\nexcept ImportError:\n    pass", "measure")
    assert heavy_imports("import matplotlib.pyplot as plt", "tables")
    assert not heavy_imports("import matplotlib.pyplot as plt", "plots.style")
    assert not heavy_imports("def f():\n    import torch", "measure")
    assert heavy_imports("import torch", "kernels.rows.triton_softmax")
    assert heavy_imports("import triton", "kernels.launching")
    assert not heavy_imports("import triton.language as tl", "kernels.rows.triton_softmax")


@pytest.mark.parametrize("path", [*MODULES, *TOOLS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_modules_and_functions_are_short(path):
    source = path.read_text(encoding="utf-8")
    too_long = long_functions(source)
    assert len(source.splitlines()) <= MODULE_LINES, f"at most {MODULE_LINES} lines a module"
    assert not too_long, f"at most {FUNCTION_LINES} lines a function, its docstring aside"


def test_a_long_function_is_found():
    assert long_functions("def f():\n" + "    x = 1\n" * FUNCTION_LINES)
    assert not long_functions("def f():\n" + "    x = 1\n" * (FUNCTION_LINES - 1))
    assert not long_functions('def f():\n    """A\n' + "\n" * FUNCTION_LINES + '    """\n')


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_names_are_few(path):
    """Of a package's ``__init__`` no number is asked: it gathers the names of its modules."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lists = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]
    if path.name == "__main__.py":
        return
    assert lists, "a module says with __all__ what it offers"
    if path.name != "__init__.py":
        assert len(ast.literal_eval(lists[0])) <= NAMES


@pytest.mark.parametrize("path", [path for path in MODULES if path.name != "__main__.py"], ids=name_of)
def test_every_module_explains_itself_with_a_doctest(path):
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert ">>> " in told, "the module's docstring asks its question and answers it with a doctest"


# Labs are left out: their fake machines have rates of no chip.
SCRIPTS = [*MODULES, *sorted((ROOT / "chapters").rglob("*.py"))]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_chips_are_described_in_the_chip_table_only(path):
    found = chip_constants(path.read_text(encoding="utf-8"))
    assert not found, "rates belong into chips.toml (a number that is none: say `not a chip` on its line)"


def test_a_chip_constant_is_found():
    assert chip_constants("PEAK = 989e12")
    assert chip_constants("peak = 989.4 * 1e12")
    assert chip_constants("bandwidth = 3.35e12")
    assert not chip_constants("TERA = 1e12; n = 2**40; m = 1 << 36; k = 4096 * 4096; e = 1e-12")
    assert not chip_constants("x = 3.2e12  # not a chip: neurons")


def best_time(code: str, tries: int = 7) -> float:
    """The least time of a fresh interpreter that runs ``code``: other processes can only add to it."""

    def once() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    return min(once() for _ in range(tries))


def test_import_is_light():
    path = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
    loaded = subprocess.run(
        [sys.executable, "-c", path + "import rooflab; print(*sys.modules)"], check=True, text=True, capture_output=True
    ).stdout.split()
    heavy = {"torch", "jax", "jaxlib", "triton", "matplotlib", "IPython", "ipywidgets", "numpy"}
    assert "rooflab" in loaded
    assert not heavy & set(loaded)
    assert best_time(path + "import rooflab") - best_time(path) < IMPORT_S


def test_rules_look_at_something():
    assert len(MODULES) > 10
    assert statistics.median(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES) > 20
