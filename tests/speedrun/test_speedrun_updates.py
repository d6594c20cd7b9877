"""Updates, batches and the learning rate."""

import itertools

import numpy as np
import pytest

from rooflab.speedrun.batches import Batches, DataError, on_device, validation
from rooflab.speedrun.model import GPT
from rooflab.speedrun.muon import Muon, orthogonal
from rooflab.speedrun.optimizers import Updates, clipped, lay_out, rate
from rooflab.speedrun.ranks import Ranks

from .toys import config

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 8, 32), (2, 32, 8)])
def test_an_update_of_muon_is_orthogonal(shape):
    stack = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(stack).float())
    assert values.min() > 0.3
    assert values.max() < 1.3
    u, _, vh = torch.linalg.svd(stack, full_matrices=False)
    nearest = u @ vh
    assert ((orthogonal(stack) * nearest).sum() / nearest.square().sum()).item() == pytest.approx(1, abs=0.25)


def test_muon_against_its_formula():
    params, grads = torch.ones(2, 8, 4), torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(1))
    muon, before = Muon([(params, grads)], Ranks(), momentum=0.9, weight_decay=0.1), params.clone()
    muon.step(0.5)
    average = 0.1 * grads
    wanted = before * (1 - 0.05) - 0.5 * 2**0.5 * orthogonal(grads * 0.1 + average * 0.9)
    torch.testing.assert_close(params, wanted, rtol=1e-4, atol=1e-5)


