"""Products of Mosaic that JAX's interpreter of GPU kernels lacks: with an operand in registers, onto what there was.

A product is done as late as the hardware may do it, at the wait for it; only then are its operands read. So a block
that is given back before the wait is overwritten here, and a sum that is read before it is an error.
"""

import pytest
from jax import lax

from .pallas_agreement import jnp


class Held:
    """What stands for a reference to a value in registers."""

    def __init__(self, value):
        self.value = value
        self.running = 0  # products onto it

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

    def __getitem__(self, index):
        return self.ref[...].T


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
            product = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)
            total.running -= 1
            total.value += product

    def wgmma_accumulator_load(self, total, *, wait_n=0):
        self.wgmma_wait(wait_n)
        return total[...]

    def accumulate(self, body, *shapes):
        return body(*(Held(jnp.zeros(shape, jnp.float32)) for shape in shapes))

    def resume(self, body, *values):
        held = [Held(value) for value in values]
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

        values = lax.fori_loop(first, last, turn, [total[...] for total in totals])
        for total, value in zip(totals, values, strict=True):
            total.value = value


def interpreted(monkeypatch, module):
    """Have a module's kernels use these products; return the parameter of Mosaic's `kernel` that interprets them."""
    params = pytest.importorskip("jax._src.pallas.mosaic_gpu.interpret.params", reason="needs JAX's GPU interpreter")
    products = Products(module.mosaic())
    monkeypatch.setattr(module, "mosaic", lambda: products)
    monkeypatch.setattr(module, "flipped", Flipped)
    for name in ("accumulate", "resume", "walk"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, getattr(products, name))
    return {"interpret": params.InterpretGPUParams()}
