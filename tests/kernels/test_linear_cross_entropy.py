"""Cross-entropy of a linear layer against float64, in chunks of tokens that leave no room for all logits."""

import pytest

from rooflab import kernels
from rooflab.counters import count
from rooflab.kernels.loss import chunk_tokens
from rooflab.kernels.loss import torch_linear_cross_entropy as loss
from rooflab.kernels.products.tiles import INTERPRETED

from .agreement import DEVICE, SHORT, counts, near, random, torch

SHAPES = [(1, 1, 1), (50, 100, 40), (33, 130, 24), (16, 64, 32), (7, 333, 65), (20, 2, 3)]
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """So that some tens of tokens are several chunks, the last one shorter."""
    monkeypatch.setattr(loss, "chunk_tokens", lambda *_: 16)


def inputs(tokens, words, d, dtype=torch.float32):
    """Tokens, a weight, and targets of which every fifth does not count."""
    target = torch.randint(words, (tokens,), generator=torch.Generator().manual_seed(3)).to(DEVICE)
    target[1::5] = -100
    return random(tokens, d, dtype=dtype), random(words, d, dtype=dtype, seed=1, scale=0.3), target


def reference(x, weight, target, **more):
    logits = (x @ weight.t()).flatten(0, -2)
    return torch.nn.functional.cross_entropy(logits, target.flatten(), **more)


def both(x, weight, target, **more):
    """Our loss and gradients, and those in float64."""
    found = []
    for function, dtype in ((kernels.linear_cross_entropy, x.dtype), (reference, torch.float64)):
        leaves = [each.detach().to(dtype).requires_grad_() for each in (x, weight)]
        y = function(*leaves, target, **more)
        found.append((y.detach(), *torch.autograd.grad(3 * y, leaves)))
    return found


@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_and_gradients_agree_with_float64(shape, dtype):
    reduction = "sum" if shape[0] in (7, 33) else "mean"
    x, weight, target = inputs(*shape, dtype)
    ours, right = both(x, weight, target, reduction=reduction)
    assert [each.dtype for each in ours] == [torch.float32, dtype, dtype]
    # A logit is rounded to the format of x: a relative error of it is an absolute one of the loss and of a probability.
    largest = float((x.double() @ weight.double().t()).abs().max())
    count_of = max(1, int((target >= 0).sum()))
    scale = 3 / count_of if reduction == "mean" else 3
    terms = {0: largest * (1 if reduction == "mean" else count_of)}
    terms[1] = scale * float(weight.abs().max()) * (1 + largest)
    terms[2] = scale * float(x.abs().max()) * (1 + largest)
    for number, (one, other) in enumerate(zip(ours, right, strict=True)):
        near(one, other, length=max(shape), dtype=dtype, terms=terms[number], what=f"output {number}")


def test_tokens_of_several_dimensions():
    x, weight, target = inputs(24, 40, 16)
    ours, right = both(x.view(2, 12, 16), weight, target.view(2, 12))
    for one, other in zip(ours, right, strict=True):
        near(one, other, length=40)
    assert ours[1].shape == (2, 12, 16)


@pytest.mark.parametrize("ignored", [0, 7, -100])
def test_a_target_that_does_not_count(ignored):
    x, weight, target = inputs(40, 30, 8)
    target[target < 0] = 7
    target[3] = ignored
    ours, right = both(x, weight, target, ignore_index=ignored)
    for one, other in zip(ours, right, strict=True):
        near(one, other, length=40)
    assert not ours[1][3].any()


def test_a_mean_over_nothing_is_nan_as_in_torch():
    x, weight, target = inputs(20, 30, 8)
    target[:] = -100
    ours, right = both(x, weight, target)
    assert ours[0].isnan()
    assert right[0].isnan()
    ours, _ = both(x, weight, target, reduction="sum")
    assert [float(each.abs().sum()) for each in ours] == [0, 0, 0]


@pytest.mark.parametrize("bad", [-1, 30, 10**12])
def test_a_target_that_is_no_word_makes_the_loss_nan(bad):
    x, weight, target = inputs(20, 30, 8)
    target[4] = bad
    assert kernels.linear_cross_entropy(x, weight, target).isnan()


