"""Type hints everywhere, with generics, unions and a Protocol."""

ANSWERS = {
    "iterate": """from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Step(Protocol):
    def __call__(self, value: T) -> T: ...


def iterate(f: Step | Callable[[T], T], x: T, n: int = 0, /) -> list[T]:
    found: list[T] = [x]
    for _ in range(n):
        last: T = found[-1]
        found.append(f(last))
    return found
""",
}
