"""The fp8 product for Hopper, its partitions run as threads: results, scales, and that no barrier waits for ever."""

import numpy as np
import pytest

from rooflab.tolerances import tolerance

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab.kernels.products import triton_scaled_hopper as hopper

from . import gluon_threads as threads
from .compiling import told_elsewhere

FP8 = pytest.importorskip("ml_dtypes", reason="needs fp8 in NumPy").float8_e4m3fn


def blocks(n):
    return -(-n // 128)


def product(kind, m, n, k, programs, *, group=2, stages=3, dtype=np.float16, by_rows=False):
    """Run the kernel; returns C, and the right one in float64."""
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(size).astype(FP8) for size in ((m, k), (n, k)))
    shapes = {"tensor": ((1,), (1,)), "row": ((m,), (n,)), "block": ((m, blocks(k)), (blocks(k), blocks(n)))}[kind]
    sa, sb = (np.abs(generator.standard_normal(shape)).astype(np.float32) + np.float32(0.5) for shape in shapes)
    right = a.astype(np.float64), b.astype(np.float64).T
    wide_a, wide_b = sa[..., None] if kind == "row" else sa, sb
    if kind == "block":
        wide_a = sa.repeat(128, 1)[:, :k]
        wide_b = sb.repeat(128, 0)[:k].repeat(128, 1)[:, :n]
    right = (right[0] * wide_a) @ (right[1] * wide_b)
    c = np.full((m, n), np.nan, dtype)
    # A's scales lie row by row, or block by block.
    steps = (0, 0, 0, 0) if kind != "block" else (blocks(k) if by_rows else 1, 1 if by_rows else m, blocks(n), 1)
    stored = sa.ravel() if by_rows or kind != "block" else sa.T.ravel()
    matrices = threads.Matrix(c, 64, 128), threads.Matrix(a, 64, 128), threads.Matrix(b, 128, 128)
    threads.run_grid(
        "scaled_matmul_hopper_kernel", hopper, programs, *matrices, threads.Pointer(stored),
        threads.Pointer(sb.ravel()), m, n, k, *steps, SCALES=kind, GROUP=group, STAGES=stages,
    )  # fmt: skip
    return c, right


@pytest.mark.parametrize("kind", ["tensor", "row", "block"])
@pytest.mark.parametrize(
    ("m", "n", "k", "programs", "stages"),
    [(64, 128, 128, 1, 2), (128, 256, 512, 1, 3), (300, 200, 400, 3, 5), (1, 1, 1, 1, 2), (500, 390, 300, 5, 4)],
)
def test_results_agree_with_float64(m, n, k, programs, stages, kind):
    c, right = product(kind, m, n, k, programs, stages=stages)
    allowed = tolerance("fp16", k, scale=float(np.abs(right).max()))
    np.testing.assert_allclose(c.astype(np.float64), right, rtol=allowed.rtol, atol=allowed.atol)


@pytest.mark.parametrize("by_rows", [False, True], ids=["block by block", "row by row"])
def test_scales_of_blocks_of_any_strides_and_results_in_fp32(by_rows):
    c, right = product("block", 200, 300, 700, 2, dtype=np.float32, by_rows=by_rows)
    allowed = tolerance("fp32", 700, scale=float(np.abs(right).max()))
    np.testing.assert_allclose(c, right, rtol=allowed.rtol, atol=allowed.atol)


CODE = """
import json
from rooflab.kernels.catalogue import find_build
from rooflab.kernels.compiled import compile_for
told = []
for name in ("scaled_matmul_hopper", "block_scaled_matmul_hopper"):
    sass = compile_for(find_build(name), "sm90").text["sass"]
    seen = ("QGMMA", "DEPBAR.LE gsb0, 0x1", "DEPBAR.LE gsb0, 0x0", "FFMA", "FADD")
    told += [each for line in sass.splitlines() for each in seen if each in line]
print(json.dumps(told))
"""


def test_sums_are_added_while_products_run(tmp_path):
    """In the machine code: products of two blocks, a wait for the first, its additions, a wait for the second."""
    order = told_elsewhere(CODE, tmp_path)
    assert order.count("QGMMA") == 2 * 2 * 8  # of two kernels, two groups of warps each: four for a block of 128 terms
    for start in [place for place, each in enumerate(order) if each == "QGMMA"][::8]:
        assert order[start : start + 9] == ["QGMMA"] * 8 + ["DEPBAR.LE gsb0, 0x1"]
        meanwhile = order[start + 9 :].index("DEPBAR.LE gsb0, 0x0")
        assert meanwhile >= 64  # the additions of a block in one thread
