import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.units import FORMATS, bytes_of, format_name, format_si, in_unit, parse_quantity, unit_of


class TestFormats:
    def test_the_formats_of_the_contract_and_their_bits(self) -> None:
        expected = "fp64 64, fp32 32, tf32 32, fp16 16, bf16 16, fp8 8, fp6 6, fp4 4, int8 8, int4 4"
        assert ", ".join(f"{name} {bits}" for name, bits in FORMATS.items()) == expected

    @pytest.mark.parametrize(
        ("name", "expected"), [("fp64", 8), ("tf32", 4), ("bf16", 2), ("fp6", 0.75), ("int4", 0.5)]
    )
    def test_bytes_may_be_fractions(self, name: str, expected: float) -> None:
        assert bytes_of(name) == expected

    @pytest.mark.parametrize(
        ("given_name", "expected"),
        [
            ("torch.float32", "fp32"),
            ("torch.bfloat16", "bf16"),
            ("float8_e5m2", "fp8"),
            ("torch.float4_e2m1fn_x2", "fp4"),
            (np.float16, "fp16"),
            (np.dtype("int8"), "int8"),
            ("BF16", "bf16"),
        ],
    )
    def test_names_of_libraries_are_understood(self, given_name: object, expected: str) -> None:
        assert format_name(given_name) == expected

    @pytest.mark.parametrize("wrong", ["fp128", "", None, "bf 16", 16])
    def test_an_unknown_format_is_refused_with_the_known_ones(self, wrong: object) -> None:
        with pytest.raises(ValueError, match=r"one of fp64, fp32, .*int4; found"):
            bytes_of(wrong)


class TestFormatSI:
    @pytest.mark.parametrize(
        ("value", "unit", "expected"),
        [
            (4.28e12, "B/s", "4.28 TB/s"),
            (16e-6, "s", "16 µs"),
            (0.97, "", "0.97"),
            (1000e9, "B/s", "1 TB/s"),
            (999.4e9, "B/s", "999 GB/s"),
            (999.6e9, "B/s", "1 TB/s"),
            (999.6e-9, "s", "1 µs"),
            (0, "s", "0 s"),
            (0.0, "", "0"),
            (math.inf, "FLOP/byte", "inf FLOP/byte"),
            (-math.inf, "s", "-inf s"),
            (math.nan, "B/s", "nan B/s"),
            (-3.2e-3, "s", "-3.2 ms"),
            (0.4, "%", "40 %"),
            (2.134, "x", "2.13x"),
            (295.34, "FLOP/byte", "295 FLOP/byte"),
            (1234.5, "FLOP/byte", "1,230 FLOP/byte"),
            (65536, "", "65,536"),
            (523_123.4, "tokens/s", "523,000 tokens/s"),
            (3600, "s", "3,600 s"),  # nobody's kilosecond
            (0.5, "B", "0.5 B"),  # nobody's millibyte
            (2**31, "B", "2.15 GB"),
            (3.1e24, "FLOP", "3.1 YFLOP"),
            (1e-16, "s", "1e-4 ps"),
            (3.2e-5, "ms", "0.032 ms"),  # a unit with a prefix is kept
            (80 * 2**30, "GiB", "80 GiB"),
            (1e-7, "", "1e-7"),
        ],
    )
    def test_cases(self, value: float, unit: str, expected: str) -> None:
        assert format_si(value, unit) == expected

    def test_digits(self) -> None:
        assert [format_si(4.27618e12, "B/s", digits=d) for d in (1, 2, 5)] == ["4 TB/s", "4.3 TB/s", "4.2762 TB/s"]

    @given(st.floats(1e-12, 1e24), st.sampled_from(["s", "B", "B/s", "FLOP", "FLOP/s", "W"]), st.integers(2, 6))
    def test_what_is_written_reads_back_within_the_rounding(self, value: float, unit: str, digits: int) -> None:
        assert parse_quantity(format_si(value, unit, digits), unit=unit) == pytest.approx(
            value, rel=0.51 * 10 ** (1 - digits)
        )

    @given(st.floats(1, 9e26))
    def test_the_number_before_a_prefix_is_between_1_and_1000(self, value: float) -> None:
        number = float(format_si(value, "B/s").split()[0].replace(",", ""))
        assert 1 <= number < 1000

    @given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(["", "s", "B/s", "%", "x", "tokens"]))
    def test_no_float_breaks_it(self, value: float, unit: str) -> None:
        assert format_si(value, unit)


