"""What a launch of the loss's kernels costs: on the host, and in the machine code between two tiles of products."""

import pytest

from rooflab import kernels
from rooflab.kernels.loss import torch_chunk
from rooflab.kernels.loss import torch_linear_cross_entropy as loss
from rooflab.kernels.products import torch_operands

from .agreement import DEVICE, random, torch
from .compiling import told_elsewhere

SASS = """
import json
from rooflab.kernels.catalogue import find_build
from rooflab.kernels.compiled import compile_for
sass = compile_for(find_build("logits"), "sm90").text["sass"].splitlines()
print(json.dumps([sum(name in line for line in sass) for name in ("F2F.", "F2FP.", "MUFU.EX2")]))
"""


@pytest.mark.parametrize(("tokens", "times"), [(48, 1), (50, 2), (5, 1)])
def test_chunks_of_one_size_are_prepared_once(monkeypatch, tokens, times):
    prepared = []
    monkeypatch.setattr(loss, "chunk_tokens", lambda *_: 16)

    class Counted(torch_chunk.Chunk):
        def __init__(self, z, *others):
            prepared.append(len(z))
            super().__init__(z, *others)

    monkeypatch.setattr(loss, "Chunk", Counted)
    x, weight = random(tokens, 8).requires_grad_(), random(40, 8, seed=1).requires_grad_()
    kernels.linear_cross_entropy(x, weight, torch.zeros(tokens, dtype=torch.int64, device=DEVICE)).backward()
    assert len(prepared) == times


def test_of_each_further_chunk_only_its_tokens_are_described(monkeypatch):
    made = []
    monkeypatch.setattr(loss, "chunk_tokens", lambda *_: 16)
    for module in (torch_chunk, torch_operands):
        describe = module.described
        monkeypatch.setattr(module, "described", lambda x, *a, d=describe: (made.append(tuple(x.shape)), d(x, *a))[1])

    def described(tokens):
        made.clear()
        x, weight = random(tokens, 8).requires_grad_(), random(100, 8, seed=1).requires_grad_()
        kernels.linear_cross_entropy(x, weight, torch.zeros(tokens, dtype=torch.int64, device=DEVICE)).backward()
        return sorted(made)

    # For the logits and for dW; dx is summed up from ranges of words, which have room of their own.
    assert described(64) == sorted([*described(48), (16, 8), (16, 8)])


def test_logits_are_rounded_two_at_a_time(tmp_path):
    one, two, exponentials = told_elsewhere(SASS, tmp_path)
    assert one == 0  # an instruction of an eighth of the rate
    assert two >= 64  # 128 logits of a thread
    assert exponentials >= 128
