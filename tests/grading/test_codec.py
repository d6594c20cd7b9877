"""Plain data crosses unchanged; whatever else is sent is refused, and never run."""

import collections
import datetime
import decimal
import fractions
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.grading.codec import DEEPEST, NotPlain, Refused, pack, unpack


def over(value):
    tree, blobs = pack(value)
    return unpack(json.loads(json.dumps(tree)), b"".join(blobs))


def same(one, other):
    if isinstance(one, np.ndarray | np.generic):
        return (
            type(one) is type(other)
            and one.dtype == other.dtype
            and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
        )
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return type(one) is type(other) and list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    return type(one) is type(other) and one == other


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(data)
@settings(max_examples=200, deadline=None)
def test_plain_data_is_the_same_on_the_other_side(value):
    assert same(value, over(value))


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype="<i4").reshape(2, 3),
        np.zeros((0, 4)),
        np.array(3.5),
        np.array(["a", "bc"]),
        np.float32(1.5),
        np.bool_(True),
        np.array([1 + 2j]),
        np.arange(12).reshape(3, 4)[:, ::2],
        np.array("2026-11-29", dtype="M8[D]"),
        np.array([1.0], dtype=">f8"),
        {1, 2},
        frozenset("ab"),
        range(1, 9, 2),
        10**100,
        -(10**30),
        float("nan"),
        -math.inf,
        collections.OrderedDict(b=1, a=2),
        collections.Counter("aab"),
        collections.deque([1, 2]),
        collections.defaultdict(int, a=1),
        fractions.Fraction(1, 3),
        decimal.Decimal("1.10"),
        datetime.date(2026, 11, 29),
        datetime.timedelta(days=-1, seconds=3),
        bytearray(b"x"),
        {(1, 2): [3]},
        "\ud800 lone",
        {"~": "handle", "n": 0},
    ],
    ids=lambda value: type(value).__name__,
)
def test_these_too(value):
    assert same(value, over(value))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float16", "int64", "bool", "complex64"])
def test_tensors(dtype):
    torch = pytest.importorskip("torch", reason="needs torch")
    value = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    found = over(value)
    assert type(found) is torch.Tensor
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert torch.equal(found.to(torch.complex128), value.to(torch.complex128))
    assert over(torch.nn.Parameter(torch.ones(2))).requires_grad is False
    assert over(torch.ones(3, 0)).shape == (3, 0)


def test_formats_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    value = np.array([1.5, -2.0], dtype=ml_dtypes.bfloat16)
    assert over(value).dtype == value.dtype
    assert over(value[0]) == value[0]


@pytest.mark.parametrize(
    "thing", [int, str, np.float32, np.integer, np.dtype("<f2"), np.dtype("M8[D]"), ValueError, frozenset], ids=str
)
def test_formats_and_plain_classes_cross_by_name(thing):
    found = over({"to": thing})["to"]
    assert found is thing or (isinstance(thing, np.dtype) and found == thing)


def test_formats_of_frameworks_cross_by_name():
    torch = pytest.importorskip("torch", reason="needs torch")
    jnp = pytest.importorskip("jax.numpy", reason="needs JAX")
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    for thing in (torch.bfloat16, jnp.float32, ml_dtypes.float8_e4m3fn):
        assert over([thing])[0] is thing
    assert over(np.dtype(ml_dtypes.bfloat16)) == ml_dtypes.bfloat16
    assert over(torch.device("cuda:1")) == torch.device("cuda:1")


@pytest.mark.parametrize(
    "thing",
    [
        object,
        bytes,
        np.bytes_,
        np.object_,
        np.dtype("O"),
        type("float32", (), {}),
        type("ValueError", (), {}),
        SystemExit,
    ],
)
def test_other_classes_do_not(thing):
    with pytest.raises(NotPlain):
        over(thing)


@pytest.mark.parametrize("factory", [int, list, None])
def test_what_a_defaultdict_lacks_is_made_on_the_other_side_too(factory):
    assert over(collections.defaultdict(factory, a=1)).default_factory is factory


def test_nobody_s_function_makes_what_a_defaultdict_lacks():
    assert over(collections.defaultdict(lambda: 7, a=1)).default_factory is None
    tree = {"~": "defaultdict", "v": {"~": "tuple", "v": [{"~": "named", "v": ["dtype", "<f8"]}, []]}}
    assert unpack(tree, b"").default_factory is None


class Always:
    def __eq__(self, other):
        return True

    __hash__ = None


class Number(float):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Always(),
        Number(1.0),
        [Always()],
        lambda: 1,
        np.array([Always()]),
        type,
        iter([]),
        object(),
        np.array([(1, 2)], "i4,i4"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_plain_data_is_not_sent(value):
    with pytest.raises(NotPlain, match="cannot cross"):
        pack(value)


def test_what_is_too_deep_or_endless_is_not_sent():
    deep = []
    for _ in range(DEEPEST + 2):
        deep = [deep]
    with pytest.raises(ValueError, match="deep"):
        pack(deep)
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="deep"):
        pack(endless)