class TestParse:
    @pytest.mark.parametrize(
        ("text", "unit", "expected"),
        [
            ("3 ms", "s", 3e-3),
            ("3ms", "s", 3e-3),
            ("0.003", "s", 3e-3),
            ("3e-3 s", "s", 3e-3),
            ("3", "ms", 3e-3),  # a bare number is in the unit of the question
            ("20 us", "ms", 20e-6),
            ("20 µs", "ms", 20e-6),  # micro sign
            ("20 μs", "ms", 20e-6),  # Greek mu
            ("5 microseconds", "ms", 5e-6),
            ("2 minutes", "s", 120),
            ("5 GB/s", "B/s", 5e9),
            ("5GB/sec", "B/s", 5e9),
            ("1.5 GBps", "GB/s", 1.5e9),
            ("10 Gbit/s", "GB/s", 1.25e9),
            ("5", "GB/s", 5e9),
            ("5T", "GB/s", 5e12),
            ("64 KiB", "B", 65536),
            ("1.5 GiB", "GB", 1.5 * 2**30),
            ("2x", "x", 2),
            ("2 ×", "x", 2),
            ("2 times", "", 2),
            ("40 %", "%", 0.4),
            ("40", "%", 0.4),
            ("40%", "x", 0.4),
            ("0.4x", "%", 0.4),
            ("300 TFLOPS", "TFLOP/s", 3e14),
            ("300 tflops", "FLOP/s", 3e14),
            ("300 TFLOPs/s", "FLOP/s", 3e14),
            ("6 GFLOPs", "FLOP", 6e9),
            ("295 FLOP/B", "FLOP/byte", 295),
            ("1,000,000", "", 1e6),
            ("1_000", "", 1e3),
            ("64k", "", 64e3),
            ("2^20", "B", 2**20),
            ("2**10", "", 1024),
            ("1/4", "x", 0.25),
            ("~3 ms", "s", 3e-3),
            ("about 3 ms", "s", 3e-3),
            (" 7 kernels ", "kernels", 7),
            ("1 kernel", "kernels", 1),
            (".5 s", "s", 0.5),
            ("-3 ms", "s", -3e-3),
        ],
    )
    def test_what_readers_type(self, text: str, unit: str, expected: float) -> None:
        assert parse_quantity(text, unit=unit) == expected

    @pytest.mark.parametrize(
        ("text", "unit", "says"),
        [
            ("banana", "ms", "expected a number, with or without a unit, such as '3 ms'; found 'banana'"),
            ("", "ms", "such as '3 ms'; found ''"),
            ("3,2 ms", "ms", "write the decimal point as '.'"),
            ("0,003", "s", "write the decimal point as '.'"),  # not three thousand
            ("3 GB", "ms", "expected ms .*found the unit 'GB'"),
            ("3 s", "", "expected a plain number; found the unit 's'"),
            ("5 Gb/s", "GB/s", "could be either"),
            ("5 gbps", "GB/s", "could be either"),
            ("5 b", "B", r"expected B \(bytes\) or bit \(bits\); found 'b', which could be either"),
            ("5 Mb/sec", "B/s", r"expected MB/s \(bytes\) or Mbit/s \(bits\); found 'Mb/sec'"),
            ("5 MS", "s", r"found 'MS': did you mean 'ms'\?"),
            ("5 GB/S", "GB/s", r"found 'GB/S': did you mean 'GB/s'\?"),
            ("1e308 TB", "B", "expected a finite number, also in SI units; found '1e308 TB'"),
            ("-1e308 TB", "B", "finite"),
            ("1e308 h", "s", "finite"),
            ("2^" + "9" * 150, "", "finite"),
            ("3 a" + " " * 500 + "b", "s", "found a text of 504 characters"),
            ("1e999", "s", "finite"),
            ("1/0", "x", "finite"),
            ("inf", "s", "expected a number"),
            ("nan", "s", "expected a number"),
            ("3 4 ms", "s", "found"),
            ("3 m", "s", "found the unit 'm'"),  # minutes or milliseconds?
        ],
    )
    def test_nonsense_is_refused_in_one_sentence(self, text: str, unit: str, says: str) -> None:
        with pytest.raises(ValueError, match=says) as error:
            parse_quantity(text, unit=unit)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize("text", [3, None, b"3 ms", ["3"]])
    def test_what_is_no_text(self, text: Any) -> None:
        with pytest.raises(TypeError, match="expected an answer as text, such as '3 ms'; found"):
            parse_quantity(text, unit="ms")

    @given(st.text(max_size=12), st.sampled_from(["s", "ms", "GB/s", "", "%"]))
    def test_any_text_is_read_or_refused(self, text: str, unit: str) -> None:
        try:
            assert math.isfinite(parse_quantity(text, unit=unit))
        except ValueError as error:
            assert str(error).startswith("expected")  # noqa: PT017


