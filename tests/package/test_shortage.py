"""One sentence for every framework's way to say that memory was not enough."""

import numpy as np
import pytest

from rooflab.counters import count
from rooflab.measurement import measure
from rooflab.shortage import OutOfMemory, clear_shortage, is_shortage

TORCH_GPU = (
    "CUDA out of memory. Tried to allocate 1024.00 GiB. GPU 0 has a total capacity of 139.81 GiB of which 138 GiB is "
    "free.\nSee documentation for Memory Management"
)
MESSAGES = [
    TORCH_GPU,
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "4503599627370496 bytes. Error code 12 (Cannot allocate memory)",
    "RESOURCE_EXHAUSTED: Out of memory allocating 4503599627370496 bytes.",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "MPS backend out of memory (MPS allocated: 1.00 GB)",
    "Storage size calculation overflowed with sizes=[4611686018427387904]",
]


@pytest.mark.parametrize("message", MESSAGES)
def test_known_messages_become_one_sentence(message):
    with pytest.raises(OutOfMemory) as caught, clear_shortage("measuring 'mm'"):
        raise RuntimeError(message)
    assert str(caught.value).startswith("Measuring 'mm' needs more memory than is free here: choose smaller sizes")
    assert "\n" not in str(caught.value)
    assert str(caught.value.__cause__) == message


@pytest.mark.parametrize(
    ("message", "amounts"),
    [
        (TORCH_GPU, r"\(1\.1 TB asked for, 148 GB free of 150 GB; CUDA out of memory\)\.$"),
        (MESSAGES[1], r"\(4\.5 PB asked for, [\d.]+ [GT]B main memory in all; \[enforce fail"),
        (MESSAGES[2], r"\(4\.5 PB asked for; RESOURCE_EXHAUSTED: Out of memory"),
        (MESSAGES[3], r"\(CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
        ("Unable to allocate 7.45 GiB for an array", r"\(8 GB asked for, [\d.]+ [GT]B main memory in all; Unable"),
        ("MPS backend out of memory (MPS allocated: 1 GB). Tried to allocate 256 bytes on shared pool.", "256 B asked"),
    ],
)
def test_the_sentence_says_how_much_was_asked_for_and_how_much_there_is(message, amounts):
    with pytest.raises(OutOfMemory, match=amounts), clear_shortage("x"):
        raise RuntimeError(message)


def test_counting():
    torch = pytest.importorskip("torch", reason="needs torch")

    def huge():
        return torch.ones(2**50) + 1

    for world in (None, "torch"):
        with pytest.raises(OutOfMemory, match=r"^Counting 'huge' needs more memory .*4.5 PB asked for") as caught:
            count(huge, world=world)
        assert "\n" not in str(caught.value)
    with pytest.raises(RuntimeError, match=r"^shapes do not fit$"):
        count(lambda: (_ for _ in ()).throw(RuntimeError("shapes do not fit")))


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match=r"^shapes do not fit$"), clear_shortage("x"):
        raise RuntimeError("shapes do not fit")
    assert not is_shortage(ValueError("a"))


def test_a_sentence_is_not_wrapped_twice():
    with pytest.raises(OutOfMemory, match=r"^Inner") as caught, clear_shortage("outer"), clear_shortage("inner"):
        raise MemoryError
    assert "(MemoryError)" in str(caught.value)


def test_numpy():
    with pytest.raises(OutOfMemory, match="Measuring 'huge' needs more memory"):
        measure(lambda: np.empty(2**58, dtype=np.uint8), name="huge")


def test_torch():
    torch = pytest.importorskip("torch", reason="needs torch")
    with pytest.raises(OutOfMemory, match="Measuring 'huge' needs more memory") as caught:
        measure(lambda: torch.empty(2**58, dtype=torch.uint8), name="huge")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_jax():
    jax = pytest.importorskip("jax", reason="needs jax")
    with pytest.raises(OutOfMemory, match="Measuring 'huge' needs more memory") as caught:
        measure(jax.jit(lambda: jax.numpy.full((2**25, 2**25), 1, dtype="uint8")), name="huge")
    assert "\n" not in str(caught.value)
