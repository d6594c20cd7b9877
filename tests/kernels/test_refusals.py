"""What a kernel cannot do is said in one sentence; nothing passes for a derivative that is none."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from rooflab import kernels

from .agreement import DEVICE, near, random, torch

forward_ad = torch.autograd.forward_ad


def of(name):
    """A kernel as a function of one matrix [4, 16]."""
    w, square, words = random(16, seed=1), random(16, 16, seed=2), torch.arange(4, device=DEVICE)
    scale = torch.ones((), device=DEVICE)
    return {
        "softmax": kernels.softmax,
        "rms_norm": lambda x: kernels.rms_norm(x, w),
        "layer_norm": lambda x: kernels.layer_norm(x, w, w),
        "add_rms_norm": lambda x: kernels.add_rms_norm(x, x, w),
        "add_layer_norm": lambda x: kernels.add_layer_norm(x, x, w, None),
        "gelu": kernels.gelu,
        "swiglu": lambda x: kernels.swiglu(square[:4], x),
        "matmul": lambda x: kernels.matmul(square, x.t()),
        "matvec": lambda x: kernels.matvec(x.bfloat16(), square.bfloat16()),
        "squared_relu_mlp": lambda x: kernels.squared_relu_mlp(x, square, square),
        "linear_cross_entropy": lambda x: kernels.linear_cross_entropy(x, square, words),
        "cross_entropy_with_gradient": lambda x: kernels.cross_entropy_with_gradient(x, words),
        "attention": lambda x: kernels.attention(*[x[None, None]] * 3),
        "attention_decode": lambda x: kernels.attention_decode(x[None, None, :1], *[x[None, None]] * 2),
        "rotary_heads": lambda x: kernels.rotary_heads(x[None, :3, None, None].mT.mT.expand(1, 3, 3, 1, 16),
                                                       square[:3, :8], square[:3, :8]),
        "quantize_fp8": lambda x: kernels.quantize_fp8(x, scale),
        "quantize_mx": lambda x: kernels.quantize_mx(x.reshape(2, 32)),
        "quantize_nvfp4": lambda x: kernels.quantize_nvfp4(x, scale),
        "quantize_weights": lambda x: kernels.quantize_weights(x, group=16),
    }[name]  # fmt: skip


NAMES = sorted({*kernels.__all__} - {"scaled_matmul"})  # which takes codes alone


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # in torch's own code
@pytest.mark.parametrize("name", NAMES)
def test_a_derivative_in_forward_mode_is_refused_and_not_zero(name):
    x = random(4, 16)
    with forward_ad.dual_level(), pytest.raises(ValueError, match=f"^{name}: it has no derivative in forward mode"):
        of(name)(forward_ad.make_dual(x, torch.ones_like(x)))
    of(name)(x)  # and afterwards all is as before


ONCE = sorted({"softmax", "rms_norm", "layer_norm", "add_rms_norm", "add_layer_norm", "gelu", "swiglu", "attention",
                 "rotary_heads", "squared_relu_mlp", "linear_cross_entropy"})  # fmt: skip


def twice(name):
    """The gradient of a gradient, beside a term that has one: what is left out would not be missed."""
    x = random(4, 16, grad=True)
    found = of(name)(x)
    total = sum(each.float().sum() for each in (found if isinstance(found, tuple) else (found,)))
    (dx,) = torch.autograd.grad(total, x, create_graph=True)
    return torch.autograd.grad((dx * dx).sum() + x.sum(), x)


@pytest.mark.parametrize("name", ONCE)
def test_a_second_derivative_is_refused_and_not_left_out(name):
    with pytest.raises(
        RuntimeError, match=r"there is no second derivative \(create_graph\): use torch's own"
    ) as caught:
        twice(name)
    kernel = str(caught.value).partition(":")[0]
    assert kernel in name or name.removeprefix("add_") in kernel.split(" or ")


def test_products_have_a_second_derivative():
    a, b = random(4, 16, grad=True), random(16, 3, grad=True, seed=1)
    found = []
    for product in (kernels.matmul, torch.matmul):
        (da,) = torch.autograd.grad(product(a, b).pow(2).sum(), a, create_graph=True)
        found.append(torch.autograd.grad(da.pow(2).sum(), (a, b)))
    for one, right in zip(*found, strict=True):
        near(one, right.double(), length=16)


def test_angles_and_scales_that_would_be_trained_are_refused():
    qkv, angles = random(1, 5, 3, 1, 16, grad=True), random(5, 8)
    with pytest.raises(ValueError, match=r"no gradient with regard to angles: .*detach"):
        kernels.rotary_heads(qkv, angles.requires_grad_(), angles.detach())
    kernels.rotary_heads(qkv, angles.detach(), angles.detach())
    x, codes = random(1, 64).bfloat16(), torch.ones(4, 64, dtype=torch.int8, device=DEVICE)
    with pytest.raises(ValueError, match="no gradient with regard to weights or their scales"):
        kernels.matvec(x, codes, random(4, grad=True))
    with torch.no_grad():
        kernels.matvec(x, codes, random(4, grad=True))


def test_what_is_no_tensor_is_named():
    x, w = random(4, 16), random(16)
    for call, what in (
        (lambda: kernels.rms_norm(x, [1.0] * 16), "weight is a list"),
        (lambda: kernels.add_rms_norm(x, None, w), "residual is a NoneType"),
        (lambda: kernels.add_layer_norm(x, None, w, w), "residual is a NoneType"),
        (lambda: kernels.swiglu(x, "up"), "up is a str"),
        (lambda: kernels.matmul(x, None), "b is a NoneType"),
        (lambda: kernels.matvec(x.bfloat16(), None), "w is a NoneType"),
        (lambda: kernels.squared_relu_mlp(x, x, 3), "down is a int"),
        (lambda: kernels.linear_cross_entropy(x, x, [1, 2, 3, 0]), "target is a list"),
        (lambda: kernels.cross_entropy_with_gradient(x, None), "target is a NoneType"),
        (lambda: kernels.attention(x, None, x), "k is a NoneType"),
        (lambda: kernels.rotary_heads(x, None, w), "cosine is a NoneType"),
        (lambda: kernels.quantize_fp8(x, 1.0), "scale is a float"),
        (lambda: kernels.quantize_nvfp4(x, None), "tensor_scale is a NoneType"),
    ):
        with pytest.raises(TypeError, match=f"takes tensors; {what}\\.$"):
            call()
    with pytest.raises(TypeError, match="quantize_fp8 takes a tensor of PyTorch; found a list"):
        kernels.quantize_fp8([1.0])


def test_constants_that_are_none_are_named():
    x, w, q = random(4, 16), random(16), random(1, 1, 4, 16)
    words = torch.arange(4, device=DEVICE)
    codes, one = x.to(torch.float8_e4m3fn), torch.ones((), device=DEVICE)
    for call, says in (
        (lambda: kernels.rms_norm(x, w, eps=None), "rms_norm: expected a number for eps; found None"),
        (lambda: kernels.layer_norm(x, w, w, eps="a"), "layer_norm: expected a number for eps; found 'a'"),
        (lambda: kernels.add_rms_norm(x, x, w, eps=w), "add_rms_norm: expected a number for eps; found a Tensor"),
        (lambda: kernels.add_layer_norm(x, x, w, w, eps=[1]), "add_layer_norm: expected a number for eps; .* a list"),
        (lambda: kernels.attention(q, q, q, scale="a"), "attention: expected a number for scale; found 'a'"),
        (lambda: kernels.attention(q, q, q, scale=True), "attention: expected a number for scale; found True"),
        (lambda: kernels.attention(q, q, q, scale=torch.tensor(True)), "expected a number for scale; found a Tensor"),
        (lambda: kernels.attention_decode(q[:, :, :1], q, q, scale=True), "expected a number for scale; found True"),
        (lambda: kernels.attention(q, q, q, causal="no"), "attention: expected True or False for causal; found 'no'"),
        (lambda: kernels.attention_decode(q[:, :, :1], q, q, scale="a"), "expected a number for scale; found 'a'"),
        (lambda: kernels.linear_cross_entropy(x, x, words, None), "a whole number for ignore_index; found None"),
        (lambda: kernels.cross_entropy_with_gradient(x, words, "x"), "expected a number for softcap; found 'x'"),
        (lambda: kernels.cross_entropy_with_gradient(x, words, 0.0, 1.5), "a whole number for ignore_index; found 1.5"),
        (lambda: kernels.quantize_weights(x, group="a"), "expected a whole number for group; found 'a'"),
        (lambda: kernels.scaled_matmul(codes, codes.t(), one, one, dtype="bf16"), "a format of torch .*; found 'bf16'"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"{says}\\.$"):
            call()
    with pytest.raises(ValueError, match="that divide a row of 16 weights; found -16"):
        kernels.quantize_weights(x, group=-16)
    near(kernels.rms_norm(x, w, torch.tensor(1e-6)), kernels.rms_norm(x, w).double(), length=16)  # a number as well


@pytest.mark.parametrize("eps", [-1.0, float("nan"), float("inf")])
def test_an_eps_that_is_no_small_number_is_refused(eps):
    x, w = random(4, 16), random(16)
    calls = [
        lambda: kernels.rms_norm(x, w, eps),
        lambda: kernels.layer_norm(x, w, None, eps),
        lambda: kernels.add_rms_norm(x, x, w, eps),
        lambda: kernels.add_layer_norm(x, x, w, None, eps),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="expected eps to be a number of 0 or more"):
            call()


def test_an_array_of_one_number_is_looked_at_like_the_number():
    x, w, q = random(4, 16), random(16), random(1, 1, 4, 16)
    jnp = pytest.importorskip("jax.numpy")
    for value in (-1.0, float("nan"), 1e300):
        for made in (float, np.float32, np.array, torch.tensor, jnp.float32):
            with np.errstate(over="ignore"):
                eps = made(value)
            for rows, weight in ((x, w), (jnp.ones(4), jnp.ones(4))):
                with pytest.raises(ValueError, match="expected eps to be a number of 0 or more that float32 can hold"):
                    kernels.rms_norm(rows, weight, eps)
    for made in (np.float32, np.array, torch.tensor, jnp.float32):
        assert torch.equal(kernels.rms_norm(x, w, made(0.5)), kernels.rms_norm(x, w, 0.5))
        assert torch.equal(kernels.attention(q, q, q, scale=made(0.5)), kernels.attention(q, q, q, scale=0.5))
    with pytest.raises(TypeError, match="expected a number for eps; found a Tensor"):
        kernels.rms_norm(x, w, torch.tensor(1j))


def test_a_constant_that_would_be_trained_is_refused():
    q, x, scale = random(1, 1, 4, 16), random(4, 16), torch.tensor(0.25, requires_grad=True)
    for call, what in (
        (lambda: kernels.attention(q, q, q, scale=scale), "scale"),
        (lambda: kernels.attention_decode(q[:, :, :1], q, q, scale=scale), "scale"),
        (lambda: kernels.rms_norm(x, x[0], scale), "eps"),
    ):
        with pytest.raises(ValueError, match=f"no gradient with regard to {what}: give it {what}.detach"):
            call()
        with torch.no_grad():
            call()


@pytest.mark.parametrize("value", [float("nan"), torch.ones(2), np.ones(2), torch.tensor(float("nan")), "no"], ids=repr)
def test_what_is_neither_true_nor_false_is_refused(value):
    q, codes, one = random(1, 1, 4, 16), random(16, 16).to(torch.float8_e4m3fn), torch.ones((), device=DEVICE)
    qkv, angles = random(1, 5, 3, 1, 16), random(5, 8)
    for call, what in (
        (lambda: kernels.attention(q, q, q, causal=value), "causal"),
        (lambda: kernels.rotary_heads(qkv, angles, angles, normalize=value), "normalize"),
        (lambda: kernels.scaled_matmul(codes, codes.t(), one, one, exact=value), "exact"),
        (lambda: kernels.quantize_weights(qkv[0, :, 0, 0], group=16, zeros=value), "zeros"),
    ):
        with pytest.raises(TypeError, match=f"expected True or False for {what}; found"):
            call()
    assert torch.equal(kernels.attention(q, q, q, causal=torch.tensor(1)), kernels.attention(q, q, q, causal=True))


@pytest.mark.parametrize("index", [2**63, -(2**70)])
def test_an_index_of_more_than_64_bits_is_refused(index):
    x, words = random(4, 16), torch.arange(4, device=DEVICE)
    for call in (
        lambda: kernels.cross_entropy_with_gradient(x, words, 0.0, index),
        lambda: kernels.linear_cross_entropy(x, x, words, index),
    ):
        with pytest.raises(ValueError, match=f"expected ignore_index to be a number of 64 bits; found {index}"):
            call()


def test_what_has_no_gradient_says_so():
    x, one = random(4, 16, grad=True), torch.ones((), device=DEVICE)
    codes = random(16, 16).to(torch.float8_e4m3fn)
    for found, says in (
        (of("attention_decode")(x), "attention_decode: it has no gradient: use attention for one"),
        (of("cross_entropy_with_gradient")(x)[0], "cross_entropy_with_gradient: .* its second result is that of"),
        (of("cross_entropy_with_gradient")(x)[1], "cross_entropy_with_gradient: it has no gradient"),
        (kernels.scaled_matmul(codes, codes.t(), one.requires_grad_(), one), "scaled_matmul: .* use matmul for one"),
    ):
        with pytest.raises(RuntimeError, match=says):
            found.float().sum().backward()


@pytest.mark.parametrize("name", ["matmul", "swiglu", "rms_norm"])
def test_an_array_of_jax_beside_a_tensor_is_refused(name):
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(TypeError, match=f"{name} got arrays of two frameworks \\(.* is of jax\\): convert them to one"):
        getattr(kernels, name)(random(4, 4), jnp.ones((4, 4)) if name != "rms_norm" else jnp.ones(4))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_refused(layout):
    x = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=layout, device=DEVICE)
    w = torch.ones(4, device=DEVICE)
    for call in (lambda: kernels.softmax(x), lambda: kernels.rms_norm(x, w), lambda: kernels.matmul(x, w),
                 lambda: kernels.attention(x, x, x), lambda: kernels.swiglu(random(5, 4), x)):  # fmt: skip
        with pytest.raises(ValueError, match="found a nested one: take its parts"):
            call()


@pytest.mark.parametrize(
    ("first", "value", "says"),
    [("triton", None, "import rooflab.kernels first"), ("torch", "0", "leave TRITON_INTERPRET=0 out of")],
)
def test_a_process_that_cannot_interpret_says_why(first, value, says):
    code = f"import {first}, torch; from rooflab import kernels; kernels.softmax(torch.ones(2, 4))"
    environment = {key: each for key, each in os.environ.items() if key != "TRITON_INTERPRET"}
    environment |= {} if value is None else {"TRITON_INTERPRET": value}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}  # where there is a GPU, it is out of sight
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    told = found.stderr.splitlines()[-1]
    assert told.startswith("RuntimeError: A kernel got tensors on the CPU, where it is interpreted; ")
    assert says in told


@pytest.mark.parametrize("shape", [(), (4, 0), (1, 1, 4, 0)], ids=str)
@pytest.mark.parametrize("function", [kernels.attention, kernels.attention_decode])
def test_queries_without_a_width_are_refused(function, shape):
    x = torch.ones(shape, device=DEVICE)
    with pytest.raises(ValueError, match="expected"):
        function(x, x, x)


@pytest.mark.parametrize("name", ["softmax", "gelu", "rms_norm", "matmul", "quantize_weights"])
def test_sparse_tensors_are_refused(name):
    with pytest.raises(ValueError, match=r"expected dense tensors; .* to_dense\(\)"):
        of(name)(torch.eye(16, device=DEVICE).to_sparse())


@pytest.mark.parametrize("name", ["matmul", "linear_cross_entropy", "softmax", "quantize_fp8"])
def test_shapes_without_numbers(name):
    def tensors(found):
        return found if isinstance(found, tuple) else (found,)

    w = torch.ones(16, 16, device="meta")
    x, words = torch.ones(4, 16, device="meta"), torch.ones(4, dtype=torch.int64, device="meta")
    call = {
        "matmul": lambda: kernels.matmul(x, w),
        "linear_cross_entropy": lambda: kernels.linear_cross_entropy(x, w, words),
    }.get(name, lambda: of(name)(x) if name == "softmax" else kernels.quantize_fp8(x))
    assert all(each.device.type == "meta" for each in tensors(call()))


def test_of_no_words_none_is_right():
    x, none = torch.zeros(2, 8, device=DEVICE), torch.zeros(0, 8, device=DEVICE)
    target = torch.tensor([0, -100], device=DEVICE)
    assert kernels.linear_cross_entropy(x, none, target, reduction="sum").isnan()
    assert kernels.linear_cross_entropy(x, none, target.fill_(-100), reduction="sum") == 0
    losses, _ = kernels.cross_entropy_with_gradient(none.t()[:2], torch.tensor([0, -100], device=DEVICE))
    assert losses.isnan().tolist() == [True, False]
    width = torch.zeros(2, 0, device=DEVICE), torch.zeros(4, 0, device=DEVICE)
    assert kernels.linear_cross_entropy(*width, torch.tensor([0, 4], device=DEVICE)).isnan()


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("quantize")])
def test_quantization_stands_in_one_compiled_graph(name):
    x = random(4, 16)
    found = torch.compile(of(name), backend="aot_eager", fullgraph=True)(x)
    for one, right in zip(found, of(name)(x), strict=True):
        assert torch.equal(one.float(), right.float())


def test_kernels_run_in_several_threads():
    x, found = random(3, 33), {}

    def work(number):
        for _ in range(3):
            found[number] = kernels.softmax(x * number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(6):
        near(found[number], (x.double() * number).softmax(-1), length=33)
