"""What stands in a check for a function or an object of the student's process?

>>> raised({"type": "ValueError", "builtin": "ValueError", "message": "no"})
ValueError('no')
>>> raised({"type": "SystemExit", "builtin": "SystemExit", "message": "0"})
RuntimeError('SystemExit: 0')
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .session import Session

__all__ = ["RemoteFunction", "RemoteObject", "StudentError", "Unsupported", "change", "identity", "raised"]

# Methods that say whether, or by how much, two values differ; of arrays, tensors and tables.
_COMPARING = frozenset({
    "allclose", "compare", "compare_total", "dist", "eq", "equal", "equals", "ge", "gt", "isclose", "isequal", "le",
    "lt", "ne", "not_equal", "rsub", "sub", "subtract",
})  # fmt: skip
# Packages whose exceptions a check may expect of a student's function.
_RAISING = sys.stdlib_module_names | {"numpy"}
_TOLD = ("__annotations__", "__name__")  # what a check may ask of a function, beside its `__doc__`
# Special methods that are not carried over: a person looks, since the object may well have them.
_NOT_CARRIED = (
    "__abs__", "__and__", "__complex__", "__delitem__", "__enter__", "__exit__", "__float__", "__floordiv__",
    "__index__", "__int__", "__invert__", "__matmul__", "__mod__", "__neg__", "__or__", "__pos__", "__pow__",
    "__radd__", "__rmul__", "__round__", "__rsub__", "__rtruediv__", "__truediv__", "__xor__",
)  # fmt: skip


class StudentError(BaseException):
    """The student's code did something that is no answer: it hung, ended its process, or sent what cannot be read."""


class Unsupported(BaseException):
    """A check asks for something that cannot cross between processes; a person has to look, and no points are lost."""


