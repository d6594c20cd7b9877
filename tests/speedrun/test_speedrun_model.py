"""Each switch of the model against a plain reference."""

import math

import pytest

from rooflab.speedrun import loss as loss_module
from rooflab.speedrun import model as model_module
from rooflab.speedrun.attention import attend, rotary_table, rotate, window_mask
from rooflab.speedrun.config import ConfigError
from rooflab.speedrun.fp8 import codes_of, fp8_linear, fp8_mlp, fp8_product, longest, reach, weight_codes
from rooflab.speedrun.loss import chunked_loss
from rooflab.speedrun.model import GPT
from rooflab.speedrun.settings import quiet

from .toys import WORDS, config

torch = pytest.importorskip("torch")
F = torch.nn.functional


def made(seed=0, **changes):
    torch.manual_seed(seed)
    return GPT(config(**changes))


def batch(rows=3, length=16, seed=1):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(WORDS, (2, rows, length), generator=draw).unbind(0)


def heads(seed=0, length=12, width=8):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(3, 2, 2, length, width, generator=draw, dtype=torch.float64).unbind(0)


def test_plain_and_fused_attention_agree():
    q, k, v = heads()
    torch.testing.assert_close(attend(q, k, v, "plain"), attend(q, k, v, "fused"))


@pytest.mark.parametrize("window", [1, 3, 11])
def test_a_window_hides_what_is_further_back(window):
    q, k, v = heads()
    scores = q @ k.mT / math.sqrt(8)
    for i in range(12):
        for j in range(12):
            if j > i or i - j >= window:
                scores[..., i, j] = -math.inf
    mask = window_mask(12, window, torch.device("cpu"))
    torch.testing.assert_close(attend(q, k, v, "window", mask), scores.softmax(-1) @ v)


def test_a_window_of_everything_needs_no_mask():
    assert window_mask(12, 12, torch.device("cpu")) is None


def test_no_token_sees_a_later_one():
    for form in ("plain", "fused", "window"):
        gpt = made(attention=form, position="rotary", value_skip=True, token_shift=True)
        tokens = batch()[0]
        other = tokens.clone()
        other[:, 10:] = (other[:, 10:] + 1) % WORDS
        mask = window_mask(16, 4, torch.device("cpu")) if form == "window" else None
        with torch.no_grad():
            before, after = (gpt.logits(gpt.norm(gpt.hidden(each, mask))) for each in (tokens, other))
        torch.testing.assert_close(before[:, :10], after[:, :10])
        assert not torch.allclose(before[:, 10:], after[:, 10:])


def test_a_shift_mixes_each_token_with_the_one_before_it():
    shift = model_module.Shift(4)
    with torch.no_grad():
        shift.share.copy_(torch.tensor([0.5, 0.0, 1.0, -0.5]))
    x = torch.tensor([[[2.0, 2.0, 2.0, 2.0], [4.0, 4.0, 4.0, 4.0]]])
    wanted = [[[1.0, 2.0, 0.0, 3.0], [3.0, 4.0, 2.0, 5.0]]]
    assert shift(x).tolist() == wanted
    assert shift.grown(None) is None
    # Of rows of length 4 and 8, the fourth channel of the second could come to 8 * 1.5 + 4 * 0.5.
    assert shift.grown(8.0).item() == pytest.approx(16.0)
    assert shift(x).abs().amax() <= shift.grown(8.0)


def test_what_a_shift_makes_longer_stays_within_the_bound_of_fp8(monkeypatch):
    seen = []
    real = model_module.fp8_linear

    def watched(x, weight, limit=None):
        if weight.shape[0] == 3 * x.shape[-1]:
            seen.append((x.detach().float().abs().amax().item(), float(limit)))
        return real(x, weight, limit)

    monkeypatch.setattr(model_module, "fp8_linear", watched)
    gpt = made(precision="fp8", norm="rms", token_shift=True, width=32)
    with torch.no_grad():
        for block in gpt.blocks:
            block.shift.share.fill_(-3.0)
    gpt(*batch())
    assert len(seen) == 2
    assert all(largest <= limit == pytest.approx(7 * 32**0.5) for largest, limit in seen)


