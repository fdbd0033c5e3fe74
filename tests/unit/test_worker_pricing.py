from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from arco.errors import Invalid, NotFound
from arco.worker.pricing import Pricing
from servo.contract.task import Cost, Usage

TEXT = b"""
currency = "EUR"
[prices]
cpu_hour = "0.36"
memory_gib_hour = "0.036"
read_gib = "1"
written_gib = "2"
[tenants.acme]
cpu_hour = "0.72"
[tenants.free]
cpu_hour = "0"
"""
HOUR_MS = 3_600_000
DIGEST = hashlib.sha256(TEXT).hexdigest()[:16]


def cost(tenant: str = "other", **usage: int) -> Cost:
    return Pricing.parse(TEXT, "pricing.toml").cost(Usage(**usage), tenant)


def test_an_hour_of_cpu_costs_its_price_wherever_it_was_spent() -> None:
    both = cost(cpu_ms=HOUR_MS // 2, executor_cpu_ms=HOUR_MS // 2)
    assert both == Cost(currency="EUR", cpu=360_000_000, prices=DIGEST)
    assert cost(cpu_ms=10).cpu == 1_000


def test_memory_is_the_most_there_was_for_as_long_as_it_took() -> None:
    assert cost(peak_memory_kib=2 << 20, wall_ms=HOUR_MS // 2).memory == 36_000_000


def test_bytes_cost_by_the_gib_read_and_written() -> None:
    assert cost(bytes_read=1 << 30, bytes_written=1 << 30).storage == 3_000_000_000
    assert cost(bytes_read=1).storage == 1  # 0.93 of 10⁻⁹, rounded


def test_the_total_is_the_sum_of_its_parts_to_the_last_digit() -> None:
    found = cost(cpu_ms=7, executor_cpu_ms=11, wall_ms=13, peak_memory_kib=17, bytes_read=19)
    assert found.total == found.cpu + found.memory + found.storage


def test_tenants_have_exceptions_and_the_rest_as_everybody() -> None:
    usage = {"cpu_ms": HOUR_MS, "bytes_read": 1 << 30}
    assert cost("acme", **usage).cpu == 720_000_000
    assert cost("acme", **usage).storage == 1_000_000_000
    assert cost("free", **usage).cpu == 0


def test_without_prices_costs_are_nothing_in_no_currency() -> None:
    assert Pricing().cost(Usage(cpu_ms=HOUR_MS), "acme") == Cost(currency="")


def test_what_is_not_named_costs_nothing() -> None:
    pricing = Pricing.parse(b'[prices]\ncpu_hour = "1"\n', "p")
    found = pricing.cost(Usage(bytes_read=1 << 40, wall_ms=9, peak_memory_kib=9), "")
    assert (found.currency, found.total) == ("USD", 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[prices", "p.toml is not TOML"),
        ('[prices]\ncpu_day = "1"', "cpu_day"),
        ('[prices]\ncpu_hour = "-1"', "cpu_hour = -1 is not a price"),
        ('[prices]\ncpu_hour = "NaN"', "cpu_hour = NaN is not a price"),
        ('[tenants.a]\nread_gib = "Infinity"', "read_gib = Infinity is not a price"),
        ('[prices]\ncpu_hour = "cheap"', "cpu_hour"),
    ],
)
def test_a_file_that_is_wrong_says_where(text: str, problem: str) -> None:
    with pytest.raises(Invalid, match=r"p\.toml") as raised:
        Pricing.parse(text.encode(), "p.toml")
    assert problem in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.toml"):
        Pricing.read(tmp_path / "none.toml")
    (tmp_path / "some.toml").write_bytes(TEXT)
    assert Pricing.read(tmp_path / "some.toml").cost(Usage(), "").prices == DIGEST