class RemoteObject:
    """An object of the student's process. It is never equal to anything: only plain data can be right."""

    __slots__ = ("_generation", "_kind", "_number", "_session")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, session: Session, number: int, generation: int, kind: str) -> None:
        self._session, self._number, self._generation, self._kind = session, number, generation, kind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name not in _TOLD:
            raise AttributeError(name)
        found = self._session.attribute(self._number, self._generation, name)
        if name in _COMPARING and isinstance(found, RemoteFunction):
            return functools.partial(self._compared, found, name)
        return found

    def _compared(self, method: RemoteFunction, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that compares, of two objects of the student's: it would say of any value that it is right."""
        if not all(isinstance(part, RemoteObject) for part in (*args, *kwargs.values())):
            self._refuse(name)
        return method(*args, **kwargs)

    def _refuse(self, name: str) -> NoReturn:
        raise Unsupported(f"this check asks for {name} of an object of the student's (a {self._kind})")

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise Unsupported(f"this check sets {name!r} of an object of the student's (a {self._kind})")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        raise Unsupported(f"this check compares an object of the student's (a {self._kind}); only plain data can be")

    def __lt__(self, other: object) -> bool:
        return self == other

    __le__ = __gt__ = __ge__ = __lt__

    def __instancecheck__(self, instance: object) -> bool:
        raise Unsupported(f"this check asks what is a {self._kind} of the student's")

    __subclasscheck__ = __instancecheck__

    def __bool__(self) -> bool:
        raise Unsupported(f"this check asks whether an object of the student's (a {self._kind}) is true")

    def __repr__(self) -> str:
        try:
            return str(self._special("__repr__"))
        except (Exception, StudentError):  # this text is for messages too, when the object may be gone
            return f"<the student's {self._kind}>"

    def _special(self, name: str, *args: Any, ends: bool = False) -> Any:
        try:
            method = self._session.attribute(self._number, self._generation, name)
        except AttributeError:
            raise TypeError(f"a {self._kind} has no {name}") from None
        if not isinstance(method, RemoteFunction):
            raise TypeError(f"a {self._kind} has no {name}")
        number, generation = identity(method)
        return self._session.call(number, generation, args, {}, ends=ends)

    def __len__(self) -> int:
        return int(self._special("__len__"))

    def __getitem__(self, key: Any) -> Any:
        return self._special("__getitem__", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._special("__setitem__", key, value)

    def __contains__(self, item: Any) -> bool:
        return self._special("__contains__", item) is True

    def __iter__(self) -> Any:
        try:
            return self._special("__iter__")
        except TypeError:  # older classes have items and an IndexError instead
            self._session.attribute(self._number, self._generation, "__getitem__")
            return self._items()

    def _items(self) -> Iterator[Any]:
        for place in itertools.count():
            try:
                item = self[place]
            except IndexError:
                return
            yield item

    def __next__(self) -> Any:
        return self._special("__next__", ends=True)

    def __str__(self) -> str:
        return str(self._special("__str__"))

    def __add__(self, other: Any) -> Any:
        return self._arithmetic("__add__", other)

    def __sub__(self, other: Any) -> Any:
        return self._arithmetic("__sub__", other)

    def __mul__(self, other: Any) -> Any:
        return self._arithmetic("__mul__", other)

    def _arithmetic(self, name: str, other: Any) -> Any:
        """Reckon with objects of the student's, or a factor or summand, as long as an object comes of it.

        In `abs(answer - expected) < 1e-6` it would be the student's object that says how near it is.
        """
        number = name != "__sub__" and isinstance(other, int | float | complex)
        if not number and not isinstance(other, RemoteObject):
            self._refuse(name)
        found = self._special(name, other)
        if not isinstance(other, RemoteObject) and not isinstance(found, RemoteObject):
            self._refuse(name)
        return found


def _refused(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: self._refuse(name)


for _name in _NOT_CARRIED:
    setattr(RemoteObject, _name, _refused(_name))


class RemoteFunction(RemoteObject):
    """A function, class or other callable of the student's process."""

    __slots__ = ()

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        """What the student has written there, and not what stands above."""
        return self._session.attribute(self._number, self._generation, "__doc__")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with plain data; returns plain data."""
        return self._session.call(self._number, self._generation, args, kwargs)


def identity(thing: RemoteObject) -> tuple[int, int]:
    """Return the number of an object in the student's process, and which of the processes it was."""
    return object.__getattribute__(thing, "_number"), object.__getattribute__(thing, "_generation")


def raised(told: Any) -> BaseException:
    """The exception that an untrusted description names: of Python or numpy, a built-in one, else RuntimeError."""
    if type(told) is not dict:
        return StudentError("the error cannot be read")
    texts = {key: told[key] if type(told.get(key)) is str else "" for key in ("type", "module", "builtin", "message")}
    known = texts["module"].partition(".")[0] in _RAISING and texts["module"] in sys.modules
    error: BaseException = RuntimeError(f"{texts['type']}: {texts['message']}")
    for module, name in (("builtins", texts["builtin"]), (texts["module"] if known else "builtins", texts["type"])):
        kind = vars(sys.modules[module]).get(name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            with contextlib.suppress(Exception):  # some want several arguments
                error = kind(texts["message"])
    lines = told.get("lines")
    for line in lines[-12:] if type(lines) is list else ():
        if type(line) is str:
            error.add_note(line[:300])
    return error


def change(mine: Any, theirs: Any) -> None:
    """Do to the caller's own lists, dicts and arrays what the call has done to its copies."""
    if type(mine) is tuple and type(theirs) is tuple and len(mine) == len(theirs):
        for one, other in zip(mine, theirs, strict=True):
            change(one, other)
    elif type(mine) is list and type(theirs) is list:
        mine[:] = theirs
    elif type(mine) is dict and type(theirs) is dict:
        for key in set(mine) & set(theirs):
            change(mine[key], theirs[key])
        if set(mine) != set(theirs) or any(_differs(mine[key], theirs[key]) for key in mine):
            mine.clear()
            mine.update(theirs)
    elif type(mine) is type(theirs) and hasattr(mine, "shape") and hasattr(mine, "__setitem__") and mine.ndim:
        if tuple(mine.shape) == tuple(theirs.shape):
            mine[...] = theirs
    elif type(mine) is type(theirs) is set:
        mine.clear()
        mine.update(theirs)


def _differs(one: Any, other: Any) -> bool:
    plain = (bool, int, float, str, type(None))
    return type(one) is not type(other) or (type(one) in plain and one != other)