class TestUnits:
    @given(st.floats(1e-6, 1e6), st.sampled_from(["ms", "µs", "GB/s", "GiB", "%", "x", "tokens/s", "Gbit/s"]))
    def test_to_the_display_unit_and_back(self, number: float, unit: str) -> None:
        assert in_unit(unit_of(unit).to_si(number), unit) == pytest.approx(number, rel=1e-12)

    def test_spellings_of_one_unit_are_one_unit(self) -> None:
        spellings: list[Any] = ["us", "µs", "μs", "usec", "microseconds"]
        assert {unit_of(s) for s in spellings} == {unit_of("µs")}
        assert {unit_of(s) for s in ["TFLOPS", "TFLOP/s", "TFLOPs/s", "tflop/s"]} == {unit_of("TFLOP/s")}
        assert unit_of("KB") == unit_of("kB")
        assert unit_of("KiB").scale == 1024

    @pytest.mark.parametrize(
        ("symbol", "meant"),
        [
            ("Gb", r"GB \(bytes\) or Gbit \(bits\)"),
            ("gb/s", r"GB/s \(bytes\) or Gbit/s \(bits\)"),
            ("kbps", r"kB/s \(bytes\) or kbit/s \(bits\)"),
            ("Gib", r"GiB \(bytes\) or Gibit \(bits\)"),
            ("mb", r"MB \(bytes\) or Mbit \(bits\)"),
            ("b", r"B \(bytes\) or bit \(bits\)"),
            ("mB", "did you mean 'MB'"),
            ("HZ", "did you mean 'Hz'"),
            ("gB/S", "did you mean 'GB/s'"),
        ],
    )
    def test_what_could_be_two_units_or_is_misspelt_is_refused(self, symbol: str, meant: str) -> None:
        with pytest.raises(ValueError, match=meant):
            unit_of(symbol)
        with pytest.raises(ValueError, match=meant):
            format_si(1.0, symbol)

    @pytest.mark.parametrize("symbol", [None, 3, b"ms"])
    def test_a_unit_is_text(self, symbol: Any) -> None:
        with pytest.raises(TypeError, match="expected a unit as text, such as 'ms' or 'GB/s'; found"):
            unit_of(symbol)

    @pytest.mark.parametrize(
        "unit", ["s", "ms", "µs", "B", "kB", "GB/s", "GiB/s", "FLOP/s", "bit", "Gbit/s", "W", "mW"]
    )
    def test_what_is_written_right_is_never_refused(self, unit: str) -> None:
        assert unit_of(unit).symbol == unit

    @pytest.mark.parametrize("value", [None, "3", b"3", [1.0], 1j])
    def test_what_is_no_number(self, value: Any) -> None:
        for write in (format_si, in_unit):
            with pytest.raises(TypeError, match="expected a number to write with its unit; found"):
                write(value, "s")

    def test_whole_numbers_beyond_all_floats(self) -> None:
        assert format_si(-(10**400), "B") == "-inf B"

    def test_no_digits(self) -> None:
        with pytest.raises(ValueError, match="expected 1 significant digit or more; found 0"):
            format_si(1.0, "s", digits=0)

    def test_an_unknown_word_is_a_unit_of_its_own(self) -> None:
        assert unit_of("dispatches").base == "dispatches"
        assert unit_of("dispatches").scale == 1
