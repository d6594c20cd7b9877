"""The device that is described for machines that are not here."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

from rooflab import device as device_module
from rooflab.device import Device, describe, find_device, size
from rooflab.probe import Facts
from rooflab.units import FORMATS

BOTH = {"torch": "2.11.0", "jax": "0.7.2", "python": "3.13.0"}
CPU = {"cpu_name": "Intel(R) Xeon(R) CPU @ 2.20GHz", "cpu_cores": 2, "memory_bytes": 2**34, "last_cache_bytes": 2**25}


def facts(*, torch: str = "cpu", jax: str = "cpu", **more) -> Facts:
    return Facts(**CPU | {"torch_backend": torch, "jax_backend": jax, "versions": BOTH} | more)


def nvidia(name: str, capability: tuple[int, int], **more) -> Facts:
    gpu = {"torch_name": name, "torch_count": 1, "torch_memory_bytes": 2**35, "torch_cache_bytes": 2**25,
           "torch_capability": capability, "jax_name": name, "jax_count": 1}  # fmt: skip
    return facts(torch="cuda", jax="gpu", **gpu | more)


H200 = nvidia("NVIDIA H200", (9, 0))
T4 = nvidia("Tesla T4", (7, 5))
LAPTOP = nvidia("NVIDIA GeForce RTX 4090 Laptop GPU", (8, 9))
MI300X = facts(torch="rocm", torch_name="AMD Instinct MI300X", torch_count=1, torch_memory_bytes=192 * 2**30)
MAC = facts(torch="mps", torch_name="Apple M3 Max", torch_count=1, torch_memory_bytes=2**36)
TPU = facts(jax="tpu", jax_name="TPU v5 lite", jax_count=1, jax_memory_bytes=16 * 2**30)


@pytest.mark.parametrize(
    ("there", "kind", "torch", "jax", "tier", "slug", "spec"),
    [
        (H200, "cuda", "cuda", "gpu", "hopper", "nvidia-h200", "h200"),
        (T4, "cuda", "cuda", "gpu", "accelerator", "tesla-t4", "t4"),
        (LAPTOP, "cuda", "cuda", "gpu", "accelerator", "nvidia-geforce-rtx-4090-laptop-gpu", None),
        (MI300X, "rocm", "cuda", "cpu", "accelerator", "amd-instinct-mi300x", "mi300x"),
        (MAC, "mps", "mps", "cpu", "accelerator", "apple-m3-max", None),
        (TPU, "tpu", "cpu", "tpu", "accelerator", "tpu-v5-lite", "tpu-v5e"),
        (facts(), "cpu", "cpu", "cpu", "cpu", "intel-xeon-cpu", None),
    ],
)
def test_described(there, kind, torch, jax, tier, slug, spec):
    found = find_device(lambda: there)
    assert (found.kind, found.torch, found.jax, found.tier, found.slug) == (kind, torch, jax, tier, slug)
    assert (found.spec.id if found.spec else None) == spec
    assert found.is_accelerator == (kind != "cpu")


def test_memory_and_cache_are_the_devices_own():
    assert (describe(H200).memory_bytes, describe(H200).cache_bytes) == (2**35, 2**25)
    assert (describe(TPU).memory_bytes, describe(TPU).cache_bytes) == (2**34, 0)
    assert (describe(facts()).memory_bytes, describe(facts()).cache_bytes) == (2**34, 2**25)


@pytest.mark.parametrize(
    ("there", "formats"),
    [
        (H200, "fp64 fp32 tf32 fp16 bf16 fp8 int8"),
        (T4, "fp64 fp32 fp16 int8 int4"),
        (LAPTOP, "fp64 fp32 tf32 fp16 bf16 fp8 int8 int4"),
        (nvidia("NVIDIA B200", (10, 0)), "fp64 fp32 tf32 fp16 bf16 fp8 fp6 fp4 int8"),
        (MAC, "fp32 fp16 bf16"),
        (facts(), "fp64 fp32"),
        (facts(cpu_flags=frozenset({"amx_bf16"})), "fp64 fp32 bf16"),
        (facts(jax="tpu", jax_name="TPU from the future", jax_count=1), "fp32 bf16"),
        (facts(torch="rocm", torch_name="AMD Radeon RX 9999"), "fp64 fp32 fp16 bf16"),
    ],
)
def test_supported_formats(there, formats):
    found = describe(there)
    assert {fmt for fmt in FORMATS if found.supports(fmt)} == set(formats.split())


@pytest.mark.parametrize("there", [MI300X, TPU])
def test_a_chip_of_the_table_supports_what_its_row_says(there):
    found = describe(there)
    assert {fmt for fmt in FORMATS if found.supports(fmt)} == set(found.spec.flops_per_s)


def test_formats_may_be_named_as_frameworks_do_and_unknown_ones_are_refused():
    assert describe(H200).supports("float8_e4m3fn")
    for there in (H200, MI300X, MAC, TPU, facts()):
        with pytest.raises(ValueError, match="one of fp64"):
            describe(there).supports("fp7")


def test_a_gpu_that_only_jax_sees_has_its_capability_and_formats():
    there = facts(jax="gpu", jax_name="NVIDIA H200", jax_count=1, jax_capability=(9, 0))
    found = describe(there)
    assert (found.kind, found.torch, found.tier) == ("cuda", "cpu", "hopper")
    assert found.supports("fp8")
    unknown = describe(facts(jax="gpu", jax_name="NVIDIA of old", jax_count=1))
    assert unknown.supports("fp32")


@pytest.mark.parametrize(
    ("backend", "name", "kind"),
    [
        ("gpu", "AMD Instinct MI300X", "rocm"),
        ("gpu", "gfx942", "rocm"),
        ("gpu", "NVIDIA L4", "cuda"),
        ("tpu", "TPU v4", "tpu"),
        ("metal", "Metal", "mps"),
    ],
)
def test_jax_calls_all_gpus_alike(backend, name, kind):
    assert describe(facts(jax=backend, jax_name=name, jax_count=1)).kind == kind


def test_several():
    assert describe(nvidia("NVIDIA H200", (9, 0), torch_count=8)).tier == "several"
    assert describe(facts(jax="cpu", jax_count=8)).tier == "cpu"  # simulated devices are still one CPU


class TestNotes:
    def test_none_where_both_see_the_same(self):
        assert describe(H200).notes == ()
        assert describe(facts()).notes == ()

    def test_torch_sees_what_jax_does_not(self):
        (note,) = describe(MI300X).notes
        assert "torch sees AMD Instinct MI300X, JAX only the CPU" in note
        assert "installation guide" in note

    def test_jax_sees_what_torch_does_not(self):
        (note,) = describe(TPU).notes
        assert note.startswith("JAX sees TPU v5 lite, torch only the CPU: what is torch's is the CPU's")

    @pytest.mark.parametrize("missing", [("torch",), ("jax",), ("torch", "jax")])
    def test_missing_frameworks(self, missing):
        found = describe(facts(**dict.fromkeys(missing, "")))
        assert [note.split()[0] for note in found.notes] == list(missing)
        assert all(f'pip install "rooflab[{name}]"' in note for name, note in zip(missing, found.notes, strict=True))
        assert all(getattr(found, name) is None for name in missing)

    def test_a_broken_framework_is_not_called_missing(self):
        problem = "torch is installed but does not start: libcudart.so is missing."
        found = describe(facts(torch="", problems=(problem,)))
        assert found.notes == (problem,)
        assert found.torch is None


def test_frozen_hashable_and_portable():
    found = describe(H200)
    with pytest.raises(FrozenInstanceError):
        found.kind = "cpu"
    with pytest.raises(TypeError):
        found.versions["torch"] = "3"
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other == found
        assert hash(other) == hash(found)


def test_slug_is_never_empty_nor_hidden():
    assert Device("cpu", "").slug == "cpu"
    assert Device("cuda", "中国").slug == "cuda"
    assert Device("cpu", "AMD EPYC 7B13").slug == "amd-epyc-7b13-cpu"


def test_the_card():
    rows = describe(nvidia("NVIDIA GeForce RTX 4090 Laptop GPU", (8, 9), torch_count=2)).rows()
    assert rows["device"] == "NVIDIA GeForce RTX 4090 Laptop GPU (x2)"
    assert rows["memory"] == "32 GiB, last-level cache 32 MiB"
    assert rows["datasheet"] == "not in the chip table: ceilings are measured"
    assert rows["frameworks"] == "torch 2.11.0 on cuda, jax 0.7.2 on gpu"
    assert "H200" in describe(H200).rows()["datasheet"]
    bare = describe(Facts(cpu_name="x")).rows()
    assert bare["frameworks"] == "neither torch nor jax is installed"
    assert bare["memory"] == "unknown"
    assert [label for label in bare if label.startswith("note")] == ["note", "note 2"]


@pytest.fixture
def unfound():
    """Nothing found yet, before and after."""
    device_module._found.cache_clear()
    yield
    device_module._found.cache_clear()


@pytest.mark.usefixtures("unfound")
class TestFinding:
    def test_only_the_cpu_can_be_forced(self, monkeypatch):
        monkeypatch.setenv("ROOFLAB_DEVICE", "gpu")
        with pytest.raises(ValueError, match=r"^ROOFLAB_DEVICE is 'gpu'; the only value it takes is 'cpu' [^\n]*\.$"):
            find_device()

    def test_forced_to_the_cpu(self, monkeypatch):
        asked = []
        monkeypatch.setenv("ROOFLAB_DEVICE", "cpu")
        monkeypatch.setattr(device_module, "look", lambda accelerators: asked.append(accelerators) or facts())
        assert find_device().kind == "cpu"
        assert asked == [False]

    def test_found_once(self, monkeypatch):
        asked = []
        monkeypatch.delenv("ROOFLAB_DEVICE", raising=False)
        monkeypatch.setattr(device_module, "look", lambda accelerators: asked.append(accelerators) or H200)
        assert find_device() is find_device()
        assert asked == [True]
        assert size(cpu=1, gpu=2) == 2

    def test_triton_is_interpreted_without_a_gpu_only(self, monkeypatch):
        monkeypatch.delenv("ROOFLAB_DEVICE", raising=False)
        monkeypatch.delitem(device_module.sys.modules, "triton", raising=False)
        for there, expected in ((H200, None), (facts(), "1")):
            monkeypatch.delenv("TRITON_INTERPRET", raising=False)
            device_module._found.cache_clear()
            monkeypatch.setattr(device_module, "look", lambda accelerators, there=there: there)
            find_device()
            assert device_module.os.environ.get("TRITON_INTERPRET") == expected


def test_sync_and_timer_on_the_cpu():
    cpu = describe(facts())
    cpu.sync()
    assert cpu.timer().name == "host"


def test_sizes_are_the_cpus_where_one_framework_does_not_see_the_accelerator(monkeypatch):
    import rooflab.device

    for torch, jax, expected in (("cuda", "gpu", 2), ("cuda", "cpu", 1), ("cpu", "tpu", 1), ("cuda", None, 2)):
        device = Device("cuda", "x", torch=torch, jax=jax)
        monkeypatch.setattr(rooflab.device, "_found", lambda device=device: device)
        assert rooflab.device.size(cpu=1, gpu=2) == expected
