"""What the probe finds, with frameworks that are there, missing, broken or pretended."""

import builtins
import os
import sys
from types import SimpleNamespace

import pytest

from rooflab import probe
from rooflab.probe import Facts, look

BARE = Facts(cpu_name="AMD EPYC", cpu_cores=2, memory_bytes=4e9, versions={"python": "3.12.0"})


def pretend_torch(*, cuda: bool = False, mps: bool = False, hip: str | None = None) -> SimpleNamespace:
    properties = SimpleNamespace(total_memory=2**34, L2_cache_size=2**22)
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: cuda,
            get_device_properties=lambda i: properties,
            get_device_name=lambda i: "Tesla T4",
            device_count=lambda: 2,
            get_device_capability=lambda i: (7, 5),
        ),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
        version=SimpleNamespace(hip=hip),
    )


def pretend_jax(*devices: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(local_devices=lambda backend=None: list(devices))


def jax_device(platform: str, kind: str, **more: object) -> SimpleNamespace:
    return SimpleNamespace(**{"platform": platform, "device_kind": kind, "memory_stats": lambda: None} | more)


@pytest.fixture
def fails(monkeypatch):
    """A function that makes importing a package raise an error."""

    def make(package: str, error: Exception) -> None:
        real = builtins.__import__

        def refuse(name, *args, **kwargs):
            if name == package:
                raise error
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refuse)

    return make


def test_this_machine():
    facts = look(accelerators=False)
    assert facts.cpu_name
    assert facts.cpu_cores >= 1
    assert facts.memory_bytes > 1e8
    assert facts.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts.problems == ()
    assert facts.torch_backend == ("cpu" if "torch" in facts.versions else "")
    assert facts.jax_backend == ("cpu" if "jax" in facts.versions else "")


