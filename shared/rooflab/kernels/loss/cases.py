"""Cross-entropy of a linear layer against eager and compiled torch and Liger: 8,192 tokens, GPT-2's vocabulary.

>>> SIZES
((8192, 50304, 768), (8192, 50304, 4096))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rooflab.kernels import rivals
from rooflab.kernels.benchmark import Case

__all__ = ["SIZES", "cases"]

SIZES = ((8192, 50_304, 768), (8192, 50_304, 4096))
_MOST_BYTES = 300 * 2**20


def cases(sizes: tuple[tuple[int, int, int], ...] = SIZES, device: str = "cuda") -> Iterator[Case]:
    """Yield the loss with both gradients at every size: tokens, words, width; and that of logits that are there."""
    for size in sizes:
        yield _case(*size, device)
    tokens, words, _ = sizes[0]
    for cap in (0.0, 30.0):
        yield _of_logits(tokens, words, cap, device)


def _case(tokens: int, words: int, d: int, device: str) -> Case:
    import torch

    from .torch_linear_cross_entropy import linear_cross_entropy

    functional = torch.nn.functional

    def made(seed: int) -> tuple[Any, ...]:
        generator = torch.Generator(device=device).manual_seed(seed)
        x, weight = (torch.randn(rows, d, generator=generator, device=device) for rows in (tokens, words))
        target = torch.randint(words, (tokens,), generator=generator, device=device)
        return x.bfloat16(), (weight * d**-0.5).bfloat16(), target

    def eager(x: Any, weight: Any, target: Any) -> Any:
        return functional.cross_entropy((x @ weight.t()).float(), target)

    def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(x: Any, weight: Any, target: Any) -> Any:
            leaves = [each.detach().requires_grad_() for each in (x, weight)]
            loss = function(*leaves, target.long())
            return (loss.detach().to(x.dtype), *torch.autograd.grad(loss, leaves))

        return run

    candidates = {
        "compiled": with_gradients(rivals.compiled(eager)),
        "rooflab": with_gradients(linear_cross_entropy),
        "eager": with_gradients(eager),
    }
    if (library := rivals.liger("fused_linear_cross_entropy")) is not None:
        apply = library.LigerFusedLinearCrossEntropyFunction.apply
        candidates["liger"] = with_gradients(lambda x, weight, target: _first(apply(x, weight, target)))
    # The logits are rounded to 16 bits, so the loss is not better than they are: it is compared in their format.
    return Case(
        "linear_cross_entropy", f"{tokens} x {words} x {d}", made, candidates, "compiled", with_gradients(eager),
        words, 1 / 1.05, most_bytes=_MOST_BYTES if (tokens, words, d) == SIZES[0] else None,
        waiting=("liger",),
    )  # fmt: skip


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


def _of_logits(tokens: int, words: int, cap: float, device: str) -> Case:
    import torch

    from .torch_cross_entropy import cross_entropy_with_gradient

    def made(seed: int) -> tuple[Any, ...]:
        generator = torch.Generator(device=device).manual_seed(seed)
        z = 3 * torch.randn(tokens, words, generator=generator, device=device)
        return z.bfloat16(), torch.randint(words, (tokens,), generator=generator, device=device)

    def formula(z: Any, target: Any) -> tuple[Any, Any]:
        u = cap * torch.tanh(z.float() / cap) if cap else z.float()
        log_sum = u.logsumexp(-1, keepdim=True)
        losses = (log_sum - u.gather(1, target.long()[:, None]))[:, 0]
        right = torch.arange(words, device=z.device) == target[:, None]
        dz = (u - log_sum).exp() - right.float()
        return losses, (dz * (1 - (u / cap).square()) if cap else dz).to(z.dtype)

    candidates: dict[str, Callable[..., Any]] = {
        "copy": lambda z, target: z.clone(), "rooflab": lambda z, target: cross_entropy_with_gradient(z, target, cap),
        "compiled": rivals.compiled(formula), "eager": formula,
    }  # fmt: skip
    name = "cross_entropy_capped" if cap else "cross_entropy"
    target = 0.9 * (3.5 / 4 if cap else 1.0)  # special functions: in the time of the copy 3.5 a logit; a cap needs 4
    return Case(name, f"{tokens} x {words}", made, candidates, "copy", formula, words, target)
