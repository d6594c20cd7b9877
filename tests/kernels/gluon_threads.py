"""Run a Gluon kernel for Hopper without a GPU: NumPy for its tensors, a thread for each of its partitions.

Triton's interpreter does not know Gluon. What is modelled: barriers with their phases and counts of bytes, copies by
descriptors (zeros beyond the end), products that are only computed when they are waited for, so that an operand that is
overwritten too early gives a wrong result. A barrier that nobody completes raises after `PATIENCE_S`.
"""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

PATIENCE_S = 20.0
BFLOAT16 = pytest.importorskip("ml_dtypes", reason="needs bf16 in NumPy").bfloat16


class Tensor(np.ndarray):
    """A NumPy array that can be converted as Triton's tensors are."""

    type = SimpleNamespace(layout=None)

    def to(self, dtype, bitcast=False):
        return self.view(dtype) if bitcast else self.astype(dtype)

    def permute(self, order):
        return self.transpose(order)


def tensor(values):
    return np.asarray(values).view(Tensor)


class Shared:
    """A place in shared memory."""

    def __init__(self, array):
        self.array, self.dtype, self.shape = array, array.dtype.type, array.shape

    def index(self, i):
        return Shared(self.array[int(i)])

    def reshape(self, shape):
        return Shared(self.array.reshape(shape))

    def permute(self, order):
        return Shared(self.array.transpose(order))

    def slice(self, start, length):
        return Shared(self.array[start : start + length])

    def load(self, layout=None):
        return tensor(self.array.copy())

    def store(self, values):
        self.array[...] = values


class Barrier:
    """A phase is over when `count` have arrived and as many bytes as were expected."""

    def __init__(self):
        self.changed = threading.Condition()
        self.count = self.left = self.bytes = self.phase = 0

    def update(self, arrivals, nbytes):
        with self.changed:
            self.left -= arrivals
            self.bytes += nbytes
            assert self.left >= 0
            if self.left == 0 and self.bytes == 0:
                self.phase, self.left = self.phase ^ 1, self.count
                self.changed.notify_all()

    def wait(self, phase):
        with self.changed:
            if not self.changed.wait_for(lambda: self.phase != phase, PATIENCE_S):
                raise TimeoutError("nobody completes a barrier that is waited for")


class Barriers:
    def __init__(self, number):
        self.each = [Barrier() for _ in range(number)]

    def index(self, i):
        return self.each[int(i)]


class Pointer:
    def __init__(self, array, places=0):
        self.array, self.places = array, places
        self.dtype = SimpleNamespace(element_ty=array.dtype.type)

    def __add__(self, more):
        return Pointer(self.array, self.places + more)


