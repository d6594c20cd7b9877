"""Ceilings: the cache, what a framework refuses, and one real measurement, small."""

import re

import pytest

from rooflab import ceilings, costs, state
from rooflab.ceilings import FORMATS, copy_size, matmul_call, matmul_rate, matmul_size, measured_ceilings
from rooflab.device import Device
from rooflab.measurement import Measurement
from rooflab.roofline import Ceilings
from rooflab.shortage import OutOfMemory

GIB = 2**30
CPU = Device(
    "cpu", "AMD EPYC", torch="cpu", jax="cpu", memory_bytes=8 * GIB, versions={"torch": "2.13.0", "jax": "0.10.2"}
)
H200 = Device(
    "cuda", "NVIDIA H200", torch="cuda", jax="gpu", memory_bytes=140 * GIB, capability=(9, 0), versions={"torch": "2"}
)
NAME = "ceilings/amd-epyc-cpu.json"


def newer(version: str) -> Device:
    return Device("cpu", "AMD EPYC", torch="cpu", jax="cpu", versions={"torch": version, "jax": "0.10.2"})


@pytest.fixture
def measured(home, monkeypatch):
    """Counts the measurements that are made, each a little faster than the last; takes no time."""
    made = []

    def pretend(device, say):
        made.append(device)
        say("memory bandwidth")
        found = Ceilings(
            1e10 + len(made), {"fp32": 1e12}, launch_s=1e-6, label=device.name, measured=True, date="2026-01-01"
        )
        return found, []

    monkeypatch.setattr(ceilings, "_measure", pretend)
    return made


class TestCache:
    def test_measured_once(self, measured, restart):
        first = measured_ceilings(CPU)
        restart()
        assert measured_ceilings(CPU) == first
        assert len(measured) == 1
        assert first.measured

    def test_measured_again_when_asked(self, measured):
        first, second = measured_ceilings(CPU), measured_ceilings(CPU, fresh=True)
        assert second.bytes_per_s > first.bytes_per_s
        assert measured_ceilings(CPU) == second

    def test_measured_again_when_a_version_changes(self, measured):
        measured_ceilings(CPU)
        measured_ceilings(newer("2.14.0"))
        assert len(measured) == 2
        measured_ceilings(newer("2.14.0"))
        assert len(measured) == 2

    def test_one_file_a_device(self, measured, home):
        measured_ceilings(CPU)
        measured_ceilings(H200)
        assert sorted(path.name for path in (home / "ceilings").iterdir()) == ["amd-epyc-cpu.json", "nvidia-h200.json"]

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda kept: "{",
            lambda kept: "[]",
            lambda kept: "null",
            lambda kept: "",
            lambda kept: kept.replace('"key"', '"keys"'),
            lambda kept: kept.replace("1000000000000.0", "Infinity"),
            lambda kept: kept.replace("1000000000000.0", "NaN"),
            lambda kept: kept.replace("1000000000000.0", "1" + 400 * "0"),
            lambda kept: kept.replace("1000000000000.0", "0"),
            lambda kept: kept.replace("1000000000000.0", "true"),
            lambda kept: kept.replace("10000000001.0", "Infinity"),
            lambda kept: kept.replace("1e-06", "NaN"),
            lambda kept: kept.replace("1e-06", "-1"),
            lambda kept: re.sub(r'"flops_per_s": \{[^}]*\}', '"flops_per_s": {}', kept),
            lambda kept: re.sub(r'"flops_per_s": \{[^}]*\}', '"flops_per_s": [1]', kept),
            lambda kept: kept.replace('"launch_s"', '"launch"'),
            lambda kept: kept.replace('"fp32"', '"fp128"'),
            lambda kept: kept.replace('"bytes_per_s"', '"byte_per_s"'),
            lambda kept: kept.replace("1000000000000.0", "-1"),
            lambda kept: kept.replace("1000000000000.0", '"fast"'),
            lambda kept: kept.replace('"ceilings"', '"ceiling"'),
        ],
    )
    def test_a_corrupt_cache_is_said_measured_again_and_mended(self, measured, home, spoil, capsys):
        measured_ceilings(CPU)
        path = home / NAME
        spoiled = spoil(path.read_text())
        assert spoiled != path.read_text()
        path.write_text(spoiled)
        assert measured_ceilings(CPU).bytes_per_s == 1e10 + 2
        (said,) = capsys.readouterr().out.splitlines()
        assert re.fullmatch(
            r"The ceilings kept in .*amd-epyc-cpu.json are damaged \(expected .*\); they are measured again.", said
        )
        measured_ceilings(CPU)
        assert len(measured) == 2
        assert capsys.readouterr().out == ""

    def test_nothing_is_said_where_nothing_is_damaged(self, measured, capsys):
        measured_ceilings(CPU)
        measured_ceilings(newer("2.14.0"))
        measured_ceilings(newer("2.14.0"))
        assert capsys.readouterr().out == ""

    def test_unwritable(self, measured, unwritable, capsys):
        assert measured_ceilings(CPU) == measured_ceilings(CPU)
        assert len(measured) == 1
        assert capsys.readouterr().out.count("cannot write") == 1

    def test_what_is_no_device(self):
        with pytest.raises(TypeError, match="expected a Device, such as find_device\\(\\); found 5"):
            measured_ceilings(5)

    def test_progress_is_told(self, measured):
        told = []
        measured_ceilings(CPU, say=told.append)
        assert told == ["memory bandwidth"]


