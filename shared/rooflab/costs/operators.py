"""How many FLOPs and bytes does one operator take at the least?

`s` stands for the bytes of one element. Every input is read once and every output written once, so the counts
are lower bounds: a cache too small to keep an operand between its uses makes the real traffic larger.

>>> matmul(1024, 1024, 1024, "bf16").intensity   # 2n^3 / 3sn^2 = n/3
341.3333333333333
"""

from __future__ import annotations

from dataclasses import replace

from rooflab.units import bytes_of

from .work import Work, check_counts, check_flag, check_number

__all__ = [
    "axpy",
    "copy",
    "elementwise",
    "gelu",
    "layer_norm",
    "linear",
    "matmul",
    "matvec",
    "quantized_linear",
    "reduction",
    "rms_norm",
    "softmax",
]


def matmul(m: int, n: int, k: int, dtype: str, *, batch: int = 1) -> Work:
    """Multiply `batch` pairs of matrices, (m, k) by (k, n), in one kernel.

    FLOPs: each of mn outputs is a sum of k products, k multiplies and k adds: 2mnk.
    Bytes: s(mk + kn) read, smn written.
    The first add of each sum could be saved; nobody counts that.

    Args:
        m: rows of the result.
        n: columns of the result.
        k: length of the sums.
        dtype: format of operands and result.
        batch: independent products, each with its own operands.
    """
    m, n, k, batch = check_counts(m=m, n=n, k=k, batch=batch)
    s = bytes_of(dtype)
    return Work(2 * batch * m * n * k, batch * s * (m * k + k * n), batch * s * m * n, dtype=dtype, name="matmul")


def linear(rows: int, inputs: int, outputs: int, dtype: str, *, bias: bool = True) -> Work:
    """A layer x W + b on a (rows, inputs) array, the bias added in the product's kernel.

    FLOPs: 2 rows inputs outputs, and rows outputs for the bias.
    Bytes: s(rows inputs + inputs outputs + outputs) read, s rows outputs written.
    """
    rows, inputs, outputs = check_counts(rows=rows, inputs=inputs, outputs=outputs)
    bias = check_flag("bias", bias)
    product = matmul(rows, outputs, inputs, dtype)
    return replace(
        product,
        flops=product.flops + rows * outputs * bias,
        bytes_read=product.bytes_read + bytes_of(dtype) * outputs * bias,
        name="linear",
    )


def matvec(m: int, n: int, dtype: str) -> Work:
    """Multiply an (m, n) matrix by a vector of n: a matrix product with one column.

    FLOPs: 2mn. Bytes: s(mn + n) read, sm written; the intensity is below 2/s whatever the size.
    """
    m, n = check_counts(m=m, n=n)
    work = matmul(m, 1, n, dtype)
    return replace(work, name="matvec")


