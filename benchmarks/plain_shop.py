"""`examples/shop` as a plain PySpark script: the same functions, in the order people write.

Every output is written once with `df.write.parquet`, and read back from its files by
what comes after. Days are folders `date=…`, as Spark itself would name them. There are
no checks, no versions, no lineage; what fails here has to be started again.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "shop"
FIRST_DAY = date(2025, 1, 1)
_REF = re.compile(r'\{\{\s*ref\("([^"]+)"\)\s*\}\}')


class Size(NamedTuple):
    days: int
    rows_per_day: int
    customers: int
    products: int

    @classmethod
    def of(cls, rows: int, days: int) -> Size:
        """So many orders in all; as many customers and products as go with them."""
        return cls(days, rows // days, max(1_000, rows // 100), max(100, rows // 20_000))

    @property
    def dates(self) -> list[date]:
        return [FIRST_DAY + timedelta(days=number) for number in range(self.days)]

    @property
    def config(self) -> dict[str, str | int | bool | None]:
        """The same for a run of the example: all days are good ones."""
        return {
            "rows_per_day": self.rows_per_day,
            "customers": self.customers,
            "products": self.products,
            "bad_day": "never",
        }


class Shop:
    """One pass over all assets; `each` runs a function for every day."""

    def __init__(
        self, spark: SparkSession, folder: Path, size: Size, each: Callable[..., object]
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._size = size
        self._each = each

    def run(self) -> None:
        self.raw()
        self.clean()
        self.marts()

    def raw(self) -> None:
        generate = _module("generate")
        size = self._size
        of = {"customers": size.customers, "products": size.products}
        self.write(generate.customers(self._spark, size.customers), "raw.customers")
        self.write(generate.products(self._spark, size.products), "raw.products")

        def make(day: date) -> None:
            orders = generate.orders(self._spark, day, size.rows_per_day, **of)
            self.write(orders, "raw.orders", day)
            clicks = generate.clicks(self._spark, day, size.rows_per_day, **of)
            self.write(clicks, "raw.clicks", day)

        self._each(make, size.dates)

    def clean(self) -> None:
        cleaning, visits = _module("cleaning"), _module("visits")
        self.write(cleaning.tidy_customers(self.read("raw.customers")), "clean.customers")
        self.write(cleaning.tidy_products(self.read("raw.products")), "clean.products")

        def make(day: date) -> None:
            self.write(cleaning.tidy_orders(self.read("raw.orders", day)), "clean.orders", day)
            self.write(cleaning.tidy_clicks(self.read("raw.clicks", day)), "clean.clicks", day)
            sessions = visits.sessionize(self.read("clean.clicks", day))
            self.write(sessions, "clean.sessions", day)
            sales = cleaning.join_sales(
                self.read("clean.orders", day),
                self.read("clean.customers"),
                self.read("clean.products"),
            )
            self.write(sales, "clean.sales", day)

        self._each(make, self._size.dates)

    def marts(self) -> None:
        totals, marts = _module("totals"), _module("marts")

        def make(day: date) -> None:
            self.write(self.query(marts.daily_revenue.sql, day), "marts.daily_revenue", day)
            self.write(self.query(marts.conversion.sql, day), "marts.conversion", day)

        def week(day: date) -> None:
            days = [day - timedelta(days=back) for back in range(6, -1, -1)]
            known = [each for each in days if each >= FIRST_DAY]
            self.write(
                totals.over_days(self.read("marts.daily_revenue", *known)),
                "marts.weekly_revenue",
                day,
            )

        self._each(make, self._size.dates)
        self._each(week, self._size.dates)
        january = [day for day in self._size.dates if day.month == FIRST_DAY.month]
        month = totals.over_days(self.read("marts.daily_revenue", *january))
        self.write(month, "marts.monthly_revenue")
        sales = self.read("clean.sales", *self._size.dates)
        value = totals.customer_value(sales, self.read("clean.customers"))
        self.write(value, "marts.customer_value")

    def query(self, sql: str, day: date) -> DataFrame:
        """An asset's query over views of this day, in a session of its own."""
        spark = self._spark.newSession()

        def view(found: re.Match[str]) -> str:
            key = found[1]
            own_day = () if key == "clean.customers" else (day,)
            name = key.replace(".", "_")
            self.read(key, *own_day, spark=spark).createOrReplaceTempView(name)
            return name

        return spark.sql(_REF.sub(view, sql))

    def read(self, key: str, *days: date, spark: SparkSession | None = None) -> DataFrame:
        reader = (spark or self._spark).read
        if not days:
            return reader.parquet(str(self.place(key)))
        places = [str(self.place(key, day)) for day in days]
        return reader.option("basePath", str(self.place(key))).parquet(*places)

    def write(self, frame: DataFrame, key: str, day: date | None = None) -> None:
        frame.write.parquet(str(self.place(key, day)))

    def place(self, key: str, day: date | None = None) -> Path:
        folder = self._folder / key
        return folder / f"date={day}" if day else folder


def _module(name: str) -> Any:
    return importlib.import_module(f"shop.{name}")


def each_of(threads: int) -> Callable[..., object]:
    """Runs a function for every value, on so many threads."""

    def each(make: Callable[[date], None], days: Sequence[date]) -> object:
        if threads == 1:
            return [make(day) for day in days]  # type: ignore[func-returns-value]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(make, days))

    return each