def test_forcing_the_cpu_reaches_the_processes_that_this_one_starts(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cuda,cpu")  # which may be set for a good reason, and has to give way
    pytest.importorskip("jax", reason="needs jax")
    look(accelerators=False)
    assert os.environ["JAX_PLATFORMS"] == "cpu"


def test_jax_that_has_started_on_an_accelerator_computes_on_the_cpu(monkeypatch):
    tpu, cpu = jax_device("tpu", "TPU v5e"), jax_device("cpu", "cpu")
    set_to = {}
    jax = SimpleNamespace(
        local_devices=lambda backend=None: [cpu] if backend == "cpu" else [tpu],
        config=SimpleNamespace(update=set_to.__setitem__),
    )
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert probe._add_jax(BARE, accelerators=False).jax_backend == "cpu"
    assert set_to["jax_default_device"] is cpu


def test_torch_with_an_nvidia_gpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", pretend_torch(cuda=True))
    facts = probe._add_torch(BARE, True)
    assert (facts.torch_backend, facts.torch_name, facts.torch_count) == ("cuda", "Tesla T4", 2)
    assert (facts.torch_capability, facts.torch_memory_bytes, facts.torch_cache_bytes) == ((7, 5), 2**34, 2**22)
    assert probe._add_torch(BARE, False).torch_backend == "cpu"


def test_torch_with_an_amd_gpu_has_no_compute_capability(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", pretend_torch(cuda=True, hip="6.4"))
    facts = probe._add_torch(BARE, True)
    assert (facts.torch_backend, facts.torch_capability) == ("rocm", (0, 0))


def test_torch_on_apple(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", pretend_torch(mps=True))
    facts = probe._add_torch(BARE, True)
    assert (facts.torch_backend, facts.torch_name, facts.torch_memory_bytes) == ("mps", "AMD EPYC", 4e9)


def test_jax_on_a_gpu(monkeypatch):
    device = jax_device("gpu", "NVIDIA H200", compute_capability="9.0", memory_stats=lambda: {"bytes_limit": 100})
    monkeypatch.setitem(sys.modules, "jax", pretend_jax(device, device))
    facts = probe._add_jax(BARE, True)
    assert (facts.jax_backend, facts.jax_name, facts.jax_count) == ("gpu", "NVIDIA H200", 2)
    assert (facts.jax_capability, facts.jax_memory_bytes) == ((9, 0), 100)


def test_a_backend_that_does_not_count_its_memory(monkeypatch):
    def refuse() -> None:
        raise RuntimeError("UNIMPLEMENTED: memory_stats")

    monkeypatch.setitem(sys.modules, "jax", pretend_jax(jax_device("tpu", "TPU v2", memory_stats=refuse)))
    assert probe._add_jax(BARE, True).jax_memory_bytes == 0


@pytest.mark.parametrize(("text", "capability"), [("9.0", (9, 0)), ("12.1", (12, 1)), ("gfx942", (0, 0)), ("", (0, 0))])
def test_capability(text, capability):
    assert probe._capability(text) == capability


def test_missing_frameworks_are_no_problem(fails):
    fails("torch", ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert probe._add_torch(BARE, True) == BARE
    fails("jax", ModuleNotFoundError("No module named 'jax'", name="jax"))
    assert probe._add_jax(BARE, True) == BARE


@pytest.mark.parametrize(
    "error",
    [
        OSError("libcudart.so.13: cannot open shared object file\nmore lines"),
        ImportError("libcudnn.so.9: undefined symbol"),
        ModuleNotFoundError("No module named 'sympy'", name="sympy"),  # not torch is missing, but what it needs
        RuntimeError(""),
    ],
)
def test_a_torch_that_does_not_load_is_said_and_not_counted_on(fails, error):
    fails("torch", error)
    facts = probe._add_torch(BARE, True)
    assert facts.torch_backend == ""
    (problem,) = facts.problems
    assert problem.startswith("torch is installed but does not start: ")
    assert problem.endswith(".")
    assert "\n" not in problem


def test_jax_without_a_backend(monkeypatch):
    def no_backend(backend=None):
        raise RuntimeError("Unable to initialize backend 'cuda': no driver\nset JAX_PLATFORMS")

    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(local_devices=no_backend))
    facts = probe._add_jax(BARE, True)
    assert facts.jax_backend == ""
    assert facts.problems == ("jax is installed but does not start: Unable to initialize backend 'cuda': no driver.",)


PROC = {
    "/proc/cpuinfo": "processor: 0\nmodel name\t: AMD EPYC 7B13\nflags\t\t: fpu amx_bf16 avx2\n",
    "/proc/meminfo": "MemTotal:       8000 kB\nMemFree: 1 kB",
    "/sys/devices/system/cpu/cpu0/cache/index0/size": "32K",
    "/sys/devices/system/cpu/cpu0/cache/index3/size": "16M",
}


@pytest.mark.skipif(sys.platform == "darwin", reason="reads /proc, which macOS does not have")
class TestProc:
    def test_linux(self, monkeypatch):
        monkeypatch.setattr(probe, "_read", lambda path: PROC.get(path, ""))
        assert probe._cpu_name() == "AMD EPYC 7B13"
        assert probe._cpu_flags() == {"fpu", "amx_bf16", "avx2"}
        assert probe.main_memory_bytes() == 8000 * 1024
        assert probe._last_cache_bytes() == 16 * 2**20

    @pytest.mark.parametrize(
        ("limit", "expected"), [("4096000", 4096000), ("max", 8000 * 1024), ("9223372036854771712", 8000 * 1024)]
    )
    def test_a_container_may_hold_less_than_the_machine(self, monkeypatch, limit, expected):
        files = PROC | {"/sys/fs/cgroup/memory.max": limit}
        monkeypatch.setattr(probe, "_read", lambda path: files.get(path, ""))
        assert probe.main_memory_bytes() == expected

    def test_a_machine_that_tells_nothing(self, monkeypatch):
        monkeypatch.setattr(probe, "_read", lambda path: "")
        assert probe.main_memory_bytes() == 0
        assert probe._last_cache_bytes() == 0
        assert probe._cpu_flags() == frozenset()


def test_macos(monkeypatch):
    told = {
        "machdep.cpu.brand_string": "Apple M3 Max",
        "hw.memsize": "68719476736",
        "hw.perflevel0.l2cachesize": "16777216",
    }
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(probe, "_sysctl", lambda name: told.get(name, ""))
    assert probe._cpu_name() == "Apple M3 Max"
    assert probe.main_memory_bytes() == 2**36
    assert probe._last_cache_bytes() == 2**24


def test_less_memory_can_be_asked_for_and_bounds_the_cache(monkeypatch):
    monkeypatch.setattr(probe, "_main_memory", lambda: 64e9)
    monkeypatch.setattr(probe, "_last_cache_bytes", lambda: 480 * 2.0**20)
    assert probe.look(accelerators=False).last_cache_bytes == 480 * 2**20
    monkeypatch.setenv("ROOFLAB_MEMORY", "2e9")
    facts = probe.look(accelerators=False)
    assert (facts.memory_bytes, facts.last_cache_bytes) == (2e9, 2e9 / 16)
    monkeypatch.setenv("ROOFLAB_MEMORY", "1e12")
    assert probe.main_memory_bytes() == 64e9, "no more than there is"
    monkeypatch.setattr(probe, "_main_memory", lambda: 0.0)
    assert probe.main_memory_bytes() == 1e12
    monkeypatch.delenv("ROOFLAB_MEMORY")
    assert probe.main_memory_bytes() == 0


@pytest.mark.parametrize("value", ["2 GB", "0", "-1", "nan"])
def test_a_memory_that_is_no_number_is_refused(value, monkeypatch):
    monkeypatch.setenv("ROOFLAB_MEMORY", value)
    with pytest.raises(ValueError, match=r"ROOFLAB_MEMORY is .*; expected a number of bytes above zero"):
        probe.main_memory_bytes()
