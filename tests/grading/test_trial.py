"""Timed calls as the grader verifies them: by blocks of their results that are drawn by lot."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from rooflab.grading.clock import RemoteRunner  # noqa: E402
from rooflab.grading.remote import StudentError  # noqa: E402
from rooflab.grading.timed import Timed, normal, rows  # noqa: E402
from rooflab.grading.trial import Trial  # noqa: E402

# Few enough for one piece, one block, several blocks with a rest, and bytes that are no whole words.
SHAPES = [(7, 9), (100, 60), (300, 311), (3, 25_001)]


def double(x):
    return 2 * x


@pytest.fixture(autouse=True)
def with_ballast(monkeypatch):
    """A CPU needs none; a device has some."""
    from rooflab.grading import timed, trial

    for module in (timed, trial):
        monkeypatch.setattr(module, "ballast", lambda device: torch.arange(5000, dtype=torch.int32))


def trial_of(shape, dtype="bf16", reference=double, inputs=None):
    return Trial(reference, inputs or [normal(shape, dtype)], "cpu", dtype, 1)


def verified(trial, function, calls=3, change=lambda told: told, times=1):
    for seed in range(times):
        timed = Timed(trial.inputs, "cpu")
        digest = timed.go(function, seed, 77, calls)
        blocks = timed.blocks
        trial.verify_blocks(
            lambda which, blocks=blocks: [change(blocks(*one)) for one in enumerate(which)], seed, 77, digest, calls
        )


@pytest.mark.parametrize("dtype", ["bf16", "fp32", "fp64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_right_passes(shape, dtype):
    verified(trial_of(shape, dtype), double, times=3)


def test_several_results_and_formats_pass():
    trial = trial_of((300, 311), "fp32", lambda x, y: (x + y, x.sum(-1)), [normal((300, 311)), normal((300, 311))])
    trial.length = 311
    verified(trial, lambda x, y: (x + y, x.sum(-1)))


def test_a_function_may_use_one_buffer_for_all_calls():
    buffer = torch.empty(300, 311, dtype=torch.bfloat16)
    verified(trial_of((300, 311)), lambda x: torch.mul(x, 2, out=buffer))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "function",
    [lambda x: x, lambda x: 2 * x + 1, lambda x: -2 * x, torch.zeros_like],
    ids=["same", "more", "sign", "0"],
)
def test_what_is_wrong_does_not(shape, function):
    with pytest.raises(AssertionError, match="are wrong"):
        verified(trial_of(shape), function)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("function", [lambda x: 2 * x[:-1], lambda x: (2 * x, x), lambda x: 2 * x.float()])
def test_other_shapes_and_formats_do_not(shape, function):
    with pytest.raises(AssertionError, match=r"expected results of the shapes|when the clock stopped"):
        verified(trial_of(shape), function, calls=50)  # one of two blocks is shorter: (1/2)^50 would pass


def test_a_call_that_is_left_out_is_found():
    kept = []

    def lazy(x):
        kept.append(2 * x)
        return kept[-1] if len(kept) % 3 else kept[-2]

    with pytest.raises(AssertionError, match="are wrong"):
        verified(trial_of((300, 311)), lazy)


def test_a_part_that_is_left_out_is_found_soon():
    def partly(x):
        y = 2 * x
        y[:100] = 0
        return y

    with pytest.raises(AssertionError, match="are wrong"):
        verified(trial_of((300, 311)), partly, times=20)  # one of three blocks: (2/3)^60 would pass


@pytest.mark.parametrize("place", [0, 1])
def test_what_is_handed_in_later_does_not_belong_to_the_digest(place):
    def changed(told):
        told[place] = told[place].copy()
        told[place][0] ^= 1
        return told

    with pytest.raises(AssertionError, match="not those that were there when the clock stopped"):
        verified(trial_of((300, 311)), double, change=changed, times=3)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: [],
        lambda told: told[:1],
        lambda told: [told[0], told[1].astype("int64")],
        lambda told: [told[0], told[1][None]],
        lambda told: [told[0][:-1], told[1]],
        lambda told: [told[0], "blocks"],
        lambda told: [None, None],
    ],
)
def test_answers_that_are_none_are_refused(change):
    with pytest.raises(AssertionError, match="expected results of the shapes"):
        verified(trial_of((300, 311)), double, change=change)


def test_results_of_one_call_are_not_those_of_another():
    trial = trial_of((300, 311))
    timed = Timed(trial.inputs, "cpu")
    digest = timed.go(double, 5, 77, 3)
    for order in ([1, 0, 2], [0, 1, 1]):
        with pytest.raises(AssertionError, match="when the clock stopped"):
            trial.verify_blocks(
                lambda which, order=order: [timed.blocks(call, one) for call, one in zip(order, which, strict=True)],
                5, 77, digest, 3,
            )  # fmt: skip


def test_all_results_of_one_call_are_verified():
    trial = trial_of((300, 311))
    timed = Timed(trial.inputs, "cpu")
    digest = timed.go(double, 5, 77)
    trial.verify(timed.fetch(), 5, 77, digest)
    with pytest.raises(AssertionError, match="when the clock stopped"):
        trial.verify(timed.fetch(), 5, 77, digest ^ 1)
    with pytest.raises(AssertionError, match="expected results of the shapes"):
        trial.verify([*timed.fetch(), *timed.fetch()], 5, 77, digest)


REDUCING = {
    "rms_norm": (lambda x: torch.nn.functional.rms_norm(x.float(), x.shape[-1:]), lambda x: x),
    "layer_norm": (lambda x: torch.nn.functional.layer_norm(x.float(), x.shape[-1:]), lambda x: x),
    "softmax": (lambda x: x.float().softmax(-1), lambda x: (x.float().exp() / x.shape[-1] / np.e**0.5).bfloat16()),
    "logsumexp": (lambda x: x.float().logsumexp(-1), lambda x: torch.full_like(x[:, 0], 0.5 + np.log(x.shape[-1]))),
}


@pytest.mark.parametrize("name", REDUCING)
def test_rows_that_nobody_reduces_are_found_if_they_differ(name):
    reference, guess = REDUCING[name]
    # Sums of exponentials differ by 0.7 % between rows of 32,768 numbers, a fourth of what the largest may be wrong by.
    for recipe, found in ((normal((16, 32_768), "bf16"), False), (rows((16, 32_768), "bf16"), True)):
        trial = Trial(reference, [recipe], "cpu", "bf16", 32_768)
        verified(trial, lambda x: reference(x).bfloat16())
        if found:
            with pytest.raises(AssertionError, match="are wrong"):
                verified(trial, guess)
        else:
            verified(trial, guess)


class Telling:
    """A clock and a session whose process answers whatever it likes."""

    def __init__(self, value):
        self.value, self.session, self.asked = value, self, 0

    def ask(self, head, *, probe):
        self.asked += 1
        return {}, self.value

    def hold(self, still):
        pass


@pytest.mark.parametrize("value", ["blocks", [1, 2], [None] * 3, [[[]] * 1000, []], {}])
def test_what_is_no_part_of_a_result_is_not_kept(value):
    assert RemoteRunner(Telling(value), 0, probe=False).blocks([[0]] * 3) == [[], [], []]


def test_answers_about_one_reading_are_limited_together():
    part = np.broadcast_to(np.zeros(1, np.int32), 2**26)
    clock = Telling([part, part])
    with pytest.raises(StudentError, match="more than 1,073,741,824 bytes"):
        RemoteRunner(clock, 0, probe=False).blocks([[0]] * 128)
    assert clock.asked == 3


def test_results_that_are_too_large_to_be_compared_are_refused_before_anything_is_timed(monkeypatch):
    from rooflab.grading import trial

    monkeypatch.setattr(trial, "_MOST_BYTES", 2**20)
    with pytest.raises(ValueError, match="results of one call are 2 MiB; at most 1 MiB"):
        trial_of((1024, 1024))