class Descriptor:
    """Of an array (batch, heads, length, D) with blocks of rows, or (heads, length) with blocks of columns."""

    def __init__(self, array, rows):
        self.array, self.rows, self.dtype, self.layout = array, rows, array.dtype.type, None
        self.block = (rows, *array.shape[3:])
        self.block_type = SimpleNamespace(nbytes=int(np.prod(self.block)) * array.itemsize)

    def found(self, place):
        before, start = map(int, place[: self.array.ndim // 2]), int(place[self.array.ndim // 2])
        return self.array[tuple(before)][start : start + self.rows]


class Matrix:
    """The descriptor of a matrix with blocks of rows and columns."""

    def __init__(self, array, *block):
        self.array, self.block, self.dtype, self.layout = array, block, array.dtype.type, None
        self.block_type = SimpleNamespace(nbytes=int(np.prod(block)) * array.itemsize)

    def found(self, place):
        return self.array[tuple(slice(int(first), int(first) + n) for first, n in zip(place, self.block, strict=True))]


class Pending:
    """A product, computed when it is waited for; `value` is its result then."""

    type = Tensor.type

    def __init__(self, a, b, acc, use_acc):
        self.operands, self.use_acc, self.value = (a, b, acc), use_acc, None

    def compute(self):
        if self.value is None:
            a, b, acc = (getattr(each, "array", each) for each in self.operands)
            acc = acc.value if isinstance(acc, Pending) else acc
            product = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
            self.value = tensor(product + acc if self.use_acc else product)
        return self.value


class Machine:
    """The names that a kernel's module imports, as of one program of a grid."""

    def __init__(self, place, programs):
        self.place, self.programs, self.local, self.errors = place, programs, threading.local(), []

    def run(self, kernel, module, *args, **constants):
        """Run a kernel of a module whose functions are found by their names."""
        names = dict(vars(module))
        for value in vars(module).values():  # a function of another module finds what stands there
            if hasattr(value, "fn"):
                names = {**vars(sys.modules[value.fn.__module__]), **names}
        gl = self.language()
        names |= {
            "gl": gl,
            "mbarrier": self.barriers(),
            "tma": SimpleNamespace(store_wait=lambda pending: None),
            **self.copies(),
            "warpgroup_mma": self.multiply,
            "warpgroup_mma_init": lambda values: values,
            "warpgroup_mma_wait": self.wait,
            "fence_async_shared": lambda: None,
            "synchronize": lambda: None,
        }
        for name, value in dict(names).items():
            if hasattr(value, "fn"):
                names[name] = type(value.fn)(value.fn.__code__, names, name, value.fn.__defaults__)
            elif type(value).__name__ == "constexpr":
                names[name] = value.value
        names[kernel](*args, **constants)
        if self.errors:
            raise self.errors[0]

    def partitions(self, functions, warps, registers):
        def run(function, args):
            try:
                function(*args)
            except BaseException as error:
                self.errors.append(error)

        threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def multiply(self, a, b, acc, *, use_acc=True, is_async=False):
        self.local.flying = [*getattr(self.local, "flying", []), Pending(a, b, acc, use_acc)]
        return self.local.flying[-1]

    def wait(self, outstanding, deps):
        flying = self.local.flying
        done = flying[: len(flying) - outstanding]
        for each in done:
            each.compute()
        self.local.flying = flying[len(done) :]
        # With what still runs nothing can be done but another product that adds to it.
        found = [each.value if isinstance(each, Pending) and each not in self.local.flying else each for each in deps]
        return found if len(found) > 1 else found[0]

    def language(self):
        def allocate(dtype, shape, layout):
            return Barriers(shape[0]) if layout == "barriers" else Shared(np.full(shape, 77, dtype))

        def store(pointer, values, mask=True):
            mask = np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), np.shape(pointer.places)))
            places = np.broadcast_to(pointer.places, mask.shape)[mask]
            pointer.array[places] = np.broadcast_to(values, mask.shape)[mask]

        def load(pointer, mask=True, other=0, eviction_policy=None):
            mask = np.asarray(mask)
            places = np.where(mask, np.broadcast_to(pointer.places, np.broadcast(pointer.places, mask).shape), 0)
            return tensor(np.where(mask, pointer.array[places], pointer.array.dtype.type(other)))

        def nothing(*_, **__):
            return None

        return SimpleNamespace(
            program_id=lambda axis: tensor(np.int64(self.place)), num_programs=lambda axis: self.programs,
            allocate_shared_memory=allocate, store=store, load=load, warp_specialize=self.partitions,
            arange=lambda first, last, layout=None: tensor(np.arange(first, last)),
            zeros=lambda shape, dtype, layout: tensor(np.zeros(shape, dtype)),
            full=lambda shape, value, dtype, layout: tensor(np.full(shape, value, dtype)),
            where=lambda *each: tensor(np.where(*each)), maximum=np.maximum, minimum=np.minimum, exp2=np.exp2,
            log2=np.log2, sqrt=np.sqrt, max=lambda x, axis: x.max(axis), sum=lambda x, axis: x.sum(axis),
            rsqrt=lambda x: 1 / np.sqrt(x), to_tensor=tensor,
            cdiv=lambda a, b: -(-a // b), static_range=range, convert_layout=lambda x, layout, assert_trivial=False: x,
            constexpr=lambda value: value, float32=np.float32, int16=np.int16, int32=np.int32, int64=np.int64,
            bfloat16=BFLOAT16, join=lambda a, b: tensor(np.stack((a, b), -1)),
            SliceLayout=nothing, BlockedLayout=nothing, SwizzledSharedLayout=nothing, NVMMADistributedLayout=nothing,
            DotOperandLayout=nothing,
        )  # fmt: skip

    def barriers(self):
        def init(barrier, count):
            barrier.count = barrier.left = count

        return SimpleNamespace(
            init=init, expect=lambda barrier, nbytes, pred=True: barrier.update(1, -nbytes) if pred else None,
            arrive=lambda barrier: barrier.update(1, 0), wait=lambda barrier, phase: barrier.wait(int(phase)),
            MBarrierLayout=lambda: "barriers",
        )  # fmt: skip

    def copies(self):
        def load(descriptor, place, barrier, target, pred=True):
            if not pred:
                return
            found = descriptor.found(place)
            block = target.array.reshape(descriptor.block)
            block[...] = 0
            block[tuple(map(slice, found.shape))] = found
            barrier.update(0, descriptor.block_type.nbytes)

        def store(descriptor, place, source):
            found = descriptor.found(place)
            found[...] = source.array.reshape(descriptor.block)[tuple(map(slice, found.shape))]

        return {"load_block": load, "store_block": store}


def run_grid(kernel, module, programs, *args, **constants):
    """Run all programs of a grid, one after another; infinities do not warn, as on a GPU."""
    with np.errstate(all="ignore"):
        for place in range(programs):
            Machine(place, programs).run(kernel, module, *args, **constants)
