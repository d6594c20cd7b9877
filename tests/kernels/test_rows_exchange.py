"""Gradients over long rows whose programs exchange sums: their source run with NumPy, and their machine code."""

import threading
import time

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab.kernels.rows import rings, torch_norm
from rooflab.kernels.rows import triton_norm_exchange as norm_exchange
from rooflab.kernels.tuning import known_choices

from . import gluon_threads as threads
from .agreement import agree, random, row_functions, torch
from .compiling import told_elsewhere
from .gluon_rows import Copies, Machine, run, take_over

HALF = torch.float16  # NumPy has it, too
KINDS = ["rms_norm_backward", "layer_norm_backward"]


@pytest.fixture
def on_hopper(monkeypatch):
    return take_over(monkeypatch)


@pytest.mark.parametrize("rows", [1, 2, 7, 13])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize(("parts", "lead", "slots"), [(2, 2, 6), (2, 1, 4), (4, 2, 3), (4, 3, 5)])
def test_gradients_agree_with_float64(name, rows, parts, lead, slots, on_hopper):
    cols = 4000  # of 4,096: a program's share of them is no multiple of a block
    wanted, seen = on_hopper
    block = 4096 // parts
    wanted |= {"PARTS": parts, "LEAD": lead, "BLOCK": block, "SLOTS": slots, "PER_SM": 4, "num_warps": 4}
    mine, reference, parameters = row_functions(name, cols, HALF)
    agree(mine, reference, [random(rows, cols, dtype=HALF), *parameters], length=cols)
    (grid,) = {grid for grid, _ in seen}
    assert grid[0] == parts
    assert -(-rows // grid[1]) == max(1, -(-rows // (8 // parts))), "as many programs as end together"