ARRAY = {"~": "array", "dtype": "<f8", "shape": [2], "v": [0, 16]}


@pytest.mark.parametrize(
    "tree",
    [
        {"~": "pickle", "v": [0, 4]},
        {"v": 1},
        {"~": 5},
        {"~": "handle", "n": 1},
        ARRAY | {"dtype": "O"},
        {"~": "named", "v": ["class", "bytes"]},
        {"~": "named", "v": ["class", "object"]},
        {"~": "named", "v": ["numpy", "load"]},
        {"~": "named", "v": ["numpy", "object_"]},
        {"~": "named", "v": ["os", "system"]},
        {"~": "named", "v": ["jax.numpy", "load"]},
        {"~": "named", "v": ["torch", "load"]},
        {"~": "named", "v": ["device", "no such"]},
        {"~": "named", "v": ["dtype", "O"]},
        {"~": "named", "v": ["dtype"]},
        {"~": "named", "v": [["class"], "int"]},
        ARRAY | {"dtype": "V8"},
        ARRAY | {"dtype": "f8,f8"},
        ARRAY | {"dtype": "(2,)f8"},
        ARRAY | {"shape": [-2]},
        ARRAY | {"shape": [2**40]},
        ARRAY | {"shape": [1] * 40},
        ARRAY | {"shape": "2"},
        ARRAY | {"shape": [2.0]},
        ARRAY | {"shape": [True, 2]},
        ARRAY | {"v": [8, 16]},
        ARRAY | {"v": [-8, 16]},
        ARRAY | {"v": [0, 2**70]},
        ARRAY | {"v": [0]},
        ARRAY | {"dtype": None},
        ARRAY | {"dtype": "bfloat16x"},
        ARRAY | {"~": "scalar"},
        ARRAY | {"~": "tensor", "dtype": "save"},
        ARRAY | {"~": "tensor", "dtype": "float64", "shape": [3]},
        {"~": "dict", "v": [[1]]},
        {"~": "dict", "v": [[[], 1]]},
        {"~": "dict", "v": 3},
        {"~": "set", "v": [[1]]},
        {"~": "int", "v": 5},
        {"~": "int", "v": "zz"},
        {"~": "float", "v": "1e5"},
        {"~": "complex", "v": ["a", 1]},
        {"~": "range", "v": [1, 2, 0]},
        {"~": "range", "v": ["1"]},
        {"~": "date", "v": "no"},
        {"~": "Decimal", "v": {"~": "dict", "v": []}},
        {"~": "Fraction", "v": {"~": "tuple", "v": [1, 0]}},
        {"~": "Counter", "v": 3},
        {"~": "bytes", "v": [0, 17]},
        {"~": "timedelta", "v": {"~": "tuple", "v": [10**30, 0, 0]}},
    ],
    ids=lambda tree: json.dumps(tree)[:60],
)
def test_what_nobody_packs_is_refused(tree):
    pytest.importorskip("torch", reason="needs torch")
    with pytest.raises(Refused):
        unpack(tree, bytes(16))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda i: st.lists(i) | st.dictionaries(st.sampled_from(["~", "v", "n", "shape", "dtype"]), i),
        max_leaves=30,
    ),
    st.binary(max_size=40),
)
@settings(max_examples=300, deadline=None)
def test_any_tree_is_plain_data_or_refused(tree, payload):
    try:
        found = unpack(tree, payload)
    except Refused:
        return
    pack(found)


def test_depth_and_number_are_bounded():
    tree = 1
    for _ in range(3 * DEEPEST):
        tree = [tree]
    with pytest.raises(Refused, match="deep"):
        unpack(tree, b"")


def test_bytes_of_a_pickle_stay_bytes():
    assert over(pickle.dumps(print)) == pickle.dumps(print)


def test_parts_of_sequences_cross():
    assert over([slice(3), slice(None, None, -1)]) == [slice(3), slice(None, None, -1)]


def integer(value):
    return {"~": "int", "v": f"{value:x}"}


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ({"~": "range", "v": {"~": "tuple", "v": [0, 10**9, 1]}}, "range"),
        ({"~": "Decimal", "v": "1e999999999"}, "exponent"),
        ({"~": "Fraction", "v": {"~": "tuple", "v": [integer(7**9000), integer(3**9000)]}}, "enormous"),
        ({"~": "set", "v": [integer(n * (2**61 - 1)) for n in range(1, 3000)]}, "same hash"),
        ({"~": "dict", "v": [[integer(n * (2**61 - 1)), 0] for n in range(1, 3000)]}, "same hash"),
    ],
)
def test_what_is_short_to_send_and_long_to_work_with_is_refused(tree, why):
    with pytest.raises(Refused, match=why):
        unpack(tree, b"")
