"""How are updates made orthogonal? Muon: momentum, then five Newton-Schulz iterations that bring every singular value
near one.

All matrices of one shape are iterated together, [n, r, c]: three products a step and nothing between them.
Source: Jordan et al. 2024 (Muon), Bernstein and Newhouse 2024 (the iteration).

>>> import torch
>>> u = orthogonal(torch.tensor([[[3.0, 0.0], [0.0, -0.5]]]))
>>> (u - torch.tensor([[1.0, 0.0], [0.0, -1.0]])).abs().max().item() < 0.35
True
"""

from __future__ import annotations

from typing import Any

from .ranks import Ranks

__all__ = ["COEFFICIENTS", "Muon", "orthogonal"]

# a X + b (X X^T) X + c (X X^T)^2 X: found to raise small singular values fastest; they end between 0.7 and 1.2.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(stack: Any, *, steps: int = 5, dtype: Any = None) -> Any:
    """The nearest matrix with orthonormal rows or columns, about, for each of [n, r, c].

    Args:
        stack: matrices.
        steps: iterations.
        dtype: in which they run; default: on a GPU bfloat16, whose errors the iteration forgives, elsewhere float32.
    """
    import torch

    a, b, c = COEFFICIENTS
    x = stack.to(dtype or (torch.bfloat16 if stack.is_cuda else torch.float32))
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x  # the product of rows with rows is then the smaller one
    norm = torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True, dtype=torch.float32)
    x = x / (norm + 1e-7).to(x.dtype)  # all singular values are below 1
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        mixed = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        mixed.diagonal(dim1=-2, dim2=-1).add_(a)  # so that what follows is one product, without a copy of x to add to
        x = torch.bmm(mixed, x)
    return x.mT if tall else x


def _look_ahead(grads: Any, average: Any, momentum: float, dtype: Any) -> Any:
    """Take the gradients into their average, in place; return where momentum will lead, rounded for the iteration."""
    average.lerp_(grads, 1 - momentum)
    return grads.lerp(average, momentum).to(dtype)


def _move(params: Any, update: Any, lr: Any, decay: float, scale: float) -> None:
    """Shrink the parameters and take an update from them, in place."""
    params.mul_(1 - lr * decay)
    params.sub_(update.float() * (lr * scale))


class Muon:
    """The update of stacks of matrices; each stack and its gradients are [n, r, c] in fp32.

    Args:
        stacks: parameters and gradients.
        ranks: each orthogonalizes its share of every stack.
        momentum: mu, with Nesterov's look ahead.
        weight_decay: as in AdamW, times the learning rate.
        fused: what comes before the products is compiled into one kernel, and what comes after them into another.
    """

    def __init__(
        self, stacks: list[tuple[Any, Any]], ranks: Ranks, momentum: float, weight_decay: float, *, fused: bool = False
    ) -> None:
        import torch

        self.stacks, self.ranks, self.momentum, self.weight_decay = stacks, ranks, momentum, weight_decay
        self.averages = [torch.zeros_like(grads) for _, grads in stacks]
        self.fused, self.before, self.after = fused, _look_ahead, _move
        if fused:
            self.before, self.after = (torch.compile(each, dynamic=False) for each in (_look_ahead, _move))

    def step(self, lr: Any) -> None:
        """One update; the rate is a number on the device, so that a graph can be replayed with another one."""
        import torch

        if self.fused and not isinstance(lr, torch.Tensor):  # compiled code would take another number for another code
            lr = torch.full((), lr, device=self.averages[0].device)
        for (params, grads), average in zip(self.stacks, self.averages, strict=True):
            dtype = torch.bfloat16 if grads.is_cuda else grads.dtype
            update = self.ranks.share(self.before(grads, average, self.momentum, dtype), orthogonal)
            rows, columns = params.shape[-2:]
            scale = max(1.0, rows / columns) ** 0.5  # so that an output changes alike whatever the shape
            self.after(params, update, lr, self.weight_decay, scale)
