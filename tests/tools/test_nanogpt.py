"""The rival of the speedrun's notes: nanoGPT's model, from a clone, on Rooflab's windows."""

import json
import math

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import nanogpt  # noqa: E402

# What the tool asks of nanoGPT's model.py, and no more: a table of words as a model.
MODEL = """
from dataclasses import dataclass
import torch
from torch.nn import functional as F

@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    bias: bool

class GPT(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.vocab_size % 64 == 0
        self.table = torch.nn.Embedding(config.vocab_size, config.vocab_size)

    def forward(self, tokens, targets):
        logits = self.table(tokens)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def configure_optimizers(self, decay, lr, betas, device):
        print("decayed: all")
        return torch.optim.AdamW(self.parameters(), lr=lr, betas=betas, weight_decay=decay)
"""
SMALL = ["--data", "stdlib", "--length", "16", "--batch", "4", "--evaluated", "256"]


def test_a_pass_is_trained_and_told_line_by_line(tmp_path, capsys):
    (tmp_path / "model.py").write_text(MODEL)
    options = ["--steps", "60", "--evaluate-every", "30", "--lr", "0.5", "--warmup", "5"]
    assert nanogpt.main([str(tmp_path), *SMALL, *options]) == 0
    first, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["steps"], last["steps"]) == (30, 60)
    assert last["bits_per_byte"] < first["bits_per_byte"] < 9
    assert 0 < first["time_s"] < last["time_s"]
    assert math.isclose(last["tokens_per_s"], 64 / last["step_s"], rel_tol=1e-4)


def test_the_rate_rises_and_ends_at_a_tenth(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    rival = object.__new__(nanogpt.Rival)
    rival.options, rival.steps = type("Options", (), {"lr": 1.0, "warmup": 10})(), 110
    rates = [rival.rate(step) for step in range(111)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert math.isclose(rates[110], 0.1)


def test_a_folder_without_nanogpt_is_refused(tmp_path, capsys):
    assert nanogpt.main([str(tmp_path), *SMALL]) == 1
    assert "give the folder of a clone of nanoGPT" in capsys.readouterr().err