def quantized_linear(rows: int, inputs: int, outputs: int, dtype: str, *, weights: str, group: int = 0) -> Work:
    """A layer x W on a (rows, inputs) array, its weights in fewer bits than x, with scales.

    FLOPs: 2 rows inputs outputs. Bytes: those of the weights and their scales and s rows inputs read, s rows outputs
    written.

    Args:
        rows: of x.
        inputs: of the layer.
        outputs: of the layer.
        dtype: format of x, of the result and of the scales.
        weights: format of the weights, such as "int4".
        group: of weights of one output that share a scale; 0: all of them.
    """
    rows, inputs, outputs = check_counts(rows=rows, inputs=inputs, outputs=outputs)
    s, scales = bytes_of(dtype), outputs * (-(-inputs // group) if group else 1)
    read = bytes_of(weights) * inputs * outputs + s * (scales + rows * inputs)
    return Work(2 * rows * inputs * outputs, read, s * rows * outputs, dtype=dtype, name="quantized_linear")


def elementwise(
    n: int,
    *,
    reads: int = 1,
    writes: int = 1,
    dtype: str = "fp32",
    flops_per_element: float = 1,
    arithmetic: str | None = None,
) -> Work:
    """Apply one function to each of n elements in one kernel, however many operations it fuses.

    FLOPs: n f, with f = `flops_per_element`. Bytes: s n per array read and per array written.

    Args:
        n: elements of each array.
        reads: arrays read.
        writes: arrays written.
        dtype: format in memory.
        flops_per_element: operations between load and store.
        arithmetic: the format whose rate bounds the arithmetic, where it is not `dtype` (GPUs load bf16 and
            compute elementwise in fp32).
    """
    (n,) = check_counts(n=n)
    reads, writes = check_counts(least=0, reads=reads, writes=writes)
    flops_per_element = check_number("flops_per_element", flops_per_element)
    s = bytes_of(dtype)
    return Work(flops_per_element * n, s * n * reads, s * n * writes, dtype=arithmetic or dtype, name="elementwise")


def axpy(n: int, dtype: str) -> Work:
    """y = a x + y over n elements (BLAS level 1).

    FLOPs: 2n. Bytes: 2sn read (x and y), sn written; intensity 2/(3s), 1/6 in fp32.
    """
    work = elementwise(n, reads=2, dtype=dtype, flops_per_element=2)
    return replace(work, name="axpy")


def copy(n: int, dtype: str) -> Work:
    """Copy n elements. FLOPs: 0. Bytes: sn read, sn written (a rate of copying counts both)."""
    (n,) = check_counts(n=n)
    s = bytes_of(dtype)
    return Work(0, s * n, s * n, dtype=dtype, name="copy")


def reduction(n: int, dtype: str, *, outputs: int = 1) -> Work:
    """Sum n elements into `outputs` sums (1 for a total, the number of rows for sums over rows).

    FLOPs: n - outputs additions. Bytes: sn read, s outputs written.

    Raises:
        ValueError: if there are more outputs than elements.
    """
    n, outputs = check_counts(n=n, outputs=outputs)
    if outputs > n:
        raise ValueError(f"expected at most as many outputs as elements ({n}); found {outputs}")
    s = bytes_of(dtype)
    return Work(n - outputs, s * n, s * outputs, dtype=dtype, name="reduction")


def softmax(rows: int, cols: int, dtype: str) -> Work:
    """Softmax over each row of a (rows, cols) array in one kernel.

    FLOPs: 5 an element: compare for the maximum, subtract it, exponentiate (counted as one), add to the sum, divide.
    Bytes: sn read and sn written, n = rows cols, as long as a row stays on the chip between its passes.
    """
    return _rows(rows, cols, dtype, name="softmax", flops=5, vectors=0)


def layer_norm(rows: int, cols: int, dtype: str) -> Work:
    """Layer normalization of each row, with weight and bias, in one kernel.

    FLOPs: 7 an element: add for the mean, subtract it, square, add for the variance, scale by 1/std, weight, bias.
    The few operations a row (divisions, square root) are left out.
    Bytes: s(n + 2 cols) read (input, weight, bias), sn written, n = rows cols. Source: Ba et al. 2016.
    """
    return _rows(rows, cols, dtype, name="layer_norm", flops=7, vectors=2)


def rms_norm(rows: int, cols: int, dtype: str) -> Work:
    """Root-mean-square normalization of each row, with weight, in one kernel.

    FLOPs: 4 an element: square, add, scale by 1/rms, weight. Bytes: s(n + cols) read, sn written, n = rows cols.
    Source: Zhang and Sennrich 2019.
    """
    return _rows(rows, cols, dtype, name="rms_norm", flops=4, vectors=1)


def gelu(n: int, dtype: str, *, form: str = "erf") -> Work:
    """Gaussian error linear unit of n elements in one kernel. Source: Hendrycks and Gimpel 2016.

    FLOPs: form "erf", 0.5 x (1 + erf(x c)): 5 (multiply, erf, add, two multiplies);
    form "tanh", 0.5 x (1 + tanh(x (c + d x x))): 8. erf and tanh count as one, like an exponential.
    Bytes: sn read, sn written.

    Raises:
        ValueError: for another form.
    """
    if form not in ("erf", "tanh"):
        raise ValueError(f"expected form 'erf' or 'tanh'; found {form!r}")
    work = elementwise(n, dtype=dtype, flops_per_element=5 if form == "erf" else 8)
    return replace(work, name="gelu")


def _rows(rows: int, cols: int, dtype: str, *, name: str, flops: int, vectors: int) -> Work:
    """A kernel that reads rows and `vectors` parameters of one row's length, and writes rows."""
    rows, cols = check_counts(rows=rows, cols=cols)
    s, n = bytes_of(dtype), rows * cols
    return Work(flops * n, s * (n + vectors * cols), s * n, dtype=dtype, name=name)