def test_wide_heads_are_half_as_many():
    gpt = made(wide_heads=True, position="rotary", width=32, heads=4)
    q, _, v = gpt.blocks[0].heads(torch.zeros(1, 3, 3, 2, 16), None)
    assert q.shape == v.shape == (1, 2, 3, 16)
    assert gpt.cosine.shape == (16, 8)
    assert sum(each.numel() for each in gpt.parameters()) == sum(
        each.numel() for each in made(position="rotary", width=32, heads=4).parameters()
    )
    assert gpt(*batch()).isfinite()


def test_rotary_scores_depend_on_the_distance_alone():
    q, k = normal(2, 16, seed=3).cpu()  # of a thousand other draws one has two scores that are nearly the same
    cosine, sine = rotary_table(40, 16)

    def score(i, j):
        one = rotate(q.view(1, 1, 1, -1), cosine[i : i + 1], sine[i : i + 1])
        other = rotate(k.view(1, 1, 1, -1), cosine[j : j + 1], sine[j : j + 1])
        return (one * other).sum()

    torch.testing.assert_close(score(7, 3), score(34, 30), atol=1e-4, rtol=1e-4)
    assert abs(score(7, 3) - score(7, 5)) > 1e-3
    torch.testing.assert_close(score(5, 5), q @ k, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("cap", [0.0, 5.0])
def test_the_loss_in_chunks_equals_the_plain_one(cap, monkeypatch):
    monkeypatch.setattr(loss_module, "LOSS_CHUNK", 7)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(20, 8, generator=draw, dtype=torch.float64, requires_grad=True)
    head = (3 * torch.randn(30, 8, generator=draw, dtype=torch.float64)).requires_grad_()
    targets = torch.randint(30, (20,), generator=draw)
    z = x @ head.t()
    wanted = F.cross_entropy(cap * torch.tanh(z / cap) if cap else z, targets)
    found = chunked_loss(x, head, targets, (cap, None, False, False), model_module.called)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(torch.autograd.grad(2 * found, (x, head)), torch.autograd.grad(2 * wanted, (x, head)),
                            strict=True):  # fmt: skip
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cap", [0.0, 5.0])
@pytest.mark.parametrize("form", ["chunks", "kernel"])
def test_a_fused_loss_trains_the_model_as_the_plain_one_does(form, cap):
    where = "cuda" if form == "kernel" and torch.cuda.is_available() else "cpu"  # it is interpreted where no GPU is
    as_the_plain_one({"softcap": cap}, {"loss": form}, where)


@pytest.mark.parametrize("qk_norm", [False, True])
def test_queries_and_keys_by_a_kernel_train_the_model_as_the_plain_ones_do(qk_norm):
    where = "cuda" if torch.cuda.is_available() else "cpu"
    base = {"position": "rotary", "qk_norm": qk_norm, "width": 32, "heads": 2, "value_skip": True}
    as_the_plain_one(base, {"rotation": "kernel"}, where)


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_an_mlp_by_a_kernel_trains_the_model_as_the_plain_one_does(norm):
    where = "cuda" if torch.cuda.is_available() else "cpu"
    as_the_plain_one({"activation": "squared relu", "norm": norm}, {"mlp": "kernel"}, where)


def as_the_plain_one(base, changes, where):
    tokens, targets = (one.to(where) for one in batch())
    found = []
    for each in ({}, changes):
        gpt = made(**base, **each).to(where)
        value = gpt(tokens, targets)
        value.backward()
        found.append((value.detach(), *(param.grad for param in gpt.parameters())))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_rows_of_padding_are_never_predicted():
    gpt = made(padded_vocabulary=True)
    assert gpt.table.shape[0] == 64
    tokens, targets = batch()
    with torch.no_grad():
        gpt.table[WORDS:] = gpt.table[3]  # as likely as a word
        logits = gpt.logits(gpt.norm(gpt.hidden(tokens)))
        assert logits.shape[-1] == 64
        logits = logits[..., :WORDS]
        honest = F.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1))
        assert gpt(tokens, targets) > honest  # what padding gets is lost: the loss is never flattered


