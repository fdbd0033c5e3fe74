"""A small workload, in a JVM that writes an archive of its classes: `arco.spark.archive`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from arco.spark.session import start
from arco.spark.settings import SparkSettings


def workload(archive: Path) -> None:
    """What a worker's first tasks do. The JVM writes its classes to `archive` when it ends."""
    from pyspark import SparkContext

    conf = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable"}
    session = start(SparkSettings(master="local[2]", conf=conf, fast_start=True))
    with tempfile.TemporaryDirectory() as folder:
        _use(session, folder)
    gateway: Any = SparkContext._gateway
    session.stop()
    # The JVM ends, and writes, when its standard input does.
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _use(session: Any, folder: str) -> None:
    import pandas as pd
    from pyspark.sql import functions as F

    frame = session.range(1000).withColumn("day", F.current_date())
    frame = frame.withColumn("name", F.concat(F.lit("n"), F.col("id") % 7))
    frame.write.parquet(f"{folder}/a")
    read = session.read.schema(frame.schema).parquet(f"{folder}/a")
    read.createOrReplaceTempView("a")
    session.sql(
        "WITH b AS (SELECT name, count(*) AS n, max(day) AS day FROM a GROUP BY name) "
        "SELECT a.*, n, row_number() OVER (PARTITION BY a.name ORDER BY id) AS r "
        "FROM a JOIN b USING (name) WHERE id > 10 ORDER BY id"
    ).write.parquet(f"{folder}/b")
    read.groupBy("name").agg(F.countDistinct("id"), F.sum("id")).toArrow()
    session.createDataFrame(pd.DataFrame({"x": [1, 2]})).toPandas()
    read.select(F.udf(lambda value: value + 1, "long")("id")).collect()


if __name__ == "__main__":
    workload(Path(sys.argv[1]))
