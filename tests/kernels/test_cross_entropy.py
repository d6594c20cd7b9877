"""Losses and gradient of logits against float64: caps, formats, ignored targets, odd sizes and strides."""

import pytest

from rooflab import kernels
from rooflab.counters import count
from rooflab.kernels.loss.chunks import row_blocks
from rooflab.kernels.loss.torch_cross_entropy import losses_and_gradient

from .agreement import DEVICE, SHORT, counts, near, random, torch
from .compiling import told_elsewhere

functional = torch.nn.functional


def reference(z, target, cap=0.0):
    """Losses and the gradient of their sum, in float64."""
    z = z.detach().double().requires_grad_()
    u = cap * torch.tanh(z / cap) if cap else z
    losses = functional.cross_entropy(u, target, reduction="none")
    return losses.detach(), torch.autograd.grad(losses.sum(), z)[0]


def size_of_exponents(z, cap):
    """How large the terms of softmax's exponents are, in fp32; their errors are those of softmax.

    Without a cap they are differences from the largest logit, and small wherever softmax is not. With one they are the
    capped logits and the logarithm of the sum themselves. Errors of fp32 are small beside those of a shorter format.
    """
    if not cap:
        return 1.0
    u = cap * torch.tanh(z.double() / cap)
    largest = float(torch.maximum(u.abs().amax(), u.logsumexp(-1).abs().amax()))
    return max(1.0, largest * torch.finfo(torch.float32).eps / torch.finfo(z.dtype).eps)


def targets(rows, words, seed=3):
    return torch.randint(words, (rows,), generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("cap", [0.0, 5.0, 30.0])
@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 64), (5, 65), (4, 300)], ids=str)
def test_losses_and_gradient_agree_with_float64(shape, dtype, cap):
    z, target = random(*shape, dtype=dtype, scale=8), targets(*shape)
    losses, dz = kernels.cross_entropy_with_gradient(z, target, cap)
    right, gradient = reference(z, target, cap)
    assert (losses.dtype, dz.dtype) == (torch.float32, dtype)
    # Of what is added up the logarithm of the sum is the largest: up to some forty here.
    near(losses, right, length=shape[1], dtype=dtype, terms=40.0)
    near(dz, gradient, length=shape[1], terms=size_of_exponents(z, cap))


@pytest.mark.parametrize(
    "change",
    [lambda z: z[:, 3:60], lambda z: z[::2], lambda z: z.t()],
    ids=["a slice", "every other row", "transposed"],
)
def test_strides_of_any_kind(change):
    z = change(random(64, 64, scale=3))
    target = targets(*z.shape)
    for found, right in zip(kernels.cross_entropy_with_gradient(z, target), reference(z, target), strict=True):
        near(found, right, length=64, terms=10.0)


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # of NumPy, which interprets the largest of some NaN
@pytest.mark.parametrize("cap", [0.0, 10.0])
def test_ignored_targets_cost_nothing_and_wrong_ones_are_seen(cap):
    z, target = random(4, 70), targets(4, 70)
    target[1], target[2] = -100, 70
    z[1, 3] = float("nan")
    losses, dz = kernels.cross_entropy_with_gradient(z, target, cap)
    right, gradient = reference(z[[0, 3]], target[[0, 3]], cap)
    near(losses[[0, 3]], right, length=70, terms=10.0)
    near(dz[[0, 3]], gradient, length=70, terms=1.0)
    assert losses[1] == 0
    assert not dz[1].any()
    assert losses[2].isnan()
    assert kernels.cross_entropy_with_gradient(z, target, cap, ignore_index=70)[0][2] == 0


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("times", [1, 7, 64])  # rows of 192 are loaded 16 bytes at a time
def test_special_values(times):
    inf, nan = float("inf"), float("nan")
    rows = [[inf, 0.0, 1.0], [nan, 0.0, 1.0], [-inf, 0.0, 1.0], [-inf, -inf, -inf], [3e38, 0.0, -3e38]]
    z = torch.tensor(rows, device=DEVICE).repeat_interleave(times, 1)
    target = torch.tensor([1, 1, 1, 1, 0], device=DEVICE) * times
    losses, dz = kernels.cross_entropy_with_gradient(z, target)
    right, gradient = reference(z, target)
    near(losses, right, length=3 * times, terms=10.0)
    near(dz, gradient, length=3 * times, terms=1.0)
    # A cap makes numbers of infinities.
    found, wanted = kernels.cross_entropy_with_gradient(z, target, 30.0)[0], reference(z, target, 30.0)[0]
    near(found, wanted, length=3 * times, terms=60.0)


@pytest.mark.parametrize("words", [70, 192])
def test_large_logits_lose_nothing_beside_larger_ones(words):
    """Losses are differences: what all logits have in common is no error of theirs."""
    z, target = random(4, words).bfloat16().float(), targets(4, words)
    z[2, ::2] = -float("inf")
    target[2] = 1
    for found, right in zip(
        kernels.cross_entropy_with_gradient(z + 2.0**14, target), reference(z + 2.0**14, target), strict=True
    ):
        near(found, right, length=words, terms=10.0)