def test_a_zero_head_starts_at_equal_odds():
    gpt = made(zero_init=True, tied=False)
    assert gpt(*batch()).item() == pytest.approx(math.log(WORDS))
    x = normal(1, 16, 32).cpu()
    torch.testing.assert_close(gpt.blocks[0](x, None, None, None)[0], x)


def test_value_skips_start_as_the_plain_model():
    tokens, targets = batch()
    torch.testing.assert_close(made(value_skip=True)(tokens, targets), made()(tokens, targets))


def test_values_come_out_only_where_others_need_them():
    """A compiled block would write them, and zeros as their gradient."""
    x, skipping = normal(1, 16, 32).cpu(), made(value_skip=True)
    first = skipping.blocks[0](x, None, None, None)[1]
    assert first is not None
    assert skipping.blocks[1](x, first, None, None)[1] is None
    assert made().blocks[0](x, None, None, None)[1] is None


def test_value_skips_reach_later_blocks():
    gpt = made(value_skip=True)
    gpt(*batch()).backward()
    assert gpt.skips.grad.abs().min() > 0
    assert gpt.blocks[1].value_mix.grad.abs().min() > 0


def test_the_norms_are_those_of_torch():
    x = normal(5, 32)
    torch.testing.assert_close(model_module.rms(x), F.rms_norm(x, (32,), eps=1e-6))


def test_squared_relu():
    gpt = made(activation="squared relu")
    hidden = gpt.blocks[0].up(gpt.blocks[0].norm2(torch.ones(1, 1, 32)))
    assert (F.relu(hidden).square() >= 0).all()
    assert gpt(*batch()).item() != made()(*batch()).item()


def test_a_cap_bounds_the_logits():
    gpt = made(softcap=2.0)
    with torch.no_grad():
        gpt.table.mul_(500)
        assert gpt.logits(gpt.norm(gpt.hidden(batch()[0]))).abs().max() <= 2.0


WHERE = "cuda" if torch.cuda.is_available() else "cpu"


def normal(*shape, seed=0, scale=1.0):
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(WHERE)


def relative(found, wanted):
    return ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()


@pytest.mark.parametrize("limit", [None, 8.0])
def test_fp8_is_near_bf16_and_its_gradients_are_products_in_bf16(limit):
    x = model_module.rms(normal(32, 64)).bfloat16().requires_grad_()
    weight = normal(48, 64, seed=1).requires_grad_()
    plain = F.linear(x.float(), weight)
    found = fp8_linear(x, weight, limit)
    # Two operands with 3 bits of mantissa, each with an error of up to 2^-4, 2.6 % in the mean.
    assert 0.01 < relative(found, plain) < 0.05
    assert relative(fp8_product(x.detach(), weight_codes(weight.detach()), limit), plain) < 0.05
    grad = normal(32, 48, seed=2)
    ours = torch.autograd.grad(found, (x, weight), grad.bfloat16())
    theirs = torch.autograd.grad(plain, (x, weight), grad)
    assert max(relative(one, other) for one, other in zip(ours, theirs, strict=True)) < 0.01
    assert ours[1].dtype == torch.float32


def test_an_mlp_in_fp8_is_near_the_one_in_bf16():
    x = model_module.rms(normal(48, 32)).bfloat16().requires_grad_()
    up, down = (normal(*shape, seed=i, scale=0.2).requires_grad_() for i, shape in enumerate([(64, 32), (32, 64)]))
    plain = F.linear(F.linear(x.float(), up).relu().square(), down)
    found = fp8_mlp(x, up, down, 32**0.5)
    assert 0.01 < relative(found, plain) < 0.08  # an error is doubled by the square, and there are two products
    grad = normal(48, 32, seed=2)
    ours = torch.autograd.grad(found, (x, up, down), grad.bfloat16())
    theirs = torch.autograd.grad(plain, (x, up, down), grad)
    # The activation, and so the gradient, is that of operands in 8 bits.
    assert max(relative(one, other) for one, other in zip(ours, theirs, strict=True)) < 0.08
    torch.testing.assert_close(fp8_mlp(x, up, down), found, rtol=0.1, atol=0.02 * found.abs().max().item())
    assert 0.01 < relative(fp8_mlp(x, up, down), plain) < 0.08  # by the largest that there is, as near as by a bound


