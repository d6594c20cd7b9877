"""Kernels on tensors of more than 2^31 elements, whose addresses take more than 32 bits; needs a GPU with 40 GB."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)
if torch.cuda.mem_get_info()[0] < 40e9:
    pytest.skip("needs a GPU with 40 GB free", allow_module_level=True)

from rooflab import kernels  # noqa: E402
from rooflab.tolerances import tolerance  # noqa: E402

ROWS, COLS = 66_000, 32_768  # 2.16e9 elements, 4.3 GB in bf16
LAST = slice(ROWS - 3, ROWS)
functional = torch.nn.functional


@pytest.fixture(autouse=True)
def _free():
    yield
    torch.cuda.empty_cache()


def made(rows=ROWS, cols=COLS):
    """Rows that differ, in bf16, without a larger copy in another format."""
    x = torch.empty(rows, cols, dtype=torch.bfloat16, device="cuda")
    return x.normal_(generator=torch.Generator("cuda").manual_seed(0))


def near(found, right, length):
    allowed = tolerance("bf16", length)
    scale = float(right.abs().max())
    torch.testing.assert_close(found.double(), right, rtol=allowed.rtol, atol=allowed.atol + allowed.rtol * scale)


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm", "gelu"])
def test_the_last_rows_are_right(name):
    x = made()
    assert x.numel() > 2**31
    weight, bias = made(1)[0], made(2)[1]
    mine, right = {
        "softmax": (kernels.softmax, lambda x: x.softmax(-1)),
        "rms_norm": (lambda x: kernels.rms_norm(x, weight),
                     lambda x: functional.rms_norm(x, (COLS,), weight.double(), 1e-6)),
        "layer_norm": (lambda x: kernels.layer_norm(x, weight, bias),
                       lambda x: functional.layer_norm(x, (COLS,), weight.double(), bias.double())),
        "gelu": (kernels.gelu, functional.gelu),
    }[name]  # fmt: skip
    near(mine(x)[LAST], right(x[LAST].double()), COLS)


def test_the_gradient_of_the_last_rows_is_right():
    x, dy = made(), made()
    x.requires_grad_()
    weight = made(1)[0].requires_grad_()
    kernels.rms_norm(x, weight).backward(dy)
    exact = x.detach()[LAST].double().requires_grad_()
    functional.rms_norm(exact, (COLS,), weight.detach().double(), 1e-6).backward(dy[LAST].double())
    near(x.grad[LAST], exact.grad, COLS)


def test_codes_of_the_last_rows_are_right():
    x = made()
    codes, scales = kernels.quantize_fp8(x)
    found, right = codes[LAST].double() * scales[LAST, None], x[LAST].double()
    # Three bits of mantissa: half of the last one, or of the smallest code's steps of 2^-9.
    allowed = right.abs() * 2**-4 + scales[LAST, None] * 2**-10
    assert bool(((found - right).abs() <= allowed).all())


def test_a_product_whose_result_is_large():
    a, b = made(50_000, 64), made(64, 44_000)
    found = kernels.matmul(a, b)
    assert found.numel() > 2**31
    near(found[-3:], a[-3:].double() @ b.double(), 64)


def test_a_long_cache_of_keys():
    q = made(8, 128).view(1, 8, 1, 128)
    k, v = (made(8 * 2_200_000, 128).view(1, 8, 2_200_000, 128) for _ in range(2))
    assert k.numel() > 2**31
    found = kernels.attention_decode(q, k, v)
    right = (q[0, 7].double() @ k[0, 7].double().T / 128**0.5).softmax(-1) @ v[0, 7].double()
    near(found[0, 7], right, 128)