@counts
@pytest.mark.parametrize("cap", [0.0, 10.0])
@pytest.mark.parametrize("words", [70, 192])
def test_rows_are_read_twice_and_written_once_and_ignored_ones_never_read(words, cap):
    z, target = random(5, words, dtype=torch.bfloat16), targets(5, words)
    target[[1, 4]] = -100
    found = count(lambda: kernels.cross_entropy_with_gradient(z, target, cap), world="triton")
    assert (found.faults, found.launches) == ((), 1)
    # The target's logit is read a third time, and its gradient written a second.
    assert found.bytes_read == 3 * 2 * (2 * words + 1) + 5 * 8
    assert found.bytes_written == 5 * 2 * words + 3 * 2 + 5 * 4


CODE = """
import json
from dataclasses import replace
from rooflab.kernels.catalogue import find_build
from rooflab.kernels.compiled import compile_for
from rooflab.kernels.loss.chunks import row_blocks
told = {}
choice = row_blocks(50_304, "cuda")[0]
for name in ("cross_entropy", "cross_entropy_capped"):
    build = find_build(name)
    constants = {**build.constants, "INSTRUCTION": "capped" in name, "BLOCK": choice["BLOCK"]}
    made = compile_for(replace(build, constants=constants, warps=choice["num_warps"]), "sm90")
    logits = choice["BLOCK"] / (32 * made.warps)
    special = made.text["sass"].count("MUFU")
    told[name] = [made.longest_loop() / logits, special / logits, made.spill_bytes, made.resident(), made.warps]
print(json.dumps(told))
"""


def test_no_program_has_more_threads_than_a_chip_can_start():
    for warp_size in (32, 64):
        choices = row_blocks(50_304, "cuda", warp_size)
        assert {"BLOCK": 2048, "num_warps": 4} in choices
        assert max(each["num_warps"] for each in choices) * warp_size == 1024


def test_instructions_of_a_logit_and_rows_in_work(tmp_path):
    """16 special functions and 128 instructions a clock; an H200's cache of all has 50 MB."""
    told = told_elsewhere(CODE, tmp_path)
    for name, most, functions in (("cross_entropy", 9, 2), ("cross_entropy_capped", 11, 4)):
        instructions, special, spilled, resident, warps = told[name]
        assert instructions <= most, name
        assert special <= functions + 1, name  # a few of a row
        assert spilled == 0, name
        assert resident * warps * 32 == 2048, name
        assert resident * 132 * 2 * 50_304 < 50e6 / 1.5, name


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)], ids=str)
def test_what_is_empty(shape):
    z, target = torch.zeros(shape, device=DEVICE), torch.zeros(shape[0], dtype=torch.int64, device=DEVICE)
    losses, dz = kernels.cross_entropy_with_gradient(z, target)
    assert losses.shape == shape[:1]
    assert dz.shape == shape
    assert losses.isnan().all()


def test_without_a_gradient_nothing_is_written():
    z, target = random(3, 40), targets(3, 40)
    losses, dz = losses_and_gradient(z, target, 0.0, -100, False)
    near(losses, reference(z, target)[0], length=40, terms=10.0)
    assert dz.shape == (0, 40)


def test_in_a_compiled_graph():
    z, target = random(6, 50), targets(6, 50)

    def some(z):
        losses, dz = kernels.cross_entropy_with_gradient(2 * z, target, 15.0)
        return losses.sum() + dz.square().sum()

    found = torch.compile(some, fullgraph=True, backend="aot_eager")(z)
    torch.testing.assert_close(found, some(z))
    torch.library.opcheck(losses_and_gradient, (z, target, 15.0, -100, True))


@pytest.mark.parametrize(
    ("z", "target", "options", "says"),
    [
        ((3, 4), (4,), {}, "expected logits \\[N, V\\] and targets \\[N\\]"),
        ((3, 4), (3,), {"softcap": -1.0}, "expected a softcap from 0 \\(none\\) to 60; found -1"),
        ((3, 4), (3,), {"softcap": 61.0}, "expected a softcap"),
        ((3, 4), (3,), {"softcap": float("nan")}, "expected a softcap"),
    ],
)
def test_bad_input(z, target, options, says):
    given = torch.zeros(z, device=DEVICE), torch.zeros(target, dtype=torch.int64, device=DEVICE)
    with pytest.raises(ValueError, match=says):
        kernels.cross_entropy_with_gradient(*given, **options)
    with pytest.raises(ValueError, match="expected targets of int64"):
        kernels.cross_entropy_with_gradient(torch.zeros(1, 2, device=DEVICE), torch.zeros(1, device=DEVICE))
