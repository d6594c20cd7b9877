"""Products of Mosaic that JAX's interpreter of GPU kernels lacks: with an operand in registers, onto what there was.

A product is done as late as the hardware may do it, at the wait for it; only then are its operands read. So a block
that is given back before the wait is overwritten here, and a sum that is read before it is an error.
"""

import time

import pytest

from .pallas_agreement import jax, jnp, np

from jax.experimental import io_callback  # isort: skip
from jax.experimental import pallas as pl  # isort: skip

from rooflab.kernels.pallas_mosaic import usable  # isort: skip

NEEDED = pytest.mark.skipif(
    not usable(), reason="needs a JAX whose Mosaic is new enough; others take the way by Triton"
)


@jax.tree_util.register_pytree_node_class
class Held:
    """What stands for a reference to a value in registers."""

    def __init__(self, value, products):
        self.value = value
        self.products = products
        self.first = self
        self.running = 0  # products onto it

    def tree_flatten(self):
        """On its way into another turn of a loop, where tracing does not follow: what runs has to end here."""
        if self.running:
            self.products.wgmma_wait(0)
        return (self.value,), self.first

    @classmethod
    def tree_unflatten(cls, first, values):
        held = cls(*values, first.products)
        held.first = first
        first.value = held.value  # whoever holds the reference sees what the loop left there
        return held

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)

    def __getitem__(self, index):
        assert index is Ellipsis
        assert not self.running, "it is read while products are added to it"
        return self.value

    def __setitem__(self, index, value):
        assert index is Ellipsis
        assert not self.running, "it is written while products are added to it"
        assert (value.shape, value.dtype) == (self.shape, self.dtype)
        self.value = value


class Flipped:
    """A block in shared memory, transposed when it is read."""

    def __init__(self, ref):
        self.ref = ref


PAUSE_S = 0.004  # before a block is read


def pause():
    time.sleep(PAUSE_S)
    return np.int32(0)


def read_late(block):
    """Read a block a little later, so that whoever believes it to be free has overwritten it."""
    if isinstance(block, Flipped):
        return read_late(block.ref).T
    if isinstance(block, jax.Array):
        return block  # in registers
    begin = io_callback(pause, jax.ShapeDtypeStruct((), jnp.int32))
    return block.at[pl.ds(begin, block.shape[0])][...]


class Products:
    """Mosaic, with these products instead of its own."""

    def __init__(self, real):
        self.real = real
        self.started = []

    def __getattr__(self, name):
        return getattr(self.real, name)

    def wgmma(self, total, a, b):
        total.running += 1
        self.started.append((total, a, b))

    def wgmma_wait(self, n):
        while len(self.started) > n:
            total, a, b = self.started.pop(0)
            product = jnp.dot(read_late(a), read_late(b), preferred_element_type=jnp.float32)
            total.running -= 1
            total.value += product

    def wgmma_accumulator_load(self, total, *, wait_n=0):
        self.wgmma_wait(wait_n)
        return total[...]

    def accumulate(self, body, *shapes):
        return body(*(Held(jnp.zeros(shape, jnp.float32), self) for shape in shapes))

    def resume(self, body, *values):
        held = [Held(value, self) for value in values]
        body(*held)
        self.wgmma_wait(0)
        return tuple(each[...] for each in held)

    def walk(self, first, last, body, *totals):
        def turn(i, values):
            self.wgmma_wait(0)
            for total, value in zip(totals, values, strict=True):
                total.value = value
            body(i)
            self.wgmma_wait(0)
            return [total[...] for total in totals]

        values = jax.lax.fori_loop(first, last, turn, [total[...] for total in totals])
        for total, value in zip(totals, values, strict=True):
            total.value = value


def interpreter(**more):
    """Return the parameter of Mosaic's `kernel` that has JAX interpret it."""
    params = pytest.importorskip("jax._src.pallas.mosaic_gpu.interpret.params", reason="needs JAX's GPU interpreter")
    return {"interpret": params.InterpretGPUParams(**more)}


def use(monkeypatch, module):
    """Have a module's kernels use these products, which read their operands late."""
    products = Products(module.mosaic())
    monkeypatch.setattr(module, "mosaic", lambda: products)
    monkeypatch.setattr(module, "flipped", Flipped)
    for name in ("accumulate", "resume", "walk"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, getattr(products, name))
