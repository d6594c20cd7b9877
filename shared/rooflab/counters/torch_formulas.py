"""How many FLOPs do recurrent layers, norms, pools, losses, transforms and factorizations of PyTorch need?

Each formula takes the arguments by the names of the operator's schema, and the result. What has no formula here and is
neither elementwise nor a move is not counted, which a note says.

>>> has_formula("mkldnn_rnn_layer"), has_formula("linalg_svd"), moves("constant_pad_nd"), moves("topk")
(True, False, True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2, prod
from typing import Any

__all__ = ["formula_of", "has_formula", "moves"]

# Moving, selecting, sorting into place or making values is no arithmetic.
_MOVES = frozenset({
    "zeros", "ones", "full", "eye", "arange", "linspace", "logspace", "randperm", "cat", "stack", "gather", "index",
    "index_select", "_unsafe_index", "embedding", "take", "take_along_dim", "masked_select", "repeat",
    "repeat_interleave", "roll", "flip", "rot90", "tril", "triu", "tril_indices", "triu_indices", "im2col",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "scatter", "index_copy", "index_fill", "masked_scatter",
    "index_put", "_index_put_impl", "_unsafe_index_put",
    "put", "set_data", "nonzero", "nonzero_static", "normal", "uniform", "random", "exponential", "geometric",
    "log_normal", "cauchy", "split", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter",
    "slice_backward", "select_backward", "diagonal_backward", "nll_loss_backward", "block_diag", "complex", "set",
    "_to_sparse", "_to_sparse_csr", "_to_dense", "values", "coalesce", "_coalesce", "unsafe_split", "resize", "lift",
    "_pin_memory", "_reshape_copy", "_chunk_cat", "diag_embed", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "max_unpool2d", "max_unpool3d", "one_hot", "scalar_tensor", "constant_pad_nd",
    "_sparse_coo_tensor_with_dims_and_tensors", "multinomial", "bernoulli", "lift_fresh",
    "_local_scalar_dense", "_pack_padded_sequence",
    "_nested_tensor_from_tensor_list", "copy", "clone", "_to_copy", "fill", "zero",
})  # fmt: skip
_MAKE = ("new_", "rand", "empty", "reflection_pad", "replication_pad")

Bound = Mapping[str, Any]


def moves(name: str) -> bool:
    """Whether an operation only moves, selects or makes values."""
    name = name.removesuffix("_").removesuffix(".out")
    made = name.startswith(_MAKE) and not name.endswith("_backward")
    return name in _MOVES or made or name.endswith(("_like", "_copy"))


def has_formula(name: str) -> bool:
    """Whether an operation (without namespace and overload) has a formula of its own."""
    return name.removesuffix("_") in _FORMULAS


def formula_of(name: str, given: Bound, out: Any) -> float | None:
    """FLOPs of one call, None if this way of calling has no formula."""
    return _FORMULAS[name.removesuffix("_")](given, out)


def _first(given: Bound, out: Any) -> Any:
    return out[0] if isinstance(out, list | tuple) else out


def _each(flops: float, of: str = "") -> Callable[[Bound, Any], float]:
    """So many FLOPs per element of an argument, or of the (first) result."""
    return lambda given, out: flops * (given[of] if of else _first(given, out)).numel()


def _batch_norm(given: Bound, out: Any) -> float:
    """7 an element, as layer norm; 4 where mean and variance are given; 6 a channel to keep running ones."""
    x, training = given["input"], given.get("training", True)
    running = given.get("running_mean") is not None
    return x.numel() * (7 if training else 4) + (6 * x.shape[1] if training and running else 0)


def _batch_norm_backward(given: Bound, out: Any) -> float:
    return given["input"].numel() * (14 if given.get("train", True) else 7)


def _recurrent(given: Bound, out: Any) -> float:
    """Products with every matrix of weights at each step, biases, and the gates' arithmetic."""
    x = given["input"]
    steps = x.numel() // x.shape[-1]
    if "weight" in given:
        weights, layers = given["weight"], given["num_layers"] * (2 if given["bidirectional"] else 1)
    else:  # oneDNN: one layer in one direction
        weights, layers = [w for key, w in given.items() if key.startswith("weight")], 1
    products = sum(2 * steps * w.numel() for w in weights if w.dim() == 2)
    biases = sum(steps * w.numel() for w in weights if w.dim() == 1 and given.get("has_biases", True))
    gates = {2: 9, 3: 9}.get(
        given["mode"], 2
    )  # sigmoids, tanhs, products and sums of a cell; 1 and a sum of a plain one
    return products + biases + layers * steps * given["hidden_size"] * gates