def test_muon_in_two_kernels_does_the_same_and_is_compiled_once_for_all_rates():
    made = torch.Generator().manual_seed(1)
    grads = [torch.randn(2, 8, 4, generator=made) for _ in range(3)]
    params, plain = torch.ones(2, 8, 4), torch.ones(2, 8, 4)
    held, taken = torch.empty(2, 8, 4), torch.empty(2, 8, 4)
    fused = Muon([(params, held)], Ranks(), momentum=0.9, weight_decay=0.1, fused=True)
    eager = Muon([(plain, taken)], Ranks(), momentum=0.9, weight_decay=0.1)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rate_now, grad in zip((0.5, 0.25, 0.125), grads, strict=True):
            held.copy_(grad), taken.copy_(grad)
            fused.step(rate_now), eager.step(rate_now)
    torch.testing.assert_close(params, plain, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(fused.averages, eager.averages)


def test_parameters_lie_side_by_side():
    gpt = GPT(config(value_skip=True))
    before = {name: param.detach().clone() for name, param in gpt.named_parameters()}
    buffers = lay_out(gpt)
    for name, param in gpt.named_parameters():
        assert torch.equal(param, before[name])
        assert param.data_ptr() % 16 == 0 or param.numel() < 4
    gpt(torch.zeros(1, 4, dtype=torch.int64), torch.ones(1, 4, dtype=torch.int64)).backward()
    total = sum(param.grad.square().sum() for param in gpt.parameters())
    torch.testing.assert_close(buffers.grads.square().sum(), total)
    stacks = [tuple(params.shape) for params, _ in buffers.stacks]
    assert sorted(stacks) == [(2, 32, 32), (2, 32, 128), (2, 128, 32), (6, 32, 32)]
    place = next(params for params, _ in buffers.stacks if params.shape[0] == 6)
    assert torch.equal(place[:3].reshape(96, 32), gpt.blocks[0].qkv.weight)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_making_the_optimizers_changes_nothing(optimizer):
    gpt = GPT(config(optimizer=optimizer))
    buffers = lay_out(gpt)
    before = buffers.params.clone()
    updates = Updates(buffers, config(optimizer=optimizer), Ranks())
    assert torch.equal(buffers.params, before)
    assert all(not state.any() for state in updates.states())
    assert len(updates.states()) > 3


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_tables_have_a_rate_of_their_own(optimizer):
    """A first step of AdamW is as long as its rate, whatever the gradient."""
    chosen = config(optimizer=optimizer, table_factor=5.0, weight_decay=0.0, lr=1e-3, tied=False)
    gpt = GPT(chosen)
    buffers = lay_out(gpt)
    updates = Updates(buffers, chosen, Ranks())
    before = {name: param.detach().clone() for name, param in gpt.named_parameters()}
    buffers.grads.fill_(1.0)
    updates.set(1.0)
    updates.step()
    # The difference of two parameters is as far off as each is rounded, so that no two need be the same.
    moved = {name: float((before[name] - param.detach()).max()) for name, param in gpt.named_parameters()}
    assert moved["table"] == pytest.approx(5e-3, rel=1e-3)
    assert moved["untied"] == pytest.approx(5e-3, rel=1e-3)
    assert moved["norm.gain"] == pytest.approx(1e-3, rel=1e-3)
    if optimizer == "adamw":
        assert moved["blocks.0.up.weight"] == pytest.approx(1e-3, rel=1e-3)


def test_adamw_is_that_of_torch():
    torch.manual_seed(0)
    gpt = GPT(config())
    other = GPT(config())
    other.load_state_dict(gpt.state_dict())
    buffers = lay_out(gpt)
    updates = Updates(buffers, config(), Ranks())
    plain = torch.optim.AdamW(
        [{"params": [p for p in other.parameters() if p.ndim > 1], "weight_decay": 0.1},
         {"params": [p for p in other.parameters() if p.ndim < 2], "weight_decay": 0.0}], lr=1e-2, betas=(0.9, 0.95),
    )  # fmt: skip
    batch = torch.randint(50, (2, 3, 16), generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        buffers.grads.zero_()
        plain.zero_grad()
        gpt(*batch).backward()
        other(*batch).backward()
        updates.set(1.0)
        updates.step()
        plain.step()
    for ours, theirs in zip(gpt.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_gradients_are_clipped_to_a_norm_and_dropped_where_they_are_none():
    grads = torch.full((4,), 3.0)
    assert clipped(grads, 1.5).item() == pytest.approx(6.0)
    assert grads.norm().item() == pytest.approx(1.5, rel=1e-4)
    grads = torch.tensor([1.0, 2.0])
    clipped(grads, 0.0)
    assert grads.tolist() == [1.0, 2.0]
    grads = torch.tensor([1.0, float("nan")])
    assert clipped(grads, 1.0).isnan()
    assert grads.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("schedule", ["cosine", "trapezoid"])
def test_the_rate_rises_and_falls(schedule):
    shares = [rate(config(schedule=schedule, warmup=0.1), step, 200) for step in range(200)]
    assert shares[0] == pytest.approx(0.05)
    assert max(shares) == pytest.approx(1.0)
    assert all(b <= a for a, b in itertools.pairwise(shares[20:]))
    assert shares[-1] < 0.11


def test_batches_never_repeat_and_ranks_never_overlap():
    text = np.arange(1000)
    seen = []
    for rank in range(3):
        batches = Batches(text, length=9, sequences=4, seed=5, rank=rank, world=3)
        for step in range(batches.steps):
            inputs, targets = batches.at(step)
            assert (targets == inputs + 1).all()
            seen += [*inputs.reshape(-1), *targets[:, -1]]
    assert len(seen) == len(set(seen)) == 8 * 3 * 4 * 10


def test_two_ranks_see_what_one_with_twice_the_batch_sees():
    whole = Batches(np.arange(1000), length=9, sequences=8, seed=1)
    parts = [Batches(np.arange(1000), length=9, sequences=4, seed=1, rank=rank, world=2) for rank in range(2)]
    for step in range(whole.steps):
        both = np.concatenate([part.at(step)[0] for part in parts])
        assert (both == whole.at(step)[0]).all()


def test_a_step_is_the_same_whenever_it_is_asked_for():
    one, other = (Batches(np.arange(500), length=4, sequences=2, seed=3) for _ in range(2))
    for step in (7, 0, 3):
        assert (one.at(step)[0] == other.at(step)[0]).all()
    assert (one.at(0)[0] != Batches(np.arange(500), length=4, sequences=2, seed=4).at(0)[0]).any()


def test_the_end_of_the_text_is_told():
    batches = Batches(np.arange(100), length=9, sequences=4, seed=0)
    with pytest.raises(DataError, match=r"100 tokens, which last for 2 steps of 4 sequences of 9; step 3"):
        batches.at(2)
    with pytest.raises(DataError, match="expected at least 10"):
        validation(np.arange(9), 9, 100)


def test_validation_windows_are_the_same_for_all():
    inputs, targets = validation(np.arange(1000), 9, 50)
    assert inputs.shape == (5, 9)
    assert (targets == inputs + 1).all()
    assert validation(np.arange(1000), 9, 10_000)[0].shape == (96, 9)


def test_a_loader_that_is_ahead_gives_the_same():
    batches = Batches(np.arange(1000), length=9, sequences=4, seed=0)
    plain, ahead = (
        [inputs.tolist() for inputs, _ in on_device(batches, 3, 9, torch.device("cpu"), ahead=each)]
        for each in (False, True)
    )
    assert plain == ahead
    assert len(plain) == 6


def test_an_error_in_the_loader_comes_out_and_leaving_early_ends_it():
    import threading

    batches = Batches(np.arange(1000), length=9, sequences=4, seed=0)
    with pytest.raises(DataError, match="would repeat"):
        list(on_device(batches, 20, 40, torch.device("cpu"), ahead=True))
    source = on_device(batches, 0, 20, torch.device("cpu"), ahead=True)
    next(source)
    source.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("speedrun-loader")]
