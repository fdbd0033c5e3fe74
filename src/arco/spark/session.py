"""The one place that starts a Spark session."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arco.errors import Unavailable
from arco.spark.archive import archive_options, find_java
from arco.spark.settings import Machine, SparkSettings, process_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(
    master: str = "local[*]", *, app: str = "arco", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one. Raises Unavailable where Spark cannot start."""
    return start(SparkSettings(master=master, conf=dict(conf or {})), app=app)


def start(settings: SparkSettings, *, app: str = "arco") -> SparkSession:
    """The running session, or a new one with a JVM of its own, or with a Connect server.

    Raises Unavailable where Spark cannot start, with what to do about it.
    """
    builder = _builder()
    # PySpark prints each error that it raises, with all of the Java stack.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
    if settings.remote:
        _require_connect()
        return _remote(builder, settings)
    if find_java(os.environ) is None:
        home = os.environ.get("JAVA_HOME", "")
        raise Unavailable(
            f"Spark needs Java, and there is none{f' in JAVA_HOME ({home})' if home else ''}",
            hint="install it, e.g. apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
        )
    # Executors must run the Python that has the project's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.master(settings.master).appName(app)
    conf = process_conf(settings, machine(), jvm_options=archive_options(os.environ))
    for name, value in conf.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    if settings.local:
        _write_no_checksums(session)
    return session


def _builder() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Unavailable(
            "Spark is not installed", hint="install it with: pip install 'arco[spark]'"
        ) from None
    return SparkSession.builder


def _require_connect() -> None:
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as error:
        raise Unavailable(
            f"the client of Spark Connect is not installed: {error}",
            hint="install it with: pip install 'pyspark[connect]'",
        ) from None


def _remote(builder: Any, settings: SparkSettings) -> SparkSession:
    """Only what a client may set: the server was configured by whoever started it."""
    builder = builder.remote(settings.remote)
    session: SparkSession = builder.getOrCreate()
    for name, value in {"spark.sql.session.timeZone": "UTC", **settings.conf}.items():
        session.conf.set(name, value)
    return session


def _write_no_checksums(session: SparkSession) -> None:
    """No `.crc` beside each file: Parquet has checksums, and the store keeps digests.

    Hadoop's file system without checksums cannot be configured instead of this one: the
    S3 client insists on the latter for its buffers.
    """
    jvm: Any = session.sparkContext._jvm
    root = jvm.java.net.URI("file:///")
    files = jvm.org.apache.hadoop.fs.FileSystem.get(
        root, session.sparkContext._jsc.hadoopConfiguration()
    )
    files.setWriteChecksum(False)


def machine() -> Machine:
    """This machine, or the container that limits us to a part of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(cores=_cores(), memory_bytes=min(total, _limit() or total))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _limit() -> int | None:
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            return int(Path(file).read_text())
        except (OSError, ValueError):  # not there, or `max`
            continue
    return None
