"""The one place that starts a Spark session."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import urlsplit

from arco.machine import machine
from arco.spark.archive import archive_options, find_java
from arco.spark.settings import SparkSettings, process_conf
from arco.tasks.failure import SparkUnavailable
from arco.tasks.private import hidden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TAIL_BYTES: Final = 16 << 10
_TAIL_LINES: Final = 8
_CONNECT_PORT: Final = 15002
_MASTER_PORT: Final = 7077
_REACH_S: Final = 10
_LASTING: Final = (
    (
        re.compile(r"unresolved dependency: (\S+?):? not found"),
        "Spark did not start: the package {} was not found",
        "correct it under `packages` in [spark] of arco.toml (group:name:version), "
        "and check that its repository can be reached",
    ),
    (
        re.compile(r"UnsupportedClassVersionError|Java \d+ or later is required"),
        "Spark did not start: this Java is too old for it ({})",
        "install Java 17 or newer, and set JAVA_HOME to it",
    ),
    (
        re.compile(r"(.*)\nError: Could not create the Java"),
        "Spark did not start: {}",
        "correct the JVM options and the memory under `conf` in [spark] of arco.toml",
    ),
)
"""What Java and Spark print for permanent errors, with our message and hint."""


def open_session(
    master: str = "local[*]", *, app: str = "arco", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one. Raises Unavailable where Spark cannot start."""
    return start(SparkSettings(master=master, conf=dict(conf or {})), app=app)


def start(settings: SparkSettings, *, app: str = "arco") -> SparkSession:
    """The running session, or a new one with a JVM of its own, or with a Connect server.

    Raises Unavailable where Spark cannot start, with what to do about it.
    """
    require(settings)
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    quiet_errors()
    if settings.remote:
        return _remote(builder, settings)
    # Executors must run the Python that has the project's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.master(settings.master).appName(app)
    conf = process_conf(settings, machine(), jvm_options=archive_options(os.environ))
    for name, value in conf.items():
        builder = builder.config(name, value)
    with hidden():  # its Python processes run user code
        output = _launch(conf, settings.log)
        try:
            session: SparkSession = builder.getOrCreate()
        except Exception as error:
            raise _unstarted(error, output) from error
    if settings.local:
        _write_no_checksums(session)
    return session


def require(settings: SparkSettings) -> None:
    """Raises SparkUnavailable if something that Spark needs is missing. Starts nothing."""
    if find_spec("pyspark") is None:
        raise SparkUnavailable(
            "Spark is not installed",
            hint="install it with: pip install 'arco[spark]'",
            permanent=True,
        )
    if settings.remote:
        _require_connect()
        place = settings.remote.partition("/;")[0]
        _reach("Spark Connect server", place, "remote", _CONNECT_PORT)
        return
    if find_java(os.environ) is None:
        home = os.environ.get("JAVA_HOME", "")
        raise SparkUnavailable(
            f"Spark needs Java, which is missing{f' in JAVA_HOME ({home})' if home else ''}",
            hint="install it, e.g. apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
            permanent=True,
        )
    if settings.master.startswith("spark://"):
        _reach("Spark master", settings.master, "master", _MASTER_PORT)


def quiet_errors() -> None:
    """PySpark prints each error that it raises, with all of the Java stack."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True


def _launch(conf: Mapping[str, str], log: str) -> BinaryIO | None:
    """Start a JVM unless there is one. Returns where its output, and that of UDFs, goes."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    context: Any = SparkContext
    launch: Any = launch_gateway
    process = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        forget_jvm()
    if context._gateway is not None or log == "-":
        return None
    file: BinaryIO = Path(log).open("ab") if log else tempfile.TemporaryFile()  # noqa: SIM115
    given = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    try:
        gateway = launch(given, {"stdout": file, "stderr": subprocess.STDOUT})
    except Exception as error:
        raise _unstarted(error, file) from error
    context._ensure_initialized(gateway=gateway)
    return file


def _unstarted(error: Exception, output: BinaryIO | None) -> SparkUnavailable:
    lines: list[str] = []
    if output is not None and output.seekable():
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = [
            line for line in output.read().decode(errors="replace").splitlines() if line.strip()
        ]
    tail = [line for line in lines if not line.lstrip().startswith("at ")][-_TAIL_LINES:]
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    for sign, what, hint in _LASTING:
        if (match := sign.search("\n".join(lines))) is not None:
            return SparkUnavailable(
                what.format(match[match.lastindex or 0]), hint=hint, permanent=True
            )
    return SparkUnavailable(
        "\n  ".join([f"Spark did not start: {text}", *tail]),
        hint='[spark] log = "-" in arco.toml shows all of the log',
    )


def _require_connect() -> None:
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as error:
        raise SparkUnavailable(
            f"the client of Spark Connect is not installed: {error}",
            hint="install it with: pip install 'arco[connect]'",
            permanent=True,
        ) from None


def _remote(builder: Any, settings: SparkSettings) -> SparkSession:
    """Only what a client may set: the server has its own configuration."""
    session: SparkSession = builder.remote(settings.remote).getOrCreate()
    for name, value in {"spark.sql.session.timeZone": "UTC", **settings.conf}.items():
        session.conf.set(name, value)
    return session


def _reach(what: str, url: str, setting: str, port: int) -> None:
    """Raise if no master can be reached: Spark would retry for minutes, and report little.

    A cluster may have several masters; one is enough.
    """
    places = [urlsplit(f"//{place}") for place in url.partition("://")[2].split(",")]
    failure: OSError | None = None
    for place in places:
        try:
            socket.create_connection((place.hostname or "", place.port or port), _REACH_S).close()
            return
        except OSError as error:
            failure = error
    raise SparkUnavailable(
        f"no {what} responds at {url.partition('://')[2]}: {failure}",
        hint=f"start it, or change `{setting}` under [spark] in arco.toml",
        permanent=True,
    )


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


# -- a JVM that has ended -----------------------------------------------------------------


def forget_jvm() -> None:
    """Make PySpark forget its JVM, which has ended. Never raises."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.context import SQLContext

    with SparkContext._lock:
        context, gateway = SparkContext._active_spark_context, SparkContext._gateway
        SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
    server = getattr(context, "_accumulatorServer", None)
    for close in (getattr(server, "shutdown", None), getattr(gateway, "close", None)):
        with contextlib.suppress(Exception):
            if close is not None:
                close()
    _renew_functions()


def _renew_functions() -> None:
    """UDFs that outlive the JVM create their Java object again when they are next used."""
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.sql.udtf import UserDefinedTableFunction

    for value in gc.get_objects():
        kind = type(value)
        if kind is UserDefinedFunction:
            value._judf_placeholder = None
        elif kind is UserDefinedTableFunction:
            value._judtf_placeholder = None