def test_nothing_exceeds_its_bound_even_where_it_is_reached():
    weight = normal(16, 32)
    x = weight[weight.norm(dim=1).argmax()][None] / longest(weight) * 32**0.5  # as long as a norm leaves a row
    h = F.linear(x, weight)
    bound = reach(weight, 32**0.5)
    assert h.abs().max().item() == pytest.approx(bound.item(), rel=1e-5)
    for value, most in ((h, bound), (h.square(), reach(weight, 32**0.5, 2)), (weight, longest(weight))):
        codes, scale = codes_of(value, most * (1 + 1e-6))
        assert codes.float().abs().max() <= 448
        big = value.abs() > most * 2.0**-14
        assert ((codes.float() * scale - value).abs() <= value.abs() * 2.0**-4 * 1.001)[big].all()


def test_codes_beyond_a_bound_saturate_zeros_have_a_scale_and_nan_stays():
    one = torch.tensor(1.0)
    codes, scale = codes_of(torch.tensor([3.0, -math.inf, math.nan, 0.5]), one)
    assert codes.float()[[0, 1, 3]].tolist() == [448, -448, 224]
    assert codes.float()[2].isnan()
    assert (codes.float() * scale)[3] == 0.5
    codes, scale = codes_of(torch.zeros(3), 0 * one)
    assert not (codes.float() * scale).any()


@pytest.mark.parametrize("mlp", ["plain", "kernel"])
def test_fp8_is_one_compiled_graph(mlp):
    base = {"activation": "squared relu", "norm": "rms", "loss": "chunks", "padded_vocabulary": True, "softcap": 5.0}
    tokens, targets = (one.to(WHERE) for one in batch())
    gpt = made(precision="fp8", mlp=mlp, **base).to(WHERE)
    with quiet():
        whole = torch.compile(gpt, fullgraph=True, dynamic=False, backend="aot_eager")
        found = whole(tokens, targets)
        found.backward()
    grads = [param.grad.clone() for param in gpt.parameters()]
    gpt.zero_grad()
    wanted = gpt(tokens, targets)
    wanted.backward()
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=0)
    for param, grad in zip(gpt.parameters(), grads, strict=True):
        assert relative(grad, param.grad) < 0.02
    with torch.no_grad():
        wide = made(precision="bf16", **base).to(WHERE)(tokens, targets)
    assert abs(found - wide) < 0.01


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"attention": "magic"}, "expected attention to be one of plain, fused, kernel, window; found 'magic'"),
        ({"width": 33}, "even multiple of the heads"),
        ({"batch": 0}, "expected batch to be 1 or more"),
        ({"batch": 1.5}, "expected batch to be a whole number"),
        ({"lr": float("nan")}, "expected lr to be a number of zero or more"),
        ({"graph": 1}, "expected graph to be True or False"),
        ({"zero_init": True}, "expected tied=False with zero_init"),
        ({"wide_heads": True, "heads": 1}, "expected an even number of heads with wide_heads; found 1"),
        ({"rotation": "kernel"}, "expected position 'rotary' with rotation 'kernel'; found 'learned'"),
        ({"mlp": "kernel"}, "expected activation 'squared relu' with mlp 'kernel'; found 'gelu'"),
        ({"warmup": 0.6, "cooldown": 0.6}, "share the run"),
        ({"speed": 3}, "expected a switch of a run"),
        ({"threads": 100_000}, "expected threads to be at most 1,024; found 100000"),
        ({"table_factor": 1e300}, "expected table_factor to be at most 10,000,000,.*; found 1e.300"),
        ({"beta1": 1.0}, "expected beta1 to be at most 0.9999; found 1.0"),
        ({"epsilon": 0.0}, "expected epsilon to be 1e-30 or more; found 0.0"),
        ({"seed": 10**23}, "expected seed to be at most 4,611,686,018,427,387,904; found 100000000"),
    ],
)
def test_a_config_that_cannot_be_is_refused_in_a_sentence(changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        config(**changes)
