"""Queries, keys and values out of one product against float64, forward and backward."""

import pytest

from rooflab import kernels
from rooflab.kernels.attend.torch_heads import heads_of
from rooflab.speedrun.attention import rotary_table

from .agreement import DEVICE, SHORT, near, random, torch


def tables(length, width, device=DEVICE):
    return tuple(each.to(device) for each in rotary_table(length, width))


def reference(qkv, cosine, sine, normalize):
    """In float64, [B, H, T, D] each."""
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)

    def prepared(x):
        if normalize:
            x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        first, second = x.chunk(2, -1)
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

    return prepared(q), prepared(k), v


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1, 16), (2, 5, 3, 16), (1, 9, 2, 32), (2, 3, 1, 64), (1, 2, 2, 128)], ids=str)
def test_results_and_gradients_agree_with_float64(shape, dtype, normalize):
    batch, length, heads, width = shape
    qkv = random(batch, length, 3, heads, width, dtype=dtype, grad=True)
    cosine, sine = tables(length, width)
    exact = qkv.detach().double().requires_grad_()
    found = kernels.rotary_heads(qkv, cosine, sine, normalize=normalize)
    right = reference(exact, cosine.double(), sine.double(), normalize)
    weights = [random(batch, heads, length, width, dtype=dtype, seed=5 + part) for part in range(3)]
    (mine,) = torch.autograd.grad(found, qkv, weights)
    (wanted,) = torch.autograd.grad(right, exact, [each.double() for each in weights])
    for one, other in zip(found, right, strict=True):
        assert one.transpose(1, 2).is_contiguous()
        near(one, other, length=width)
    assert mine.dtype == dtype
    # With one number in two heads of a row, terms of a gradient are as large as 1 / rms of the row.
    near(mine, wanted, length=width, terms=float(wanted.abs().max()) + 4.0)


def test_a_part_of_a_larger_product_and_gradients_that_lie_otherwise():
    whole = random(2, 6, 3, 2, 48, grad=True)
    cosine, sine = tables(6, 32)
    q, k, v = kernels.rotary_heads(whole[..., :32], cosine, sine, normalize=True)
    right = reference(whole[..., :32].double(), cosine.double(), sine.double(), True)
    scores, other = ((a @ b.transpose(-1, -2) @ c).sin().sum() for a, b, c in ((q, k, v), right))
    near(scores, other, length=6 * 32 * 6 * 4)
    (mine,), (wanted,) = torch.autograd.grad(scores, whole), torch.autograd.grad(other, whole)
    near(mine, wanted.float(), length=6 * 32 * 6, terms=30.0)


def test_the_operator_as_torch_wants_it():
    qkv = random(1, 3, 3, 2, 16, grad=True)
    torch.library.opcheck(heads_of, (qkv, *tables(3, 16), True))

    def some(qkv):
        q, k, v = kernels.rotary_heads(qkv, *tables(3, 16, qkv.device), normalize=True)
        return (q * k + v).sum()

    found = torch.autograd.grad(torch.compile(some, fullgraph=True, backend="aot_eager")(qkv), qkv)[0]
    torch.testing.assert_close(found, torch.autograd.grad(some(qkv), qkv)[0])


def test_what_is_empty():
    for shape in ((0, 4, 3, 2, 16), (2, 0, 3, 2, 16), (2, 4, 3, 0, 16)):
        qkv = torch.zeros(shape, device=DEVICE, requires_grad=True)
        q, k, v = kernels.rotary_heads(qkv, *tables(shape[1], 16))
        assert q.shape == (shape[0], shape[3], shape[1], 16)
        (q.sum() + k.sum() + v.sum()).backward()
        assert qkv.grad.shape == shape


@pytest.mark.parametrize(
    ("shape", "table", "says"),
    [
        ((1, 4, 2, 2, 16), (4, 16), "expected qkv \\[batch, T, 3, heads, D\\]"),
        ((1, 4, 3, 2, 24), (4, 24), "D one of \\(16, 32, 64, 128\\)"),
        ((1, 4, 3, 2, 16), (5, 16), "expected cosine \\[4, 8\\] in float32; found \\[5, 8\\]"),
    ],
)
def test_bad_input(shape, table, says):
    with pytest.raises(ValueError, match=says):
        kernels.rotary_heads(torch.zeros(shape, device=DEVICE), *tables(*table))