@pytest.mark.parametrize("words", [[66], range(64), range(70)], ids=["one", "a block", "all"])
@pytest.mark.parametrize("value", [INF, -INF, NAN])
def test_infinities_and_nan_are_those_of_torch(value, words):
    x, weight, target = random(3, 4), random(70, 4, seed=1), torch.tensor([2, 66, 5], device=DEVICE)
    weight[:, 1:], x[:, 0] = 0, 1
    weight[list(words), 0] = value
    ours, right = both(x, weight, target)
    for one, other in zip(ours[:2], right[:2], strict=True):
        assert torch.equal(one.isnan(), other.isnan())
        assert torch.equal(one.isinf(), other.isinf())


def test_large_logits_do_not_overflow():
    x, weight, target = inputs(20, 300, 8)
    ours, right = both(1e4 * x, weight, target)
    for one, other in zip(ours, right, strict=True):
        near(one, other, length=300)


def test_nothing_but_words_without_dimensions_or_tokens():
    for tokens, words, d in ((0, 5, 4), (3, 5, 0)):
        x, weight, target = random(tokens, d, grad=True), random(words, d).requires_grad_(), torch.zeros(tokens).long()
        y = kernels.linear_cross_entropy(x, weight, target.to(DEVICE), reduction="sum")
        right = reference(x.detach().double(), weight.detach().double(), target.to(DEVICE), reduction="sum")
        near(y, right, length=5)
        y.backward()
        assert (x.grad.shape, weight.grad.shape) == (x.shape, weight.shape)


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)])
def test_only_wanted_gradients_are_computed(wanted):
    x, weight, target = inputs(40, 70, 16)
    (_, *right), leaves = both(x, weight, target)[1], [x, weight]
    for leaf, one in zip(leaves, wanted, strict=True):
        leaf.requires_grad_(one)
    y = kernels.linear_cross_entropy(x, weight, target)
    assert y.requires_grad == any(wanted)
    if any(wanted):
        (3 * y).backward()
    for leaf, one, other in zip(leaves, wanted, right, strict=True):
        assert (leaf.grad is not None) == one
        if one:
            near(leaf.grad, other, length=70)


@counts
def test_a_loss_alone_takes_one_product():
    x, weight, target = inputs(40, 70, 16)
    with torch.no_grad():
        found = count(lambda: kernels.linear_cross_entropy(x.requires_grad_(), weight, target), world="triton")
    assert found.faults == ()
    assert {row.name: row.launches for row in found.kernels} == {"logits_kernel": 3, "softmax_gradient_kernel": 3}


