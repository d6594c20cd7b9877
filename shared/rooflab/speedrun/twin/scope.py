"""Which rungs has the twin in JAX? The plain transformer in every precision but fp8, one compiler, and Muon.

>>> ", ".join(RUNGS_OF_TWIN)
'tf32, bf16, padded-vocabulary, fused-attention, compile, loader, batch, muon, schedule, small-model'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import CHOICES, Config, ConfigError
from ..rungs import RUNGS, Selection

__all__ = ["RUNGS_OF_TWIN", "narrowed", "reasons", "refuse"]

# Switches that the twin knows in fewer forms than torch's model; of all others it knows every form, or ignores them
# (`fused_optimizer`: XLA fuses the update anyway; `threads`, `deterministic`: torch's own).
_FORMS: dict[str, tuple[Any, ...]] = {
    "precision": ("fp32", "tf32", "bf16"), "attention": ("plain", "fused"), "compile": ("no", "blocks", "model"),
    "loss": ("plain",), "graph": (False,), "position": ("learned",), "norm": ("layer",), "qk_norm": (False,),
    "wide_heads": (False,), "rotation": ("plain",), "mlp": ("plain",),
    "activation": ("gelu",), "zero_init": (False,), "tied": (True,), "value_skip": (False,), "softcap": (0.0,),
    "token_shift": (False,), "cut_vocabulary": (0,), "accumulation": (1,),
}  # fmt: skip
_IGNORED = ("fused_optimizer",)


def _missing(changes: Mapping[str, Any]) -> str:
    """Which of these switches the twin has not; empty if it has all."""
    for name, value in changes.items():
        if name in _IGNORED:
            return f"the twin in JAX leaves {name} to its compiler"
        if name in _FORMS and value not in _FORMS[name]:
            return f"the twin in JAX has no {name}" + (f" = {value}" if name in CHOICES else "")
    return ""


RUNGS_OF_TWIN: tuple[str, ...] = tuple(rung.name for rung in RUNGS if rung.change and not _missing(rung.change))


def reasons(config: Config) -> dict[str, str]:
    """Of a config's rungs those that the twin has not, and why."""
    return {rung.name: why for rung in RUNGS if rung.name in config.rungs and (why := _missing(rung.change))}


def narrowed(chosen: Selection, base: Config) -> Selection:
    """What was chosen, with those of its rungs that the twin has, on top of the same baseline; the others are named.

    Args:
        chosen: rungs on top of a baseline.
        base: that baseline.
    """
    kept = [rung for rung in RUNGS if rung.name in chosen.config.rungs and rung.name in RUNGS_OF_TWIN]
    changes = {name: value for rung in kept for name, value in rung.change.items()}
    config = base.change(**changes, rungs=(*base.rungs, *(rung.name for rung in kept)))
    return Selection(config, {**chosen.skipped, **reasons(chosen.config)})


def refuse(config: Config) -> None:
    """Refuse a config that asks for what the twin has not.

    Raises:
        ConfigError: it does.
    """
    for name, forms in _FORMS.items():
        if (value := getattr(config, name)) not in forms:
            known = ", ".join(map(str, forms))
            raise ConfigError(f"expected {name} = {known} for the twin in JAX; found {value}")
