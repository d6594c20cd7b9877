"""Launches that are repeated: Triton looks at their arguments once, and never again."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from rooflab.kernels import launching  # noqa: E402


class Kernel:
    """Stands for a kernel of Triton, and writes down what is done with it."""

    arg_names = ("x", "n", "BLOCK", "EVEN")

    def __init__(self):
        self.done, self.pre_run_hooks = [], []

    def __getitem__(self, grid):
        return lambda *args, **constants: self.done.append(("inspected", grid, args[1:], constants))

    def warmup(self, *args, grid, **constants):
        self.done.append(("compiled", grid, args[1:], constants))
        return Compiled(self.done)


class Compiled:
    def __init__(self, done):
        self.done = done

    def __getitem__(self, grid):
        return lambda *args: self.done.append(("launched", grid, args[1:], {}))


class OnGpu(torch.Tensor):
    """A tensor that says it is on a GPU."""

    device = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch):
    """The first of two GPUs that are not there."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return torch.zeros(4).as_subclass(OnGpu)


CONSTANTS = {"EVEN": True, "BLOCK": 64, "num_warps": 4}


def test_arguments_are_inspected_once_and_what_is_compiled_is_launched(gpu):
    kernel = Kernel()
    again = launching.repeated(kernel, (3,), **CONSTANTS)
    for _ in range(4):
        again(gpu, 7)
    compiled = ("compiled", (3,), (7,), CONSTANTS | launching.FUSED)
    # The constants follow the arguments in the order of the kernel's parameters, and options are not among them.
    assert kernel.done == [compiled] + [("launched", (3, 1, 1), (7, 64, True), {})] * 4


def test_hooks_see_every_launch(gpu):
    kernel = Kernel()
    kernel.pre_run_hooks.append(print)
    again = launching.repeated(kernel, (3,), **CONSTANTS)
    for _ in range(3):
        again(gpu, 7)
    assert [what for what, *_ in kernel.done] == ["inspected"] * 3


def test_tensors_of_another_device_are_launched_there(gpu, monkeypatch):
    entered = []

    class Device:
        def __init__(self, device):
            self.device = device

        def __enter__(self):
            entered.append(self.device)

        def __exit__(self, *_):
            pass

    kernel = Kernel()
    again = launching.repeated(kernel, (3,), **CONSTANTS)
    again(gpu, 7)
    again(gpu, 7)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device", Device)
    again(gpu, 7)
    assert [what for what, *_ in kernel.done] == ["compiled", "launched", "launched", "inspected"]
    assert entered == [torch.device("cuda", 0)]


def test_an_empty_grid_is_not_launched(gpu):
    kernel = Kernel()
    launching.launch(kernel, (3, 0), gpu, 7, **CONSTANTS)
    assert kernel.done == []
    launching.launch(kernel, (3, 1), gpu, 7, **CONSTANTS)
    assert kernel.done == [("inspected", (3, 1), (7,), CONSTANTS | launching.FUSED)]
