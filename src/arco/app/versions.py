"""The versions of this program, of what it uses, and of the formats that it writes."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from arco.log.envelope import BATCH_FORMAT
from arco.log.manifest import FORMAT
from arco.spark.archive import find_java, java_version
from servo.contract.manifest import FORMAT as PROJECT_FORMAT

LIBRARIES: Final = (
    "pyspark",
    "duckdb",
    "pyarrow",
    "obstore",
    "sqlglot",
    "msgspec",
    "typer",
    "rich",
    "pandas",
    "polars",
    "grpcio",
)


def installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def all_versions(env: Mapping[str, str]) -> dict[str, str | int | None]:
    """By name; None for what is not installed."""
    java = find_java(env)
    return {
        "arco": installed("arco"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "java": None if java is None else java_version(java) or "unknown",
        **{name: installed(name) for name in LIBRARIES},
        "store format": FORMAT,
        "batch format": BATCH_FORMAT,
        "project manifest format": PROJECT_FORMAT,
    }
