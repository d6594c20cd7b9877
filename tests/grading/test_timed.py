"""The digest and the inputs of a timed call, on the CPU."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from rooflab.grading.digest import digest_of  # noqa: E402
from rooflab.grading.guest import _Guest  # noqa: E402
from rooflab.grading.timed import Timed, integers, normal, plain, recipes_of, rows, uniform  # noqa: E402


def test_recipes_are_the_same_after_a_journey():
    recipes = [normal((2, 3), "bf16"), rows((2, 3), "bf16"), uniform((4,), low=-1, high=2), integers((5,), 0, 10)]
    assert recipes_of(plain(recipes)) == recipes


def test_the_same_seed_gives_the_same_inputs_and_another_one_others():
    one, other = (Timed([normal((64,)), integers((8,), 0, 1000)], "cpu") for _ in range(2))
    digests = [timed.go(lambda x, i: (x + 1, i), seed, 5) for timed, seed in ((one, 1), (other, 1), (one, 2))]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.clone().index_fill_(0, torch.tensor([3]), 9.0),
        lambda x: x.flip(0),
        lambda x: x[:-1],
        lambda x: torch.nextafter(x, torch.tensor(9.0)),
    ],
)
@pytest.mark.parametrize("size", [101, 10_001, 70_000])
def test_a_digest_sees_every_change(change, size):
    x = torch.randn(size, generator=torch.Generator().manual_seed(0))
    assert digest_of([x], 1) == digest_of([x.clone()], 1)
    assert digest_of([x], 1) != digest_of([change(x)], 1)
    assert digest_of([x], 1) != digest_of([x], 2)
    assert digest_of([x, x], 1) != digest_of([x], 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.float64, torch.uint8])
def test_results_of_any_format_have_a_digest(dtype):
    x = torch.arange(7).to(dtype)
    assert digest_of([x], 3) == digest_of([x.clone()], 3)


def test_results_are_fetched_as_their_bytes():
    timed = Timed([normal((3,))], "cpu")
    timed.go(lambda x: x.double(), 1, 1)
    [raw] = timed.fetch()
    assert raw.nbytes == 24


def test_what_is_read_around_a_call_and_before_it_is_part_of_the_digest(monkeypatch):
    from rooflab.grading import timed
    from rooflab.grading.ballast import lead

    monkeypatch.setattr(timed, "ballast", lambda device: torch.arange(64, dtype=torch.int32))
    honest, lazy = Timed([normal((8,))], "cpu"), Timed([normal((8,))], "cpu")
    digest = honest.go(abs, 3, 5)
    assert digest == lazy.go(abs, 3, 5)
    lazy.ballast = torch.zeros(64, dtype=torch.int32)
    assert digest != lazy.go(abs, 3, 5)
    lazy.ballast = honest.ballast
    monkeypatch.setattr(timed, "lead", lambda ballast, key, calls: lead(ballast, key, 0))
    assert digest != lazy.go(abs, 3, 5)


def test_results_of_a_function_are_not_kept_when_the_next_one_is_timed():
    guest = _Guest.__new__(_Guest)
    guest.timers, guest.objects, guest.reply = [], {0: abs}, lambda told: None
    head = {"recipes": plain([normal((3,))]), "device": "cpu", "framework": "torch", "target": 0}
    guest.timer(head)
    guest.timers[0][0].go(abs, 1, 1, 4)
    assert len(guest.timers[0][0].calls) == 4
    guest.timer(head)
    assert guest.timers[0][0].calls == []
