"""What a shop's systems would send, made up: any number of rows, always the same ones.

Every value follows from a hash of the row's number, its day and the value's name. So
rows do not depend on how many partitions Spark cuts them into, on the order in which
days are made, or on anything that was made before. The data is as untidy as such data
is: some orders are sent twice, codes differ in case, addresses have spaces around them.
"""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

SEED = 7
COUNTRIES = ["DE", "FR", "IT", "ES", "NL", "PL", "GB", "US"]
CATEGORIES = ["paper", "ink", "pens", "desks", "bags", "lamps"]
RATES = {"EUR": "1.00", "USD": "0.92", "GBP": "1.17"}
"""What one unit of a currency is in euros."""
CLICKS_PER_VISITOR = 8


def draw(below: int, name: str, *of: str | Column) -> Column:
    """A whole number from 0, drawn for a name; the same one for the same values of `of`."""
    keys = [each if isinstance(each, Column) else F.lit(each) for each in of or (F.col("id"),)]
    return F.pmod(F.xxhash64(F.lit(SEED), F.lit(name), *keys), F.lit(below))


def one_of(values: list[str], drawn: Column) -> Column:
    return F.element_at(F.array(*map(F.lit, values)), (drawn + 1).cast("int"))


def skewed(among: int, name: str, *of: str | Column) -> Column:
    """As `draw`, but small numbers come up more often: some products sell, most do not."""
    uniform = draw(1 << 20, name, *of) / F.lit(1 << 20)
    return F.floor(uniform * uniform * among)


def customers(spark: SparkSession, count: int) -> DataFrame:
    number = F.col("id")
    country = one_of(COUNTRIES, skewed(len(COUNTRIES), "country"))
    mailbox = F.concat(F.lit("customer"), number, F.lit("@example.com"))
    return spark.range(count).select(
        number.alias("customer_id"),
        F.concat(F.lit("Customer "), number).alias("name"),
        _untidy(mailbox, "email").alias("email"),
        _untidy(country, "case").alias("country"),
        F.date_add(F.lit(date(2020, 1, 1)), draw(1_800, "signed_up").cast("int")).alias(
            "signed_up"
        ),
    )


def products(spark: SparkSession, count: int) -> DataFrame:
    number = F.col("id")
    return spark.range(count).select(
        _sku(number).alias("sku"),
        F.concat(F.lit("Product "), number).alias("title"),
        one_of(CATEGORIES, number % len(CATEGORIES)).alias("category"),
        _price(number).alias("price"),
    )


def orders(
    spark: SparkSession, day: date, rows: int, *, customers: int, products: int, bad: bool = False
) -> DataFrame:
    """One day's orders; one in a hundred comes twice.

    On a bad day the shop's till has its currencies mixed up: every third price is a
    hundred times too high, and negative.
    """
    drawn = spark.range(rows + rows // 100).select((F.col("id") % rows).alias("id"))
    on = (day.isoformat(), F.col("id"))
    currency = one_of([*RATES], skewed(len(RATES), "currency", *on))
    product = skewed(products, "product", *on)
    price = (_price(product) / _rate(currency)).cast("decimal(12,2)")
    if bad:
        glitch = draw(3, "glitch", *on) == 0
        price = F.when(glitch, price * -100).otherwise(price).cast("decimal(12,2)")
    return drawn.select(
        (F.lit(day.toordinal() * 1_000_000_000) + F.col("id")).alias("order_id"),
        _at(day, draw(86_400, "second", *on)).alias("ordered_at"),
        skewed(customers, "customer", *on).alias("customer_id"),
        _sku(product).alias("sku"),
        (draw(4, "quantity", *on) + 1).cast("int").alias("quantity"),
        price.alias("unit_price"),
        _untidy(currency, "currency case", *on).alias("currency"),
        one_of(
            ["paid"] * 17 + ["refunded", "cancelled", "cancelled"], draw(20, "status", *on)
        ).alias("status"),
        F.when(draw(10, "coupon", *on) == 0, "WELCOME").alias("coupon"),
    )


def clicks(
    spark: SparkSession, day: date, rows: int, *, customers: int, products: int
) -> DataFrame:
    """One day's clicks. A visitor comes twice, and clicks four times within minutes."""
    visitor = F.floor(F.col("id") / CLICKS_PER_VISITOR)
    step = F.col("id") % CLICKS_PER_VISITOR
    visit = F.floor(step / 4)
    who = (day.isoformat(), visitor)
    began = draw(80_000, "visit", *who, visit)
    known = draw(10, "known", *who) < 6
    page = one_of(["/", "/search", "/product/", "/product/", "/cart"], draw(5, "page", *who, step))
    sku = _sku(skewed(products, "seen", *who, step))
    ip = [F.lit("10"), *(draw(256, f"ip{part}", *who).cast("string") for part in range(3))]
    return spark.range(rows).select(
        (F.lit(day.toordinal() * 1_000_000_000) + F.col("id")).alias("click_id"),
        _at(day, began + (step % 4) * draw(900, "pace", *who)).alias("clicked_at"),
        F.concat(F.lit("v"), visitor).alias("visitor"),
        F.when(known, skewed(customers, "customer", *who)).alias("customer_id"),
        F.when(page == "/product/", F.concat(page, sku)).otherwise(page).alias("url"),
        F.concat_ws(".", *ip).alias("ip"),
    )


def _sku(number: Column) -> Column:
    return F.concat(F.lit("P"), F.lpad(number.cast("string"), 6, "0"))


def _price(number: Column) -> Column:
    """In euros; the same for a product wherever it turns up."""
    return ((draw(20_000, "price", number) + 100) / 100).cast("decimal(10,2)")


def _rate(currency: Column) -> Column:
    rate = F.lit(None).cast("decimal(4,2)")
    for code, value in RATES.items():
        rate = F.when(currency == code, F.lit(value).cast("decimal(4,2)")).otherwise(rate)
    return rate


def _at(day: date, second: Column) -> Column:
    """A moment of a day, in UTC and without a zone."""
    return F.timestamp_seconds(F.lit((day - date(1970, 1, 1)).days * 86_400) + second).cast(
        "timestamp_ntz"
    )


def _untidy(text: Column, name: str, *of: str | Column) -> Column:
    how = draw(20, name, *of)
    spaced = F.concat(F.lit(" "), text, F.lit(" "))
    return F.when(how == 0, F.lower(text)).when(how == 1, spaced).otherwise(text)