class TestDisturbance:
    def sampled(self, clock: str, *times_s: float) -> Measurement:
        return Measurement("sampled", times_s, work=costs.copy(1000, "fp32"), clock=clock)

    def test_a_host_shows_its_ceiling_when_left_alone_and_a_gpu_on_the_whole(self):
        times = (1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0)
        assert ceilings._undisturbed_s(self.sampled("host", *times)) == 1.0
        assert ceilings._undisturbed_s(self.sampled("events", *times)) == 3.0

    def test_ceilings_of_a_busy_device_are_used_once(self, pretended, monkeypatch, capsys):
        wide = Measurement("copy", (1.0, 1.0, 1.0, 2.0, 2.0), work=costs.copy(10**9, "fp32"))
        monkeypatch.setattr(ceilings, "_bandwidth", lambda device: wide)
        assert measured_ceilings(CPU).bytes_per_s == 8e9
        assert "busy while its ceilings were measured (copy)" in capsys.readouterr().out
        calm = Measurement("copy", (0.5,) * 5, work=costs.copy(10**9, "fp32"))
        monkeypatch.setattr(ceilings, "_bandwidth", lambda device: calm)
        assert measured_ceilings(CPU).bytes_per_s == 16e9
        monkeypatch.setattr(ceilings, "_bandwidth", lambda device: wide)
        assert measured_ceilings(CPU).bytes_per_s == 16e9


@pytest.mark.parametrize(
    ("memory", "cache", "accelerator", "expected"),
    [
        (2 * GIB, 32 * 2**20, False, 128 * 2**20),
        (2 * GIB, 512 * 2**20, False, 256 * 2**20),  # Binder: never more than an eighth of the memory
        (64 * GIB, 256 * 2**20, False, GIB),
        (140 * GIB, 50 * 2**20, True, 4 * GIB),
        (16 * GIB, 4 * 2**20, True, 2 * GIB),
        (0, 0, False, 128 * 2**20),
    ],
)
def test_copy_size(memory, cache, accelerator, expected):
    assert copy_size(memory_bytes=memory, cache_bytes=cache, accelerator=accelerator) == expected


@pytest.fixture
def pretended(home, monkeypatch):
    """Everything but the rates takes no time, and a rate is a number by format."""
    copied = Measurement("copy", (1.0,), work=costs.copy(10**9, "fp32"))
    monkeypatch.setattr(ceilings, "_bandwidth", lambda device: copied)
    monkeypatch.setattr(ceilings, "_launch", lambda device: Measurement("launch", (1e-6,)))
    monkeypatch.setattr(ceilings, "matmul_call", lambda device, fmt, n: lambda: None)
    rates = {fmt: Measurement(fmt, (1.0 + i,), work=costs.matmul(64, 64, 64, fmt)) for i, fmt in enumerate(FORMATS)}
    monkeypatch.setattr(ceilings, "matmul_rate", lambda device, fmt, n: rates[fmt])
    return rates


