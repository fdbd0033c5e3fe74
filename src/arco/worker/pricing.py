"""What a task's usage comes to, at the prices of a file.

    currency = "USD"

    [prices]                          # decimal text; what is not named costs nothing
    cpu_hour = "0.0864"
    memory_gib_hour = "0.009"
    read_gib = "0.0004"
    written_gib = "0.005"

    [tenants.acme]                    # exceptions
    cpu_hour = "0.07"

Costs are whole numbers of 10⁻⁹ of the currency's unit, so that sums are exact.
"""

from __future__ import annotations

import hashlib
import tomllib
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from pathlib import Path
from typing import Final

import msgspec

from arco.errors import Invalid, NotFound
from servo.contract.task import Cost, Usage

NANO: Final = Decimal(10**9)
_HOUR_MS: Final = Decimal(3_600_000)
_GIB: Final = Decimal(1 << 30)
_GIB_KIB: Final = Decimal(1 << 20)


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of each unit; None where a tenant has no exception."""

    cpu_hour: Decimal | None = None
    memory_gib_hour: Decimal | None = None
    read_gib: Decimal | None = None
    written_gib: Decimal | None = None

    def over(self, other: Prices) -> Prices:
        own, base = msgspec.structs.asdict(self), msgspec.structs.asdict(other)
        return Prices(**{name: base[name] if v is None else v for name, v in own.items()})


class _PricingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    currency: str = "USD"
    prices: Prices = Prices()
    tenants: dict[str, Prices] = {}


class Pricing:
    """Prices. Without any, costs are zero and only usage is recorded."""

    def __init__(self, file: _PricingFile | None = None, digest: str = "") -> None:
        self._file = file
        self._digest = digest

    @classmethod
    def read(cls, path: Path) -> Pricing:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise NotFound(f"{path}: the price file cannot be read: {error.strerror}") from None
        return cls.parse(data, str(path))

    @classmethod
    def parse(cls, data: bytes, where: str) -> Pricing:
        try:
            parsed = msgspec.convert(tomllib.loads(data.decode()), _PricingFile, strict=False)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"{where} is not TOML: {error}") from None
        except (msgspec.ValidationError, InvalidOperation) as error:
            hint = "prices are decimal text: cpu_hour, memory_gib_hour, read_gib, written_gib"
            raise Invalid(f"{where}: {error}", hint=hint) from None
        _check(parsed, where)
        return cls(parsed, hashlib.sha256(data).hexdigest()[:16])

    def cost(self, usage: Usage, tenant: str) -> Cost:
        if self._file is None:
            return Cost(currency="")
        prices = self._file.tenants.get(tenant, Prices()).over(self._file.prices)
        cpu_h = Decimal(usage.cpu_ms + usage.executor_cpu_ms) / _HOUR_MS
        memory_gib_h = Decimal(usage.peak_memory_kib) / _GIB_KIB * usage.wall_ms / _HOUR_MS
        read, written = Decimal(usage.bytes_read) / _GIB, Decimal(usage.bytes_written) / _GIB
        return Cost(
            currency=self._file.currency,
            cpu=_nano(cpu_h, prices.cpu_hour),
            memory=_nano(memory_gib_h, prices.memory_gib_hour),
            storage=_nano(read, prices.read_gib) + _nano(written, prices.written_gib),
            prices=self._digest,
        )


def _check(file: _PricingFile, where: str) -> None:
    for prices in (file.prices, *file.tenants.values()):
        for name, price in msgspec.structs.asdict(prices).items():
            if price is not None and (not price.is_finite() or price < 0):
                raise Invalid(f"{where}: {name} = {price} is not a price")


def _nano(amount: Decimal, price: Decimal | None) -> int:
    if price is None:
        return 0
    return int((amount * price * NANO).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
