import dataclasses
import datetime
import pickle
import re
from typing import Any

import pytest

from rooflab.specs import Chip, UnknownChip, chip, chips, find_chip

EVERY = [pytest.param(row, id=row.id) for row in chips()]


class TestTable:
    @pytest.mark.parametrize("row", EVERY)
    def test_a_row_is_complete(self, row: Chip) -> None:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.id)
        assert row.name.startswith(row.vendor)
        assert row.kind in {"gpu", "tpu", "cpu", "npu", "soc"}
        assert 2015 <= row.year <= 2026
        assert len(row.source) > 10
        assert datetime.date(2026, 1, 1) <= datetime.date.fromisoformat(row.checked)
        assert row.devices in {1, 2}

    @pytest.mark.parametrize("row", EVERY)
    def test_figures_are_in_si_units_and_of_a_sane_size(self, row: Chip) -> None:
        assert 8e9 <= row.memory_bytes <= 10e12
        assert 50e9 <= row.bytes_per_s <= 30e12
        for link in (row.link_bytes_per_s, row.host_bytes_per_s):
            assert link is None or 8e9 <= link <= 2e12
            assert link is None or link <= row.bytes_per_s
        for name, rate in row.flops_per_s.items():
            assert 1e12 <= rate <= 50e15, name

    @pytest.mark.parametrize("row", EVERY)
    def test_ratios_between_formats_are_those_of_dense_rates(self, row: Chip) -> None:
        rates = row.flops_per_s
        if row.kind in {"gpu", "tpu", "npu"}:
            assert rates
        assert not {"fp16", "bf16"} <= set(rates) or rates["fp16"] == rates["bf16"]
        # A sparse rate in a dense row would double one of these ratios.
        allowed = {
            ("fp8", "bf16"): {1, 2},
            ("int8", "bf16"): {1, 2, 4},
            ("bf16", "tf32"): {1, 2},
            ("fp4", "fp8"): {1, 2, 4},
            ("fp6", "fp8"): {1, 2},
            ("int4", "int8"): {1, 2},
        }
        if row.id == "trainium3":
            allowed["fp8", "bf16"] = {3.75}  # block-scaled products run four times as wide
        for (narrow, wide), ratios in allowed.items():
            if narrow in rates and wide in rates:
                ratio = rates[narrow] / rates[wide]
                assert any(ratio == pytest.approx(r, rel=0.03) for r in ratios), (narrow, wide, ratio)
        for narrow, wide in [("bf16", "fp32"), ("fp16", "fp32"), ("tf32", "fp32"), ("fp32", "fp64")]:
            if narrow in rates and wide in rates:
                assert rates[narrow] >= rates[wide]

    def test_ids_and_names_are_unique(self) -> None:
        for values in ([row.id for row in chips()], [row.name for row in chips()]):
            assert len(values) == len(set(values))

    def test_every_reported_name_belongs_to_one_row(self) -> None:
        for row in chips():
            for alias in row.aliases:
                found = find_chip(alias)
                assert found is not None
                assert found.id == row.id

    @pytest.mark.parametrize(
        ("id", "dtype", "rate"),
        [
            ("h100-sxm", "bf16", 989.4e12),
            ("h200", "bf16", 989.4e12),
            ("h200", "fp8", 1978.9e12),
            ("a100-sxm4-80gb", "bf16", 312e12),
            ("a100-sxm4-40gb", "tf32", 156e12),
            ("h100-pcie", "bf16", 756e12),
            ("rtx-4090", "bf16", 165.2e12),
            ("rtx-4090", "fp16", 165.2e12),  # with fp32 accumulation; 330.3e12 with fp16
            ("rtx-3090", "fp16", 71e12),
            ("l4", "bf16", 121e12),  # the datasheet prints 242 with sparsity
            ("t4", "fp16", 65e12),
            ("b200", "bf16", 2250e12),
            ("mi300x", "bf16", 1307.4e12),
            ("tpu-v5e", "bf16", 197e12),
        ],
    )
    def test_dense_rates_by_hand(self, id: str, dtype: str, rate: float) -> None:
        assert chip(id).flops_per_s[dtype] == rate


class TestReferenceText:
    @pytest.mark.parametrize(
        ("id", "ridge", "tolerance"),
        [
            ("mi355x", 310, 8),
            ("tpu7x", 310, 8),
            ("trainium2", 230, 2),
            ("gaudi3", 450, 5),
            ("b200", 281, 1),
            ("h100-sxm", 295, 1),
        ],
    )
    def test_ridge_points(self, id: str, ridge: float, tolerance: float) -> None:
        assert chip(id).ridge("bf16") == pytest.approx(ridge, abs=tolerance)

    @pytest.mark.parametrize(
        ("id", "memory", "bandwidth", "bf16"),
        [
            ("mi355x", 288e9, 8e12, 2517e12),
            ("tpu7x", 192 * 2**30, 7.4e12, 2307e12),
            ("gaudi3", 128e9, 3.7e12, 1678e12),
            ("trainium2", 96 * 2**30, 2.9e12, 667e12),
        ],
    )
    def test_the_other_accelerators(self, id: str, memory: float, bandwidth: float, bf16: float) -> None:
        row = chip(id)
        assert row.memory_bytes == memory
        assert row.bytes_per_s == pytest.approx(bandwidth, rel=0.005)
        assert row.flops_per_s["bf16"] == pytest.approx(bf16, rel=0.0005)

    def test_rates_per_format_differ_by_vendor(self) -> None:
        for id in ("gaudi3", "tpu-v6e"):
            assert chip(id).flops_per_s["fp8"] == chip(id).flops_per_s["bf16"]
        assert chip("mi355x").flops_per_s["fp6"] == chip("mi355x").flops_per_s["fp4"]
        assert chip("b200").flops_per_s["fp6"] == chip("b200").flops_per_s["fp8"]

    def test_a_large_model_on_unified_memory(self) -> None:
        weights_bytes = 70e9  # 70 billion parameters in 8 bits
        assert weights_bytes > chip("rtx-4090").memory_bytes
        assert weights_bytes < chip("m3-ultra").memory_bytes == 512e9
        assert round(chip("m3-ultra").bytes_per_s / weights_bytes) == 12  # "about a dozen tokens per second"


