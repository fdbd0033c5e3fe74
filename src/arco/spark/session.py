"""The one place that configures a Spark session."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from arco.errors import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.log.level": "ERROR",
}


def open_session(
    master: str = "local[*]", *, app: str = "arco", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one. Raises Unavailable where Spark cannot start."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Unavailable(
            "Spark is not installed", hint="install it with: pip install 'arco[spark]'"
        ) from None
    home = os.environ.get("JAVA_HOME", "")
    if shutil.which(f"{home}/bin/java" if home else "java") is None:
        raise Unavailable(
            f"Spark needs Java, and there is none{f' in JAVA_HOME ({home})' if home else ''}",
            hint="install it, e.g. apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
        )
    # Executors must run the Python that has the project's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in {**_DEFAULTS, **(conf or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
