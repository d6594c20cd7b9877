"""Run the kernels over rows that are in Gluon: on a GPU that can, or else with NumPy in place of one.

With NumPy programs run one after another, or, launched as a cooperative grid, all at the same time, a thread each: then
one may wait for what another writes. Who waits for longer than the patience of `gluon_threads` raises, and so all
others do.
"""

import threading
import time

import numpy as np
import pytest

from rooflab.kernels import launching
from rooflab.kernels.rows import rings, torch_norm, torch_softmax
from rooflab.kernels.rows import triton_norm_exchange as norm_exchange
from rooflab.kernels.rows import triton_norm_forward_hopper as norm_forward_hopper
from rooflab.kernels.rows import triton_norm_hopper as norm_hopper
from rooflab.kernels.rows import triton_norm_warps as norm_warps
from rooflab.kernels.rows import triton_softmax_hopper as softmax_hopper
from rooflab.tolerances import tolerance

from . import gluon_threads as threads
from . import ptx_words
from .agreement import DEVICE, random, torch

MULTIPROCESSORS = 2  # few rows are several turns of their programs


class Copies:
    """Copies arrive when they are waited for; until then there is nothing that could be used."""

    def __init__(self):
        self.open, self.groups = [], []

    def load_each(self, target, pointer, mask):
        target.array[...] = np.nan
        self.open.append((target.array, pointer.array, np.where(mask, pointer.places, 0), mask))

    def commit_group(self):
        self.groups.append(self.open)
        self.open = []

    def wait_group(self, outstanding):
        assert outstanding >= 0
        while len(self.groups) > outstanding:
            for target, array, places, mask in self.groups.pop(0):
                target[...] = np.where(mask, array[places], 0)


def carried_out(asm, constraints, given, dtype, is_pure, pack):
    """Assembly that makes two words of one."""
    assert (constraints, is_pure, pack) == ("=r,=r,r", True, 2)
    (block,) = given
    both = np.stack(ptx_words.run(asm, [np.ascontiguousarray(block).view(np.uint32)], outputs=2), -1)
    return threads.tensor(both.reshape(block.shape).view(dtype))


class Machine(threads.Machine):
    """One program of a grid (parts, programs)."""

    def __init__(self, place, programs):
        super().__init__(place, programs)
        self.given_up, self.asked, self.since = threading.Event(), None, 0.0

    def look_again(self, pointer):
        """What stands there now, whoever has written it; asked again and again for the same, it waits in between."""
        place = int(pointer.places)
        if place != self.asked:
            self.asked, self.since = place, time.monotonic()
        elif self.given_up.is_set() or time.monotonic() > self.since + threads.PATIENCE_S:
            raise TimeoutError("a program waits for what nobody writes")
        else:
            time.sleep(1e-4)
        return threads.tensor(pointer.array[place])

    def language(self):
        gl = super().language()
        plain = gl.load

        def load(pointer, mask=True, other=0, volatile=False):
            return self.look_again(pointer) if volatile else plain(pointer, mask, other)

        def exchange(pointer, value, mask, sem, scope):
            assert (sem, scope) == ("relaxed", "gpu")
            gl.store(pointer, value, mask)

        gl.load, gl.atomic_xchg = load, exchange
        gl.program_id = lambda axis: threads.tensor(np.int64(self.place[axis]))
        gl.num_programs = lambda axis: self.programs[axis]
        gl.num_warps = lambda: 4
        gl.reduce = lambda both, axis, function: tuple(each.sum(axis) for each in both)
        gl.inline_asm_elementwise = carried_out
        return gl

    def copies(self):
        copies = Copies()
        return {**super().copies(), "async_copy": copies, "load_each": copies.load_each}


