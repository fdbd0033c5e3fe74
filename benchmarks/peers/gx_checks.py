"""Great Expectations with the ten checks of `benchmarks/checks.py`, on Spark.

Run by that benchmark, in an environment of its own. Prints the seconds of each round.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main() -> None:
    import great_expectations as gx  # type: ignore[import-not-found]
    from great_expectations import expectations as gxe
    from pyspark.sql import SparkSession

    given = json.loads(sys.argv[1])
    session = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", given["memory"])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_spark("spark", persist=given["persist"])
    asset = source.add_dataframe_asset("orders")
    definition = asset.add_batch_definition_whole_dataframe("all")
    suite = context.suites.add(gx.ExpectationSuite(name="ten"))
    for expectation in expectations(gxe, given):
        suite.add_expectation(expectation)
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(name="ten", data=definition, suite=suite)
    )

    def validate(frame: Any) -> None:
        found = validation.run(batch_parameters={"dataframe": frame}, result_format="SUMMARY")
        bad = [each for each in found.results if not each.success]
        assert not bad, bad

    def orders() -> Any:
        return session.read.parquet(given["orders"])

    session.read.parquet(given["customers"]).createOrReplaceTempView("customers")
    session.read.parquet(given["orders"]).limit(1000).selectExpr("max(order_id)").collect()
    seconds = []
    for _ in range(given["rounds"]):
        began = time.perf_counter()
        validate(orders())
        seconds.append(time.perf_counter() - began)
    print(json.dumps(seconds))


def expectations(gxe: Any, given: Any) -> list[Any]:
    rows = given["rows"]
    return [
        gxe.ExpectTableRowCountToBeBetween(min_value=rows, max_value=rows),
        gxe.ExpectColumnValuesToNotBeNull(column="order_id"),
        gxe.ExpectColumnValuesToNotBeNull(column="email"),
        gxe.ExpectColumnValuesToBeUnique(column="order_id"),
        gxe.ExpectColumnValuesToBeInSet(column="status", value_set=given["statuses"]),
        gxe.ExpectColumnValuesToBeBetween(column="quantity", min_value=1, max_value=20),
        gxe.ExpectColumnValuesToBeBetween(column="discount", min_value=0, max_value=1),
        gxe.ExpectColumnValuesToMatchRegex(column="email", regex=f"^{given['email']}$"),
        gxe.UnexpectedRowsExpectation(
            unexpected_rows_query="SELECT o.customer_id FROM {batch} o LEFT ANTI JOIN customers c "
            "ON o.customer_id = c.customer_id WHERE o.customer_id IS NOT NULL"
        ),
        gxe.UnexpectedRowsExpectation(
            unexpected_rows_query="SELECT * FROM {batch} "
            "WHERE NOT coalesce(amount >= 0 AND quantity > 0, FALSE)"
        ),
    ]


if __name__ == "__main__":
    main()