class TestFormats:
    def test_those_that_the_device_supports(self, pretended):
        assert list(measured_ceilings(H200).flops_per_s) == ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]
        assert list(measured_ceilings(CPU).flops_per_s) == ["fp64", "fp32"]

    def test_a_refused_one_is_left_out_and_said(self, pretended, monkeypatch):
        def refuse(device, fmt, n):
            if fmt == "fp8":
                raise RuntimeError(
                    "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0\nmore"
                )
            return lambda: None

        monkeypatch.setattr(ceilings, "matmul_call", refuse)
        told = []
        found = measured_ceilings(H200, say=told.append)
        assert "fp8" not in found.flops_per_s
        assert "bf16" in found.flops_per_s
        assert [line for line in told if "left out" in line] == [
            "fp8 is left out: torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0"
        ]

    def test_one_that_what_is_installed_lacks_is_left_out(self, pretended, monkeypatch):
        monkeypatch.setattr(ceilings, "matmul_call", lambda device, fmt, n: None if fmt == "fp8" else lambda: None)
        assert "fp8" not in measured_ceilings(H200).flops_per_s

    def test_none_at_all_is_an_error_and_nothing_is_kept(self, pretended, monkeypatch, home):
        def refuse(device, fmt, n):
            raise RuntimeError("no kernel image is available")

        monkeypatch.setattr(ceilings, "matmul_call", refuse)
        with pytest.raises(RuntimeError, match=r"^No format could be multiplied on NVIDIA H200; .*no kernel image"):
            measured_ceilings(H200)
        assert not (home / "ceilings").exists()


class TestShortage:
    def test_of_the_copy(self, pretended, monkeypatch, home):
        def full(device):
            raise RuntimeError("CUDA out of memory. Tried to allocate 4.00 GiB.\nmore lines")

        monkeypatch.setattr(ceilings, "_bandwidth", full)
        with pytest.raises(OutOfMemory, match=r"^Measuring the memory bandwidth needs more memory than is free here"):
            measured_ceilings(H200)
        assert not (home / "ceilings").exists()

    def test_of_a_product_is_no_refusal(self, pretended, monkeypatch, home):
        def full(device, fmt, n):
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")

        monkeypatch.setattr(ceilings, "matmul_rate", full)
        with pytest.raises(OutOfMemory, match=r"^Measuring the matmul rate in fp64 needs more memory"):
            measured_ceilings(H200)
        assert not (home / "ceilings").exists()


class TestProducts:
    def test_sizes(self):
        assert matmul_size(CPU, "fp32") == 1024
        assert matmul_size(H200, "fp64") == 4096
        assert matmul_size(H200, "fp8") == 8192

    @pytest.mark.parametrize("fmt", ["fp64", "fp32", "bf16"])
    def test_torch_multiplies_random_matrices(self, fmt):
        pytest.importorskip("torch", reason="needs torch")
        product = matmul_call(CPU, fmt, 8)()
        assert product.shape == (8, 8)
        assert product.std() > 0

    @pytest.mark.parametrize("fmt", ["fp32", "bf16", "fp16"])
    def test_jax(self, fmt):
        pytest.importorskip("jax", reason="needs jax")
        tpu = Device("tpu", "TPU v5 lite", torch="cpu", jax="tpu")  # torch computes beside it, not on it
        assert matmul_call(tpu, fmt, 8)().shape == (8, 8)

    def test_numpy_alone(self):
        bare = Device("cpu", "x")
        assert matmul_call(bare, "fp64", 8)().dtype == "f8"
        assert matmul_call(bare, "fp32", 8)().dtype == "f4"
        assert matmul_call(bare, "bf16", 8) is None

    @pytest.mark.parametrize("fmt", ["fp8", "tf32", "fp4", "int8"])
    def test_formats_that_torch_multiplies_on_nvidia_only_or_nowhere(self, fmt):
        pytest.importorskip("torch", reason="needs torch")
        assert matmul_call(CPU, fmt, 16) is None
        with pytest.raises(ValueError, match=f"expected a format that what is installed multiplies .* found {fmt}"):
            matmul_rate(CPU, fmt, 16)


@pytest.mark.parametrize("frameworks", [{"torch": "cpu"}, {"jax": "cpu"}, {}], ids=["torch", "jax", "numpy"])
def test_a_real_measurement(home, monkeypatch, frameworks):
    for name in frameworks:
        pytest.importorskip(name, reason=f"needs {name}")
    small = Device("cpu", "this machine", memory_bytes=64 * 2**20, **frameworks)
    monkeypatch.setattr(ceilings, "matmul_size", lambda device, fmt: 64)
    told = []
    found = measured_ceilings(small, say=told.append)
    assert found.bytes_per_s > 0
    assert found.flops_per_s["fp32"] > 0
    assert 0 < found.launch_s < 1
    assert (found.measured, found.label) == (True, "this machine")
    assert len(found.date) == 10
    assert (told[0], told[-1]) == ("memory bandwidth", "cost of a launch")
    assert Ceilings.from_dict(state.read_json("ceilings/this-machine-cpu.json")["ceilings"]) == found


def test_the_cpu_is_timed_by_the_host_and_a_gpu_by_its_events():
    assert ceilings._device_clock(CPU) == "host"
    assert ceilings._device_clock(H200) == "events"