def run(module, kernel, grid, *args, launch_cooperative_grid=False, **constants):
    """Run a kernel with NumPy, on tensors of a CPU."""

    def given(each):
        if isinstance(each, torch.Tensor):
            flat = torch.as_strided(
                each, (each.untyped_storage().nbytes() // each.itemsize - each.storage_offset(),), (1,)
            )
            if each.dtype == torch.bfloat16:
                return threads.Pointer(flat.view(torch.int16).numpy().view(threads.BFLOAT16))
            return threads.Pointer(flat.numpy())
        return threads.tensor(np.float32(each) if isinstance(each, float) else np.int64(each))

    args = [given(each) for each in args]
    constants = {name: given(each) if isinstance(each, torch.Tensor) else each for name, each in constants.items()}
    machines = [Machine(place, grid) for place in np.ndindex(*grid)]
    if launch_cooperative_grid:
        at_once(machines, kernel, module, args, constants)
        return
    for machine in machines:
        with np.errstate(all="ignore"):
            machine.run(kernel, module, *args, **constants)


def at_once(machines, kernel, module, args, constants):
    """Run programs at the same time, which end when they have all ended, or one of them has failed."""
    failed, given_up = [], threading.Event()

    def work(machine):
        machine.given_up = given_up
        try:
            with np.errstate(all="ignore"):  # of this thread
                machine.run(kernel, module, *args, **constants)
        except BaseException as error:
            failed.append(error)
            given_up.set()

    started = [threading.Thread(target=work, args=(machine,), daemon=True) for machine in machines]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failed:
        raise failed[0]


def take_over(monkeypatch):
    """Have the operators take these kernels; returns the choice that is to be used, and the launches.

    On Hopper they are launched, as on a chip with few multiprocessors; on a CPU they are run as above. A choice with
    PARTS is for gradients (with LEAD where programs exchange sums), one with ROWS for those of short rows, and any
    other for the operators.
    """
    if DEVICE != "cpu" and not rings._able(torch.device(DEVICE)):
        pytest.skip("needs a GPU that has these kernels, or none at all: what stands for one takes tensors on the CPU")
    wanted, seen, real = {}, [], rings.ring_blocks
    modules = {
        "norm_hopper_kernel": norm_forward_hopper,
        "norm_backward_hopper_kernel": norm_hopper,
        "norm_backward_exchange_kernel": norm_exchange,
        "softmax_hopper_kernel": softmax_hopper,
        "softmax_backward_hopper_kernel": softmax_hopper,
        "norm_backward_warps_kernel": norm_warps,
    }

    def launch(kernel, grid, *args, num_warps=4, **constants):
        name = getattr(kernel, "__name__", "")
        if name in modules:
            seen.append((grid, constants))
        if name in modules and DEVICE == "cpu":
            run(modules[name], name, grid, *args, **constants)
        else:
            launching.launch(kernel, grid, *args, num_warps=num_warps, **constants)

    def choices(kind, cols):
        if "ROWS" in wanted or "LEAD" in wanted:
            return []
        return [wanted] if real(kind, 32_768) and ("PARTS" in wanted) == kind.endswith("_backward") else []

    monkeypatch.setattr(torch_norm, "warp_blocks", lambda cols: [wanted] if "ROWS" in wanted else [])
    monkeypatch.setattr(torch_norm, "exchange_blocks", lambda kind, cols: [wanted] if "LEAD" in wanted else [])
    for module in (torch_norm, rings):
        monkeypatch.setattr(module, "launch", launch)
        monkeypatch.setattr(module, "processors", lambda device: MULTIPROCESSORS)
    for module in (torch_norm, torch_softmax, rings):
        monkeypatch.setattr(module, "on_hopper", rings.whole_lines)
        monkeypatch.setattr(module, "ring_blocks", choices)
    for module in (torch_norm, torch_softmax):
        monkeypatch.setattr(
            module, "choose", lambda name, key, found, run, device: wanted if wanted in found else found[0]
        )
    return wanted, seen


def residual_is_added(cols, seen):
    """Layer norm's gradient, of rows that lie apart, with and without one along the residual stream; both are seen."""
    x, r, dy, dh, w, b = (random(6, cols + 16, dtype=torch.float16, seed=i)[:, 16:] for i in range(6))
    w, b = w[0].clone(), b[0].clone()
    h, mean, rstd = torch_norm.norm(x, r, w, b, 1e-5, True)[1:]
    plain = torch_norm.norm_backward(dy, None, h, w, mean, rstd, True)
    found = torch_norm.norm_backward(dy, dh, h, w, mean, rstd, True)
    assert len(seen) == 2
    allowed = tolerance("fp16", 1, scale=float(found[0].abs().max()))
    torch.testing.assert_close(found[0].double(), plain[0].double() + dh.double(), rtol=allowed.rtol, atol=allowed.atol)
    assert torch.equal(found[1], plain[1])
    assert torch.equal(found[2], plain[2])