@counts
@pytest.mark.parametrize("shape", [(40, 70, 16), (33, 130, 24)], ids=str)
def test_kernels_have_no_fault_and_logits_move_five_times(shape):
    tokens, words, _d = shape
    x, weight, target = inputs(*shape, torch.bfloat16)
    leaves = [x.requires_grad_(), weight.requires_grad_()]
    y = []
    found = count(lambda: y.append(kernels.linear_cross_entropy(*leaves, target)), world="triton")
    assert found.faults == ()
    rows = {row.name: row for row in found.kernels}
    logits, softmax = rows["logits_kernel"], rows["softmax_gradient_kernel"]
    tiles, programs = -(-words // INTERPRETED["TILE_N"]), -(-words // 64)
    assert logits.bytes_written == 2 * tokens * words + 8 * tokens * tiles
    # The target's logit is read and written a second time; each program of a token reads the target and statistics.
    counted = int((target >= 0).sum())
    assert softmax.bytes_written == 2 * tokens * words + 4 * tokens + 2 * counted
    assert softmax.bytes_read == 2 * tokens * words + programs * tokens * (8 + 8 * tiles) + 2 * counted
    found = count(lambda: torch.autograd.grad(y[0], leaves), world="triton")
    assert found.faults == ()
    assert {row.name: row.launches for row in found.kernels} == {"scale_kernel": 2}


def test_the_logits_are_never_all_there(monkeypatch):
    x, weight, target = inputs(160, 100, 16)
    made, empty = [], torch.empty

    def watched(*size, **more):
        made.append(empty(*size, **more))
        return made[-1]

    monkeypatch.setattr(torch, "empty", watched)
    kernels.linear_cross_entropy(x.requires_grad_(), weight.requires_grad_(), target).backward()
    assert max(each.numel() for each in made if each.dtype == torch.float32) < 160 * 100 / 4


@pytest.mark.parametrize(("words", "d"), [(50_304, 768), (50_304, 4096), (256_000, 2048), (1000, 64)])
def test_a_chunk_takes_no_more_than_it_may(words, d):
    tokens = chunk_tokens(words, d, 2)
    assert tokens % 128 == 0
    assert 2 * tokens * words <= max(100 * 2**20, words * d) or tokens == 128
    if (words, d) == (50_304, 768):
        logits, dx, dw, ranges = 2 * tokens * words, 4 * 8192 * d, 4 * words * d, 5 * 4 * tokens * d
        statistics = 8 * tokens * words // 128
        assert logits + statistics + dx + dw + ranges < 300 * 2**20


def test_twice_the_same_loss():
    x, weight, target = inputs(50, 333, 24)
    first, second = (both(x, weight, target)[0] for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_under_autocast_in_its_format():
    x, weight, target = inputs(20, 30, 8)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        found = kernels.linear_cross_entropy(x, weight, target)
    assert torch.equal(found, kernels.linear_cross_entropy(x.bfloat16(), weight.bfloat16(), target))
    for wrong in (x.long(), x.double()):
        with torch.autocast(DEVICE, dtype=torch.bfloat16), pytest.raises(TypeError, match="convert it first"):
            kernels.linear_cross_entropy(wrong, weight, target)


@pytest.mark.parametrize("tokens", [3, 0])
def test_where_no_target_counts_the_mean_is_nan_and_its_gradients_zero(tokens):
    x, weight, target = inputs(tokens, 30, 8)
    for function in (kernels.linear_cross_entropy, lambda x, w, t: torch.nn.functional.cross_entropy(x @ w.t(), t)):
        leaves = [each.detach().clone().requires_grad_() for each in (x, weight)]
        found = function(*leaves, torch.full_like(target, -100))
        assert found.isnan()
        for one, leaf in zip(torch.autograd.grad(found, leaves), leaves, strict=True):
            assert torch.equal(one, torch.zeros_like(leaf))


@pytest.mark.parametrize("d", [8, 7])
def test_torch_takes_it_for_an_operator(d):
    x, weight, target = inputs(20, 30, d)
    for wanted in ((True, True), (False, True), (False, False)):
        given = [each.detach().requires_grad_(one) for each, one in zip((x, weight), wanted, strict=True)]
        torch.library.opcheck(loss.loss_and_gradients, (*given, target, -100, *wanted))
    torch.library.opcheck(loss.scaled, (x, torch.ones((), device=DEVICE), torch.bfloat16))


def test_it_stands_in_a_compiled_graph():
    x, weight, target = inputs(20, 30, 8)

    def used(x, weight):
        return kernels.linear_cross_entropy(2 * x, weight, target).sin()

    compiled = torch.compile(used, fullgraph=True, backend="aot_eager")
    for function in (compiled, used):
        leaves = [each.detach().requires_grad_() for each in (x, weight)]
        y = function(*leaves)
        found = (y, *torch.autograd.grad(y, leaves))
        if function is compiled:
            wanted = found
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"x": torch.zeros(3, 5)}, ValueError, r"found \[3, 5\], \[6, 4\] and \[3\]"),
        ({"target": torch.zeros(2).long()}, ValueError, "a target for each row of x"),
        ({"target": torch.zeros(3)}, ValueError, "expected targets of int64; found torch.float32"),
        ({"x": torch.zeros(3, 4).half()}, ValueError, "x and the weight in one format"),
        ({"weight": torch.zeros(6, 4).double()}, TypeError, "weight is float64"),
        ({"reduction": "none"}, ValueError, "expected reduction 'mean' or 'sum'; found 'none'"),
    ],
    ids=str,
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(change, error, says):
    given = {"x": torch.zeros(3, 4), "weight": torch.zeros(6, 4), "target": torch.zeros(3).long()}
    with pytest.raises(error, match=says):
        kernels.linear_cross_entropy(**(given | change))