class TestFind:
    @pytest.mark.parametrize(
        ("reported", "id"),
        [
            ("NVIDIA H100 80GB HBM3", "h100-sxm"),
            ("NVIDIA H100 PCIe", "h100-pcie"),
            ("NVIDIA H100 NVL", "h100-nvl"),
            ("NVIDIA H200", "h200"),
            ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
            ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
            ("A100-SXM4-40GB", "a100-sxm4-40gb"),
            ("Tesla T4", "t4"),
            ("NVIDIA L4", "l4"),
            ("nvidia geforce rtx 4090", "rtx-4090"),
            ("AMD Instinct MI300X", "mi300x"),
            ("Radeon RX 7900 XTX", "rx-7900-xtx"),
            ("TPU v5 lite", "tpu-v5e"),
            ("TPU v6 lite", "tpu-v6e"),
            ("TPU v5", "tpu-v5p"),
            ("Apple M2 Max", "m2-max"),
            ("Apple M3 Max (30-core GPU)", "m3-max-30"),
            ("Intel(R) Arc(TM) B580 Graphics", "arc-b580"),
            ("  AMD EPYC 7763   64-Core Processor ", "epyc-7763"),
        ],
    )
    def test_names_that_devices_report(self, reported: str, id: str) -> None:
        found = find_chip(reported)
        assert found is not None
        assert found.id == id

    @pytest.mark.parametrize(
        "reported",
        [
            "NVIDIA GeForce RTX 4090 Laptop GPU",
            "NVIDIA GeForce RTX 4090 D",
            "NVIDIA H100",
            "NVIDIA H800",
            "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            "Apple M3 Max",  # two GPUs with different bandwidths share the name
            "TPU",
            "cpu",
            "",
        ],
    )
    def test_names_that_are_no_row(self, reported: str) -> None:
        assert find_chip(reported) is None

    def test_a_device_that_is_half_a_chip_gets_half(self) -> None:
        whole, half = chip("tpu-v3"), find_chip("TPU v3")
        assert half is not None
        assert half.flops_per_s["bf16"] == whole.flops_per_s["bf16"] / 2
        assert half.bytes_per_s == whole.bytes_per_s / 2
        assert half.memory_bytes == 16 * 2**30
        assert half.ridge("bf16") == whole.ridge("bf16")
        assert "1 of 2" in half.name
        assert half.per_device() is half
        linked = find_chip("AMD Instinct MI250X")
        assert linked is not None
        assert linked.link_bytes_per_s == 200e9
        assert linked.host_bytes_per_s is None


class TestChip:
    def test_an_unknown_id_names_near_matches(self) -> None:
        with pytest.raises(UnknownChip, match="found 'h100': did you mean h100-sxm, h100-pcie, h100-nvl"):
            chip("h100")
        with pytest.raises(UnknownChip, match="did you mean rtx-4090"):
            chip("rtx4090")
        with pytest.raises(UnknownChip, match=r"chips\(\) lists all"):
            chip("abacus")
        with pytest.raises(UnknownChip):
            chip("")

    @pytest.mark.parametrize(
        ("typed", "id"),
        [
            ("nvidia h200", "h200"),
            ("NVIDIA GeForce RTX 4090", "rtx-4090"),
            ("Geforce RTX4090", "rtx-4090"),
            ("AMD Instinct MI300X", "mi300x"),
            ("amd mi300X", "mi300x"),
            ("google TPU v5 p", "tpu-v5p"),
            ("Apple M3", "m3"),
            ("Tesla T4", "t4"),
        ],
    )
    def test_the_first_suggestion_knows_no_vendor_no_case_and_no_blanks(self, typed: str, id: str) -> None:
        with pytest.raises(UnknownChip, match=rf"found '{typed}': did you mean {id}[,?]"):
            chip(typed)

    @pytest.mark.parametrize("id", [None, 3, b"h200"])
    def test_an_id_is_text(self, id: Any) -> None:
        with pytest.raises(TypeError, match="expected the id of a chip as text"):
            chip(id)

    def test_an_id_may_be_written_loosely(self) -> None:
        assert chip(" H100 SXM") == chip("h100_sxm") == chip("h100-sxm")

    def test_a_format_without_a_rate_names_those_with_one(self) -> None:
        with pytest.raises(KeyError, match=r"\(fp32, fp16, int8, int4\); found bf16"):
            chip("t4").ridge("bf16")
        with pytest.raises(KeyError, match=r"\(none\)"):
            chip("m3-ultra").ridge("fp32")

    def test_it_is_frozen_hashable_and_can_be_sent(self) -> None:
        row = chip("h200")
        with pytest.raises(dataclasses.FrozenInstanceError):
            row.year = 2000  # type: ignore[misc]
        with pytest.raises(TypeError):
            row.flops_per_s["bf16"] = 1.0  # type: ignore[index]
        assert pickle.loads(pickle.dumps(row)) == row
        assert len({row, chip("h200")}) == 1
