"""Each switch of the model against a plain reference."""

import math

import pytest

from rooflab.speedrun import model as model_module
from rooflab.speedrun.attention import attend, rotary_table, rotate, window_mask
from rooflab.speedrun.config import ConfigError
from rooflab.speedrun.fp8 import fp8_linear, fp8_product, quantize
from rooflab.speedrun.model import GPT, chunked_loss

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
        gpt = made(attention=form, position="rotary", value_skip=True)
        tokens = batch()[0]
        other = tokens.clone()
        other[:, 10:] = (other[:, 10:] + 1) % WORDS
        mask = window_mask(16, 4, torch.device("cpu")) if form == "window" else None
        with torch.no_grad():
            before, after = gpt.logits(tokens, mask), gpt.logits(other, mask)
        torch.testing.assert_close(before[:, :10], after[:, :10])
        assert not torch.allclose(before[:, 10:], after[:, 10:])


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
    q, k = torch.randn(2, 16, dtype=torch.float32)
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
    monkeypatch.setattr(model_module, "_CHUNK", 7)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(20, 8, generator=draw, dtype=torch.float64, requires_grad=True)
    head = (3 * torch.randn(30, 8, generator=draw, dtype=torch.float64)).requires_grad_()
    targets = torch.randint(30, (20,), generator=draw)
    z = x @ head.t()
    wanted = F.cross_entropy(cap * torch.tanh(z / cap) if cap else z, targets)
    found = chunked_loss(x, head, targets, cap)
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
        logits = gpt.logits(tokens)
        assert logits.shape[-1] == WORDS
        honest = F.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1))
        assert gpt(tokens, targets) > honest  # what padding gets is lost: the loss is never flattered


def test_a_zero_head_starts_at_equal_odds():
    gpt = made(zero_init=True, tied=False)
    assert gpt(*batch()).item() == pytest.approx(math.log(WORDS))
    x = torch.randn(1, 16, 32)
    torch.testing.assert_close(gpt.blocks[0](x, None, None, None)[0], x)


def test_value_skips_start_as_the_plain_model():
    tokens, targets = batch()
    torch.testing.assert_close(made(value_skip=True)(tokens, targets), made()(tokens, targets))


def test_value_skips_reach_later_blocks():
    gpt = made(value_skip=True)
    gpt(*batch()).backward()
    assert gpt.skips.grad.abs().min() > 0
    assert gpt.blocks[1].value_mix.grad.abs().min() > 0


def test_the_norms_are_those_of_torch():
    x = torch.randn(5, 32)
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
        assert gpt.logits(batch()[0]).abs().max() <= 2.0


def test_fp8_is_near_bf16():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(32, 64, generator=draw).bfloat16().requires_grad_()
    weight = torch.randn(48, 64, generator=draw).requires_grad_()
    plain = F.linear(x.float(), weight)
    found = fp8_linear(x, weight)
    assert relative(found, plain) < 0.06
    assert relative(fp8_product(weight.detach())(x.detach()), plain) < 0.06
    grad = torch.randn(32, 48, generator=draw)
    ours = torch.autograd.grad(found, (x, weight), grad.bfloat16())
    theirs = torch.autograd.grad(plain, (x, weight), grad)
    assert max(relative(one, other) for one, other in zip(ours, theirs, strict=True)) < 0.12  # e5m2 has 2 bits


def relative(found, wanted):
    return ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()


def test_quantize_uses_the_whole_range_and_survives_zeros():
    codes, scale = quantize(torch.tensor([1e-3, -2e-3]), torch.float8_e4m3fn)
    assert codes.float().abs().max() == 448
    torch.testing.assert_close(codes.float() * scale, torch.tensor([1e-3, -2e-3]))
    codes, scale = quantize(torch.zeros(3), torch.float8_e4m3fn)
    assert not (codes.float() * scale).any()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"attention": "magic"}, "expected attention, one of plain, fused, kernel, window; found 'magic'"),
        ({"width": 33}, "even multiple of the heads"),
        ({"batch": 0}, "expected batch to be 1 or more"),
        ({"batch": 1.5}, "expected batch to be a whole number"),
        ({"lr": float("nan")}, "expected lr to be a number of zero or more"),
        ({"graph": 1}, "expected graph to be True or False"),
        ({"zero_init": True}, "expected tied=False with zero_init"),
        ({"wide_heads": True, "heads": 1}, "expected an even number of heads with wide_heads; found 1"),
        ({"rotation": "kernel"}, "expected position 'rotary' with rotation 'kernel'; found 'learned'"),
        ({"warmup": 0.6, "cooldown": 0.6}, "share the run"),
        ({"speed": 3}, "expected a switch of a run"),
    ],
)
def test_a_config_that_cannot_be_is_refused_in_a_sentence(changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        config(**changes)
