"""What tests of kernels share: where they run, and how near to float64 a result has to be."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("triton", reason="needs Triton")

from rooflab import kernels  # noqa: E402  chooses the interpreter where there is no GPU
from rooflab.tolerances import tolerance  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
counts = pytest.mark.skipif(DEVICE != "cpu", reason="counts in the interpreter, which takes tensors on the CPU")
SHORT = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def random(*shape, dtype=torch.float32, grad=False, seed=0, scale=1.0):
    """Normal numbers on the device."""
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(*shape, generator=generator) * scale).to(dtype).to(DEVICE)
    return made.requires_grad_(grad)


def near(found, right, *, length, dtype=None, what="", terms=0.0):
    """Compare with a float64 reference; NaN and infinity have to stand in the same places.

    `terms` is the size of what is added up, where it may cancel.
    """
    assert found.shape == right.shape, what
    allowed = tolerance(SHORT[dtype or found.dtype], length)
    right, found = right.detach().double(), found.detach().double()
    finite = right[right.isfinite()]
    scale = max(terms, float(finite.abs().max()) if finite.numel() else 0.0)
    torch.testing.assert_close(
        found,
        right,
        rtol=allowed.rtol,
        atol=allowed.atol + allowed.rtol * scale,
        equal_nan=True,
        msg=lambda text: f"{what} {text}",
    )


def gradients(function, inputs, dy):
    """A function's result and its gradients with regard to the inputs."""
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    y = function(*leaves)
    return y, torch.autograd.grad(y, leaves, dy.to(y.dtype))


def agree(mine, reference, inputs, *, length, seed=9):
    """Compare a function and its gradients with a reference in float64."""
    right_inputs = [each.detach().double() for each in inputs]
    dy = random(*reference(*right_inputs).shape, seed=seed)
    y, found = gradients(mine, inputs, dy)
    right, wanted = gradients(reference, right_inputs, dy.to(inputs[0].dtype).double())
    near(y, right, length=length, what="result")
    # The terms of a gradient are as large as those of the derivative, about y / x, times dy.
    terms = float(dy.abs().max() * right.detach().abs().max() / right_inputs[0].abs().max())
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.dtype == inputs[number].dtype
        near(one, other, length=length, what=f"gradient {number}", terms=terms)


def row_functions(name, cols, dtype=torch.float32):
    """Of a kernel over rows our function, the reference and the parameters."""
    functional = torch.nn.functional
    weight, bias = random(cols, dtype=dtype, seed=1), random(cols, dtype=dtype, seed=2)
    if name == "softmax":
        return kernels.softmax, lambda x: x.softmax(-1), []
    if name == "rms_norm":
        return kernels.rms_norm, lambda x, w: functional.rms_norm(x, (cols,), w, 1e-6), [weight]
    return kernels.layer_norm, lambda x, w, b: functional.layer_norm(x, (cols,), w, b, 1e-5), [weight, bias]
