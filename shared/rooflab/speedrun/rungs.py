"""Which changes lead from an honest baseline to a record? Each rung is one named change that can be left out.

>>> from rooflab.speedrun.config import preset
>>> select(preset("tiny"), only=["rotary", "muon"]).config.rungs
('rotary', 'muon')
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..device import Device, find_device
from .config import Config, ConfigError
from .spelling import unknown

if TYPE_CHECKING:
    from .data import Corpus

__all__ = ["RUNGS", "Rung", "Selection", "find_rung", "missing", "select"]


@dataclass(frozen=True)
class Rung:
    """One change.

    Attributes:
        name: as it is asked for.
        change: switches of `Config` and their values.
        why: what it is good for, one sentence.
        step_time, memory, loss: what it should do to each: "less", "same" or "more".
        source: where the idea is from.
        needs: what a device must have: a format of products, "graph", "compiler", "kernels", or nothing; or of the
            text: "merges".
        of: the rung whose operation it computes in another way; without that it has nothing to do.
    """

    name: str
    change: Mapping[str, Any]
    why: str
    step_time: str = "same"
    memory: str = "same"
    loss: str = "same"
    source: str = ""
    needs: str = ""
    of: str = ""


@dataclass(frozen=True)
class Selection:
    """A run's config, and what of it the device cannot do: the rung's name to the reason."""

    config: Config
    skipped: Mapping[str, str] = field(default_factory=dict)


RUNGS: tuple[Rung, ...] = (
    Rung("baseline", {}, "GPT-2 as it was: fp32, one kernel after the other, AdamW, learned positions, a cosine.",
         source="Radford et al. 2019; Loshchilov and Hutter 2019"),
    Rung("tf32", {"precision": "tf32"}, "Matrix units multiply fp32 with 10 bits of mantissa, several times as fast.",
         "less", source="NVIDIA 2020, A100 whitepaper", needs="tf32"),
    Rung("bf16", {"precision": "bf16"}, "Half the bytes of every activation, and products at twice the rate of TF32.",
         "less", "less", source="Micikevicius et al. 2018; Kalamkar et al. 2019", needs="bf16"),
    Rung("padded-vocabulary", {"padded_vocabulary": True},
         "Rows of logits that are a multiple of 64 let the largest product use whole tiles.", "less", "more",
         source="Karpathy 2023, nanoGPT"),
    Rung("fused-attention", {"attention": "fused"}, "The T x T scores stay on the chip, and masked blocks are skipped.",
         "less", "less", source="Dao et al. 2022"),
    Rung("compile", {"compile": "blocks"}, "Elementwise operations become part of their neighbours' kernels.",
         "less", "less", source="Ansel et al. 2024", needs="compiler"),
    Rung("fused-loss", {"loss": "chunks"}, "The logits are made, used and dropped a chunk at a time.",
         "same", "less", source="Wijmans et al. 2024; Hsu et al. 2024"),
    Rung("fused-optimizer", {"fused_optimizer": True}, "One pass over parameters, gradients and moments in one kernel.",
         "less", source="Loshchilov and Hutter 2019 (the update)"),
    Rung("loader", {"loader": "ahead"}, "The next batch is made and copied while the device computes.", "less"),
    Rung("batch", {"batch_factor": 4, "lr_factor": 2.0},
         "Larger products and fewer updates a token, up to the critical batch size; the rate grows as its root.",
         "less", "more", "more", source="McCandlish et al. 2018; Malladi et al. 2022"),
    Rung("graph", {"graph": True}, "The kernels of a step are launched as one.", "less", "more", needs="graph"),
    Rung("rotary", {"position": "rotary"}, "Queries and keys turn with their position, so that scores see distances.",
         "more", "more", "less", source="Su et al. 2021"),
    Rung("rms-norm", {"norm": "rms", "qk_norm": True},
         "Half the arithmetic of layer norm, no gains; normalized queries and keys bear a higher rate.",
         "less", loss="less", source="Zhang and Sennrich 2019; Henry et al. 2020"),
    Rung("rotary-kernel", {"rotation": "kernel"},
         "The compiler recomputes the gradients of queries, keys and values where it joins them; "
         "one kernel computes each once.", "less", source="Rooflab's kernels", needs="kernels", of="rotary"),
    Rung("squared-relu", {"activation": "squared relu"}, "Cheaper than GELU, and better for a language model.",
         "less", loss="less", source="So et al. 2021"),
    Rung("mlp-kernel", {"mlp": "kernel"},
         "The square is taken where its product ends, and its gradient where that of the next one does.",
         "less", "less", source="Rooflab's kernels", needs="kernels", of="squared-relu"),
    Rung("zero-init", {"zero_init": True, "tied": False},
         "Every block starts as the identity; the head has a weight of its own and starts by giving all words the "
         "same probability.", "more", "more", "less", source="Zhang et al. 2019; Yang et al. 2022; Jordan et al. 2024"),
    Rung("value-skip", {"value_skip": True},
         "Later blocks see the first block's values, and mirrored blocks are connected.",
         "more", "more", "less", source="Zhou et al. 2024; Ronneberger et al. 2015"),
    Rung("token-shift", {"token_shift": True},
         "Before attention each token is mixed with the one before it: what followed a word is found by one layer.",
         "more", "more", "less", source="Peng et al. 2023; So et al. 2021"),
    Rung("softcap", {"softcap": 30.0}, "No logit leaves -30 to 30, so that none runs away early.",
         "more", loss="less", source="Gemma Team 2024"),
    Rung("loss-kernel", {"loss": "kernel"},
         "Cap, softmax and gradient of a row of logits are one kernel: a row is read twice and written once; "
         "tanh is one instruction.", "less", source="Rooflab's kernels", needs="kernels"),
    Rung("muon", {"optimizer": "muon"}, "Updates of the matrices are made orthogonal: every direction learns alike.",
         "more", "less", "less", source="Jordan et al. 2024"),
    Rung("schedule", {"schedule": "trapezoid"}, "The rate stays at its peak, then falls in a straight line to zero.",
         loss="less", source="Hägele et al. 2024"),
    Rung("wide-heads", {"wide_heads": True},
         "Half as many heads, twice as wide: attention has half as many scores to exponentiate.",
         "less", loss="same", source="Dao et al. 2023; Jordan et al. 2024"),
    Rung("window", {"attention": "window"}, "Attention looks back a quarter of T at first, and all of it at the end.",
         "less", loss="same", source="Beltagy et al. 2020; Jordan et al. 2024"),
    Rung("fp8", {"precision": "fp8"}, "Forward products at twice the rate of bf16; the weights bound what is scaled.",
         "less", loss="more", source="Micikevicius et al. 2022", needs="fp8"),
    Rung("small-vocabulary", {"cut_vocabulary": 8192},
         "A head a sixth as large saves more time than a fifth more tokens cost, and each token "
         "is seen often enough to be learned.", "less", "less", "less", source="Tao et al. 2024", needs="merges"),
    Rung("small-model", {"layers": 6, "width": 384, "heads": 6, "batch_factor": 2, "table_factor": 4.0},
         "No more parameters than so short a text can train: each token costs less, and "
         "the time saved buys more tokens.", "less", "less", "less", source="Hoffmann et al. 2022"),
)  # fmt: skip


def find_rung(name: str) -> Rung:
    """The rung of this name.

    Raises:
        ConfigError: there is none.
    """
    known = {rung.name: rung for rung in RUNGS}
    if name not in known:
        raise ConfigError(unknown("a rung", name, known))
    return known[name]


def missing(rung: Rung, device: Device, text: Corpus | None = None) -> str:
    """Why it cannot be done on a device, with a text; empty if it can."""
    if rung.needs == "merges" and text is not None:
        from .data.cutting import why_whole

        return why_whole(text)
    if rung.needs in ("tf32", "bf16", "fp8") and not device.supports(rung.needs):
        return f"{device.name} multiplies in no {rung.needs}"
    if rung.needs == "graph" and device.torch != "cuda":
        return f"{device.name} has no graphs to replay: its operations are called, not launched"
    if rung.needs == "kernels" and device.torch != "cuda":
        return f"{device.name} would interpret a kernel of Triton's, thread by thread"
    compilers = filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++"))
    if rung.needs == "compiler" and not device.is_accelerator and not any(map(shutil.which, compilers)):
        return "there is no C++ compiler here, with which torch.compile makes code for a processor"
    return ""


def _idle(rung: Rung, chosen: set[str], base: Config) -> str:
    """Why a rung has nothing to do here; empty if it has."""
    if rung.change.get("width", 0) > base.width:
        return f"a model of width {base.width} is small already"
    changes = find_rung(rung.of).change if rung.of and rung.of not in chosen else {}
    there = all(getattr(base, name) == value for name, value in changes.items())
    return "" if there else f"there is nothing for it to do without {rung.of}"


def select(
    base: Config, *, rung: str = "", up_to: str = "", only: Sequence[str] = (), without: Sequence[str] = (),
    device: Device | None = None, text: Corpus | None = None,
) -> Selection:  # fmt: skip
    """The baseline and some rungs on top, in the ladder's order.

    Args:
        base: the baseline.
        rung: this one alone.
        up_to: all rungs to this one.
        only: these.
        without: not these; where nothing else is said, all others.
        device: on which it is to run; default: the one that is there.
        text: what it is to be trained on, if that is known.

    Raises:
        ConfigError: a rung is unknown, or more than one of `rung`, `up_to` and `only` is given.
    """
    for name in filter(None, (rung, up_to, *only, *without)):
        find_rung(name)
    if sum(map(bool, (rung, up_to, only))) > 1:
        raise ConfigError("expected one of --rung, --up-to and --only; found more than one")
    wanted = {rung} if rung else set(only)
    if up_to or (without and not wanted):
        wanted = {each.name for each in RUNGS[: RUNGS.index(find_rung(up_to)) + 1 if up_to else None]}
    chosen = [each for each in RUNGS if each.name in wanted - set(without)]
    reasons = {each.name: missing(each, device or find_device(), text) or _idle(each, wanted - set(without), base)
               for each in chosen}  # fmt: skip
    taken = [each for each in chosen if not reasons[each.name]]
    changes = {name: value for each in taken for name, value in each.change.items()}
    config = base.change(**changes, rungs=(*base.rungs, *(each.name for each in taken if each.change)))
    return Selection(config, {name: why for name, why in reasons.items() if why})
