"""Is a student's kernel nothing but Triton, so that what it reads and writes can be counted by a process that runs it?

A count is worth points only if the code that is counted cannot touch whoever counts. So the kernel, and what it
calls, is taken out of the student's cell by its text, and everything in it is compared with a list of what a kernel may
contain: arithmetic, control flow, its own names, and the functions of `triton.language`. No imports, no other
attributes, no names from outside but numbers and further kernels of the same cell.

>>> text = "@triton.jit\\ndef f(x, N: tl.constexpr):\\n    i = tl.arange(0, N)\\n    tl.store(x + i, tl.load(x + i))"
>>> pure_kernel(text, "f").splitlines()[:2]
['import triton', 'import triton.language as tl']
>>> pure_kernel(text.replace("tl.load", "open"), "f")
Traceback (most recent call last):
rooflab.grading.puretriton.NotPure: line 4 of the cell: a kernel cannot use 'open'; it may use ...
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["NotPure", "pure_kernel"]

_FUNCTIONS_TEXT = """
    abs advance and_ arange argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max
    atomic_min atomic_or atomic_xchg atomic_xor assume bfloat16 bitonic_merge block_type broadcast broadcast_to
    cast cat cdiv ceil clamp constexpr cos cumprod cumsum debug_barrier device_assert dot dot_scaled dtype erf
    exp exp2 expand_dims fdiv flip float16 float32 float64 float8e4b15 float8e4nv float8e5 floor fma full gather
    histogram int1 int16 int32 int64 int8 interleave join load log log2 make_block_ptr make_tensor_descriptor
    load_tensor_descriptor store_tensor_descriptor max max_constancy max_contiguous maximum min minimum mul
    multiple_of num_programs permute philox pointer_type program_id rand rand4x randint randint4x randn randn4x
    range ravel reduce reshape rsqrt sigmoid sin softmax sort split sqrt sqrt_rn static_assert static_range
    store sum swizzle2d tensor topk trans umulhi uint16 uint32 uint64 uint8 uint_to_uniform_float view void
    where xor_sum zeros zeros_like div_rn pi32_t
"""
_FUNCTIONS = frozenset(_FUNCTIONS_TEXT.split())
_METHODS_TEXT = """
    T abs argmax argmin broadcast_to cast cdiv ceil cos cumprod cumsum dtype element_ty erf exp exp2 expand_dims
    flip floor load log log2 logical_and logical_or max min numel permute primitive_bitwidth ravel reshape rsqrt
    shape sigmoid sin softmax sort split sqrt store sum to trans view xor_sum
