"""How many parameters does a transformer have, and how many FLOPs does a token cost?

>>> MODELS["gpt2"].parameters
124439808
>>> flops_per_token(MODELS["gpt2"], 1024, causal=False) / 1e6   # 6 * 123.5 M weights + 12 * 12 * 768 * 1024
854.4384
"""

from __future__ import annotations

from dataclasses import dataclass

from .attention import attended_pairs
from .work import check_counts, check_flag

__all__ = ["MODELS", "RECOMPUTE", "Transformer", "flops_per_token", "transformer_params"]

RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True)
class Transformer:
    """The shape of a decoder-only transformer with pre-normalization.

    Attributes:
        layers: blocks L.
        width: model width d.
        heads: query heads H.
        vocabulary: tokens V.
        context: longest sequence (rows of the learned position table).
        mlp_width: hidden width of the MLP; left out (0), it is 4 d.
        kv_heads: key and value heads; left out (0), H.
        head_dim: width of a head; left out (0), d / H.
        gated: an MLP of three matrices (SwiGLU) instead of two (GELU).
        biases: whether linear layers have biases.
        norm: "layer" (weight and bias) or "rms" (weight).
        positions: "learned" (a table) or "rotary" (no parameters).
        tied: whether the output head shares the token table.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    context: int = 1024
    mlp_width: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    gated: bool = False
    biases: bool = True
    norm: str = "layer"
    positions: str = "learned"
    tied: bool = True

    def __post_init__(self) -> None:
        self._make_whole("layers", "width", "heads", "vocabulary", "context")
        for name in ("gated", "biases", "tied"):
            object.__setattr__(self, name, check_flag(name, getattr(self, name)))
        defaults = {"mlp_width": 4 * self.width, "kv_heads": self.heads, "head_dim": self.width // self.heads}
        for name, value in defaults.items():
            if getattr(self, name) == 0:
                object.__setattr__(self, name, value)
        self._make_whole(*defaults)
        if self.heads % self.kv_heads:
            raise ValueError(f"expected heads to be a multiple of kv_heads; found {self.heads} and {self.kv_heads}")
        for name, known in {"norm": ("layer", "rms"), "positions": ("learned", "rotary")}.items():
            if getattr(self, name) not in known:
                raise ValueError(f"expected {name} '{known[0]}' or '{known[1]}'; found {getattr(self, name)!r}")

    def _make_whole(self, *names: str) -> None:
        for name, value in zip(names, check_counts(**{name: getattr(self, name) for name in names}), strict=True):
            object.__setattr__(self, name, value)

    @property
    def parameters(self) -> int:
        """All parameters, see `transformer_params`."""
        return transformer_params(self)

    @property
    def query_width(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads together."""
        return self.kv_heads * self.head_dim

    def linears(self) -> dict[str, tuple[int, int]]:
        """Return the matrices of one block, name -> (inputs, outputs)."""
        return {
            "qkv": (self.width, self.query_width + 2 * self.kv_width),
            "projection": (self.query_width, self.width),
            "mlp up": (self.width, self.mlp_width * (2 if self.gated else 1)),
            "mlp down": (self.mlp_width, self.width),
        }

    @property
    def block_weights(self) -> int:
        """Entries of the matrices of one block: 12 d^2 in a GPT."""
        return sum(i * o for i, o in self.linears().values())

    @property
    def multiplied_weights(self) -> int:
        """Weights that every token is multiplied by: all blocks and the head, not the tables that are looked up."""
        return self.layers * self.block_weights + self.width * self.vocabulary


def transformer_params(model: Transformer) -> int:
    """Return the number of parameters.

    Each block: its matrices and their biases, two normalizations of d (twice d with bias). Once: the final
    normalization, the token table V d, the position table T d if learned, the head V d unless tied.
    A GPT has L (12 d^2 + 13 d) + V d + T d + 2 d. Source: Radford et al. 2019 (GPT-2).
    """
    check_model(model)
    norm = model.width * (2 if model.norm == "layer" else 1)
    biases = sum(o for _, o in model.linears().values()) if model.biases else 0
    block = model.block_weights + biases + 2 * norm
    tables = model.vocabulary * model.width * (1 if model.tied else 2)
    if model.positions == "learned":
        tables += model.context * model.width
    return model.layers * block + norm + tables


def flops_per_token(
    model: Transformer, length: int, *, causal: bool = True, training: bool = True, recompute: str = "none"
) -> float:
    """Return the FLOPs of the contractions for one token of sequences of `length` tokens.

    Forward: 2 for each multiplied weight, and for attention 4 D H L pairs / length, where a token sees `length` keys
    or, causal, (length + 1) / 2 on average. Training: backward takes twice the forward, so 6 N + 12 H D L T without a
    mask (Source: Chowdhery et al. 2022, appendix B). That is the number for MFU.
    Recomputation, for HFU: "full" adds the forward of all blocks (not of the head), "selective" that of attention's
    two products (Source: Korthikanti et al. 2022).

    Raises:
        ValueError: for an unknown `recompute`, or one other than "none" without training.
    """
    check_model(model)
    training = check_flag("training", training)
    check_recompute(recompute, training)
    (length,) = check_counts(length=length)
    pairs = attended_pairs(length, length, causal=causal)
    attention = 4 * model.query_width * model.layers * pairs / length
    weights = 2 * model.multiplied_weights
    again = {
        "none": 0.0,
        "selective": attention,
        "full": attention + 2 * model.layers * model.block_weights,
    }[recompute]
    return (attention + weights) * (3 if training else 1) + again


def check_model(model: object) -> None:
    """Refuse what is no transformer."""
    if not isinstance(model, Transformer):
        raise TypeError(f"expected a Transformer, such as costs.MODELS['gpt2']; found {model!r:.60}")


def check_recompute(recompute: str, training: bool) -> None:
    """Refuse what cannot be recomputed."""
    if recompute not in RECOMPUTE:
        raise ValueError(f"expected recompute, one of {', '.join(RECOMPUTE)}; found {recompute!r}")
    if recompute != "none" and not training:
        raise ValueError(
            f"expected recompute 'none' in a forward pass, which has nothing to recompute; found {recompute!r}"
        )


def _llama(layers: int, width: int, heads: int, vocabulary: int, context: int, mlp: int, kv: int) -> Transformer:
    return Transformer(
        layers, width, heads, vocabulary, context, mlp_width=mlp, kv_heads=kv,
        gated=True, biases=False, norm="rms", positions="rotary", tied=False,
    )  # fmt: skip


# Sources: Radford et al. 2019; Touvron et al. 2023; Dubey et al. 2024.
MODELS: dict[str, Transformer] = {
    "gpt2": Transformer(12, 768, 12, 50257),
    "gpt2-medium": Transformer(24, 1024, 16, 50257),
    "gpt2-large": Transformer(36, 1280, 20, 50257),
    "gpt2-xl": Transformer(48, 1600, 25, 50257),
    "llama2-7b": _llama(32, 4096, 32, 32000, 4096, 11008, 32),
    "llama3-8b": _llama(32, 4096, 32, 128256, 8192, 14336, 8),
    "llama3-70b": _llama(80, 8192, 64, 128256, 8192, 28672, 8),
}