def _recurrent_backward(given: Bound, out: Any) -> float:
    return 2 * _recurrent(given, out)  # gradients of the operands and of the weights


def _lstm_cell(given: Bound, out: Any) -> float:
    sums = 1 if given.get("input_bias") is None else 3
    return sums * given["input_gates"].numel() + 9 * given["cx"].numel()


def _pool(dims: int) -> Callable[[Bound, Any], float]:
    """One per element of each window: k - 1 sums and a division, or comparisons."""

    def flops(given: Bound, out: Any) -> float:
        size = list(given["kernel_size"])
        window = size[0] ** dims if len(size) == 1 else prod(size)
        result = given.get("grad_output")
        return window * (_first(given, out) if result is None else result).numel()

    return flops


def _adaptive(given: Bound, out: Any) -> float:
    """One per element of each window, of which output i covers floor(i n / m) to ceil((i + 1) n / m)."""
    x, result = given["self"], given.get("grad_output")
    result = _first(given, out) if result is None else result
    sizes = list(given.get("output_size") or result.shape[-2:])
    leading = x.numel() // max(1, prod(x.shape[-len(sizes) :]))
    windows = 1
    for length, pieces in zip(x.shape[-len(sizes) :], sizes, strict=True):
        windows *= sum(-(-(i + 1) * length // pieces) - i * length // pieces for i in range(pieces))
    return leading * windows


def _addbmm(given: Bound, out: Any) -> float:
    b, m, k = given["batch1"].shape
    return 2 * b * m * k * given["batch2"].shape[2] + (out.numel() if given.get("beta", 1) else 0)


def _euclidean(given: Bound, out: Any) -> float:
    """By one product of d + 2 columns, with squared lengths before it, clamp and root after it."""
    x1, x2 = given["x1"], given["x2"]
    return 2 * out.numel() * (x1.shape[-1] + 2) + 2 * out.numel() + 2 * (x1.numel() + x2.numel())


def _cdist(given: Bound, out: Any) -> float:
    p, columns = given["p"], given["x1"].shape[-1]
    if p == 2:
        return out.numel() * (3 * columns + 1)  # subtract, square, add; root
    return out.numel() * (3 * columns if p in (0, 1, float("inf")) else 4 * columns + 1)


def _trilinear(given: Bound, out: Any) -> float:
    """Two products and a sum for each of the combined elements."""
    import torch

    shapes = []
    for number in (1, 2, 3):
        shape = list(given[f"i{number}"].shape)
        for place in sorted(given[f"expand{number}"]):
            shape.insert(place, 1)
        shapes.append(shape)
    return 3 * prod(torch.broadcast_shapes(*shapes))


def _sparse_product(given: Bound, out: Any) -> float | None:
    """2 per stored element of the sparse operand and column (or row) of the dense one."""
    import torch

    added = "mat1" in given
    left = given["mat1"] if added else given.get("sparse", given.get("self"))
    right = next((given[key] for key in ("mat2", "dense", "vec", "other") if key in given), None)
    if left is None or right is None or (left.layout == torch.strided) == (right.layout == torch.strided):
        return None
    if right.layout == torch.strided:
        flops = 2 * left._nnz() * (right.shape[-1] if right.dim() > 1 else 1)
    else:
        flops = 2 * right._nnz() * left.shape[-2]
    return flops + (out.numel() if added and given.get("beta", 1) else 0)


def _fft(real: bool) -> Callable[[Bound, Any], float]:
    """5 n log2 n for n complex values, as the FFTW project counts; half of it where one side is real."""

    def flops(given: Bound, out: Any) -> float:
        whole = out if given.get("last_dim_size") is not None else given["self"]
        length = prod(whole.shape[d] for d in given["dim"])
        return (2.5 if real else 5) * whole.numel() * log2(max(length, 1))

    return flops


def _of_matrix(cubes: float, *, columns: str = "", matrix: str = "A") -> Callable[[Bound, Any], float]:
    """Leading term of a factorization of n by n matrices: c n^3, and 2 n^2 for each column that is solved for."""

    def flops(given: Bound, out: Any) -> float:
        a = given.get(matrix, given.get("self"))
        n = a.shape[-1]
        solved = 2 * n * given[columns].numel() if columns else 0
        return cubes * n * a.numel() + solved

    return flops


def _triangular(given: Bound, out: Any) -> float:
    return given["A"].shape[-1] * out.numel()


def _nll(given: Bound, out: Any) -> float:
    return 2 * given["target"].numel()  # weight, sum


_FORMULAS: dict[str, Callable[[Bound, Any], float | None]] = {
    **dict.fromkeys(
        ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit",
         "_native_batch_norm_legit_functional", "_batch_norm_with_update", "_batch_norm_with_update_functional"),
        _batch_norm,
    ),
    **dict.fromkeys(
        ("native_batch_norm_backward", "cudnn_batch_norm_backward", "miopen_batch_norm_backward",
         "batch_norm_backward"),
        _batch_norm_backward,
    ),
    **dict.fromkeys(("_native_batch_norm_legit_no_training", "_batch_norm_no_update"), _each(4, "input")),
    "native_group_norm": _each(7, "input"), "native_group_norm_backward": _each(14, "input"),
    "mkldnn_rnn_layer": _recurrent, "mkldnn_rnn_layer_backward": _recurrent_backward, "_cudnn_rnn": _recurrent,
    "_cudnn_rnn_backward": _recurrent_backward, "_thnn_fused_lstm_cell": _lstm_cell,
    "avg_pool2d": _pool(2), "avg_pool3d": _pool(3), "avg_pool2d_backward": _pool(2), "avg_pool3d_backward": _pool(3),
    "max_pool2d_with_indices": _pool(2), "max_pool3d_with_indices": _pool(3),
    "max_pool2d_with_indices_backward": _each(1, "grad_output"),
    "max_pool3d_with_indices_backward": _each(1, "grad_output"),
    "adaptive_max_pool2d_backward": _each(1, "grad_output"), "adaptive_max_pool3d_backward": _each(1, "grad_output"),
    **dict.fromkeys(
        ("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d"), _adaptive
    ),
    "_adaptive_avg_pool2d_backward": _adaptive,
    "addbmm": _addbmm, "_euclidean_dist": _euclidean, "_cdist_forward": _cdist, "_trilinear": _trilinear,
    **dict.fromkeys(("_sparse_addmm", "_sparse_mm", "_sparse_sparse_matmul"), _sparse_product),
    "_fft_c2c": _fft(False), "_fft_r2c": _fft(True), "_fft_c2r": _fft(True),
    "linalg_cholesky_ex": _of_matrix(1 / 3, matrix="self"), "linalg_inv_ex": _of_matrix(2),
    "_linalg_det": _of_matrix(2 / 3), "_linalg_slogdet": _of_matrix(2 / 3), "linalg_lu_factor_ex": _of_matrix(2 / 3),
    "_linalg_solve_ex": _of_matrix(2 / 3, columns="B"), "linalg_solve_triangular": _triangular,
    # sigmoid, multiply; add, two comparisons, multiply, divide
    "glu": _each(2), "glu_backward": _each(3), "hardswish": _each(5), "hardswish_backward": _each(5, "grad_output"),
    # 1 - y, product, log-sigmoid in 6, subtraction, mean; 1 - y, 1 - p, two logarithms and products, sum, mean
    "binary_cross_entropy_with_logits": _each(10, "self"), "binary_cross_entropy": _each(8, "self"),
    "binary_cross_entropy_backward": _each(6, "self"),
    "smooth_l1_loss": _each(6, "self"), "huber_loss": _each(6, "self"), "smooth_l1_loss_backward": _each(4, "self"),
    "huber_loss_backward": _each(4, "self"), "mse_loss_backward": _each(3, "self"),
    "nll_loss_forward": _nll, "nll_loss2d_forward": _nll,
    "index_add": _each(1, "source"), "scatter_add": _each(1, "index"), "scatter_reduce": _each(1, "index"),
    "embedding_dense_backward": _each(1, "grad_output"),
    "log_sigmoid_forward": _each(6, "self"),
    "native_dropout": lambda given, out: 2 * given["input"].numel() * (given["train"] is not False),
    "trace": lambda given, out: max(given["self"].shape[0] - 1, 0),
}  # fmt: skip