"""
_METHODS = frozenset(_METHODS_TEXT.split())
_BUILTINS = frozenset({"range", "min", "max", "abs", "len", "float", "int", "bool", "tl"})
_STATEMENTS = (
    ast.FunctionDef, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Expr,
    ast.Pass, ast.Break, ast.Continue, ast.Assert,
)  # fmt: skip
_EXPRESSIONS = (
    ast.arguments, ast.arg, ast.keyword, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call,
    ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.List, ast.Tuple, ast.expr_context, ast.boolop,
    ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
_NODES = _STATEMENTS + _EXPRESSIONS
_MOST_NODES = 20_000


class NotPure(ValueError):
    """A kernel that is more than Triton; the message is a sentence for the student."""


def pure_kernel(cell: str, name: str) -> str:
    """Return a module with nothing but the kernel, the kernels that it calls, and numbers that they name.

    Args:
        cell: the student's cell.
        name: of the kernel, a function with the decorator ``@triton.jit``.

    Raises:
        NotPure: there is no such kernel, or something in it is not allowed.
    """
    try:
        tree = ast.parse("\n".join("" if line.lstrip()[:1] in ("%", "!") else line for line in cell.splitlines()))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotPure(f"the cell of {name!r} is no Python ({type(error).__name__})") from None
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)}
    numbers = dict(_numbers(tree))
    if name not in kernels:
        raise NotPure(f"the cell defines no kernel {name!r}: expected a function with the decorator @triton.jit")
    needed, queue = dict[str, ast.AST](), [name]
    while queue:
        wanted = queue.pop()
        if wanted not in needed:
            needed[wanted] = kernels[wanted] if wanted in kernels else numbers[wanted]
            if wanted in kernels:
                queue += _check(kernels[wanted], set(kernels), set(numbers))
    body = [node for node in tree.body if any(node is kept for kept in needed.values())]
    imports = ["import triton", "import triton.language as tl", "from triton import jit"]
    return "\n".join([*imports, *map(ast.unparse, body)]) + "\n"


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator) in ("triton.jit", "jit") for decorator in node.decorator_list)


def _numbers(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Assignments of a number to a name, also as `tl.constexpr`."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = node.value
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.constexpr" and len(value.args) == 1:
                value = value if value.keywords else value.args[0]  # keywords would be evaluated with it
            if isinstance(value, ast.UnaryOp):
                value = value.operand
            plain = isinstance(value, ast.Constant) and isinstance(value.value, bool | int | float)
            noted = isinstance(node, ast.Assign) or ast.unparse(node.annotation) == "tl.constexpr"
            if plain and noted and len(targets) == 1 and isinstance(targets[0], ast.Name):
                yield targets[0].id, node


def _check(kernel: ast.FunctionDef, kernels: set[str], numbers: set[str]) -> list[str]:
    """Refuse what a kernel may not contain; returns the other kernels and the numbers that it uses."""
    if len(kernel.decorator_list) != 1:
        raise NotPure(f"the kernel {kernel.name!r} has other decorators than @triton.jit; leave them out to be counted")
    noted = kernel.returns is None or ast.unparse(kernel.returns) in ("None", "tl.tensor", "tl.constexpr")
    if not noted or getattr(kernel, "type_params", None):  # both are evaluated when the kernel is defined
        raise NotPure(f"the kernel {kernel.name!r} says in code what it returns; leave that out to be counted")
    inside = [node for part in (kernel.args, *kernel.body) for node in ast.walk(part)]
    if len(inside) > _MOST_NODES:
        raise NotPure(f"the kernel {kernel.name!r} is too long to be counted")
    own = {node.arg for node in inside if isinstance(node, ast.arg)}
    own |= {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if taken := sorted(own & ({"tl"} | kernels)):
        raise NotPure(f"the kernel {kernel.name!r} gives the name {taken[0]!r} another meaning")
    used = []
    for node in inside:
        fault = _fault(node, own, kernels, numbers)
        if fault:
            place = f"line {getattr(node, 'lineno', kernel.lineno)} of the cell"
            allowed = "it may use triton.language as tl, its own names, numbers, and kernels of the same cell"
            raise NotPure(f"{place}: a kernel cannot use {fault}; {allowed}")
        if isinstance(node, ast.Name) and node.id not in own and node.id in kernels | numbers:
            used.append(node.id)
    return used


def _fault(node: ast.AST, own: set[str], kernels: set[str], numbers: set[str]) -> str:
    """What is wrong with a node, empty where nothing is."""
    if not isinstance(node, _NODES) or isinstance(node, ast.FunctionDef):
        return f"{type(node).__name__} here"
    if isinstance(node, ast.Name):
        known = node.id in own or node.id in _BUILTINS or node.id in kernels or node.id in numbers
        return "" if known and not node.id.startswith("__") else repr(node.id)
    if isinstance(node, ast.Attribute):
        base = ast.unparse(node.value)
        known = node.attr in (_FUNCTIONS if base in ("tl", "tl.math") else _METHODS)
        if base == "tl" and node.attr == "math":
            known = True
        return "" if known and isinstance(node.ctx, ast.Load) else f"{base[:40]}.{node.attr}"
    if isinstance(node, ast.arg):
        noted = node.annotation is None or ast.unparse(node.annotation) in ("tl.constexpr", "tl.tensor")
        return "" if noted else f"the annotation of {node.arg!r}"
    if isinstance(node, ast.keyword) and node.arg is None:
        return "**"
    if isinstance(node, ast.Constant) and not isinstance(node.value, bool | int | float | str | None | type(...)):
        return repr(node.value)[:40]
    return ""
