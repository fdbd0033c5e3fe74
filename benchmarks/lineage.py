"""Lineage: whether it is right, and what it costs.

`golden_exact` is the share of the golden cases that come out exactly as they were written
by hand. `capture_fraction` is the time that taking a plan out of the JVM and following its
columns adds to a task: a plan of about 200 nodes, which reads, transforms and writes
1,000,000 rows as Parquet. `growth` is how many times as long wide queries take when they are
four times as wide; 4 is linear.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.golden.lineage.case import NAMESPACE, SCHEMAS, Case, actual
from tests.golden.lineage.cases import CASES

from arco.spark.lineage.capture import capture
from arco.spark.lineage.trace import trace
from arco.spark.session import open_session
from benchmarks.workload import arguments, folder, progress, report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS, KEPT = 20, 10
STEPS = 198
"""Each adds a node; the input is two more."""


def is_exact(case: Case, spark: SparkSession) -> bool:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    given = {
        name: spark.createDataFrame([], schema).alias(f"@{NAMESPACE}.{name}")
        for name, schema in SCHEMAS.items()
    }
    if case.frame is not None:
        frame = case.frame(SimpleNamespace(spark=spark, F=F, Window=Window, **given))
    else:
        for name, each in given.items():
            each.createOrReplaceTempView(name)
        frame = spark.sql(case.sql.format(**{name: name for name in given}))
    plan = capture(frame)
    exact = plan is not None and actual(trace(plan)) == case.expected
    if not exact:
        progress(f"not exact: {case.name}")
    return exact


def transformed(frame: DataFrame) -> DataFrame:
    """A long chain of small steps, as people write them, over 20 columns.

    What is computed comes from columns that stay as they are: nested ever deeper, it would
    measure nothing but Spark's optimizer.
    """
    from pyspark.sql import functions as F

    for step in range(STEPS):
        kept, made = f"c{step % KEPT}", f"c{KEPT + step % (COLUMNS - KEPT)}"
        match step % 4:
            case 0:
                frame = frame.filter(F.col(kept) >= -1 - step)
            case 1:
                frame = frame.withColumn(made, F.col(kept) + step)
            case 2:
                frame = frame.withColumn(made, F.when(F.col(kept) > step, F.col("c0")))
            case 3:
                frame = frame.withColumn(made, F.concat_ws("-", kept, "c1"))
    return frame


def task(spark: SparkSession, source: Path, target: Path) -> tuple[float, float]:
    """Seconds of the whole task, and of its lineage."""
    began = time.perf_counter()
    frame = transformed(spark.read.parquet(str(source)).alias("@bench.wide"))
    asked = time.perf_counter()
    plan = capture(frame)
    assert plan is not None
    found = trace(plan)
    took = time.perf_counter() - asked
    frame.write.mode("overwrite").parquet(str(target))
    whole = time.perf_counter() - began
    assert len(found.columns) == len(frame.columns)
    return whole, took


def wide_frames(spark: SparkSession, width: int) -> dict[str, DataFrame]:
    from pyspark.sql import functions as F

    schema = ", ".join(f"c{n} long" for n in range(width))
    wide = spark.createDataFrame([], schema).alias("@bench.wide")
    few = [spark.createDataFrame([], "c0 long").alias(f"@bench.t{n}") for n in range(width // 5)]
    shifted = wide
    for _ in range(5):
        shifted = shifted.select(*[(F.col(f"c{n}") + 1).alias(f"c{n}") for n in range(width // 5)])
    return {
        "select": wide.select(*[f"c{n}" for n in range(width)]),
        "projections": shifted,
        "union": functools.reduce(lambda one, other: one.union(other), few),
        "struct": wide.select(F.struct("*").alias("s")).select("s.*"),
    }


def growth(spark: SparkSession, width: int) -> dict[str, float]:
    """Of each shape, the time at `width` over the time at a quarter of it."""

    def seconds(frame: DataFrame) -> float:
        began = time.perf_counter()
        plan = capture(frame)
        assert plan is not None
        assert len(trace(plan).columns) == len(frame.columns)
        return time.perf_counter() - began

    small, large = (wide_frames(spark, each) for each in (width // 4, width))
    for frame in small.values():
        seconds(frame)  # a warm-up
    measured = {name: (seconds(small[name]), seconds(large[name])) for name in small}
    for name, (one, other) in measured.items():
        progress(f"{name}: {one * 1e3:.0f} ms, and {other * 1e3:.0f} ms at width {width}")
    return {name: round(other / one, 2) for name, (one, other) in measured.items()}


def main() -> None:
    options = arguments(__doc__).parse_args()
    rows, turns = (20_000, 1) if options.quick else (1_000_000, 5)
    spark = open_session("local[*]")
    from pyspark.sql import functions as F

    with folder(options.dir) as at:
        wide = [(F.col("id") * n % 1000).alias(f"c{n}") for n in range(COLUMNS)]
        spark.range(rows).select(*wide).write.parquet(str(at / "in"))
        task(spark, at / "in", at / "out")  # a warm-up
        measured = [task(spark, at / "in", at / "out") for _ in range(turns)]
        plan = transformed(spark.read.parquet(str(at / "in")).alias("@bench.wide"))
        nodes = plan._jdf.queryExecution().analyzed().treeString().count("\n")
        for whole, took in measured:
            progress(f"task {whole:.2f} s, of which lineage {took * 1e3:.0f} ms")
        exact = [is_exact(case, spark) for case in CASES]
        grown = growth(spark, 1_000 if options.quick else 5_000)
    spark.stop()
    report(
        {
            "golden_exact": round(sum(exact) / len(exact), 4),
            "golden_cases": len(exact),
            "capture_fraction": round(statistics.median(t / w for w, t in measured), 4),
            "capture_ms": round(statistics.median(t for _, t in measured) * 1e3, 1),
            "task_s": round(statistics.median(w for w, _ in measured), 2),
            "plan_nodes": nodes,
            **{f"growth_{name}": ratio for name, ratio in grown.items()},
        }
    )


if __name__ == "__main__":
    main()
