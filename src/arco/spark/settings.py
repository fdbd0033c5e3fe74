"""Spark's settings: of the process that runs it, and of each task.

    [spark]
    master = "spark://host:7077"      # default: this machine, all of its cores
    remote = "sc://host:15002"        # Spark Connect; then master is not used
    packages = ["org.apache.hadoop:hadoop-aws:3.5.0"]
    fast_start = true                 # for tests and tiny work on one machine
    log = "spark.log"                 # what Spark and UDFs print; `-` for the terminal
    executor_loss_s = 60              # timeout of jobs without an executor: a new session
    first_executor_s = 600            # the same, before the first executor has come
    conf = { "spark.sql.ansi.enabled" = "false" }

All settings are decided here, as data; `session` and `host` only pass them on. A key in `conf`
takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from arco.errors import Invalid
from arco.machine import Machine
from servo.suggest import did_you_mean

MIB: Final = 1 << 20
TINY_BYTES: Final = 4 * MIB
"""For smaller inputs, compiling generated code costs more than it saves."""
SMALL_BYTES: Final = 32 * MIB
"""For smaller inputs, adaptive execution costs more jobs than it saves."""
_MAX_HEAP_MIB: Final = 31 << 10
"""Above this, object references take twice the space."""
_EXPANSION: Final = 3
"""Bytes in memory for each byte of compressed Parquet, roughly."""
_SHUFFLE_TARGET: Final = 64 * MIB


class SparkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `[spark]` table of a project's configuration."""

    master: str = "local[*]"
    remote: str = ""
    """A Spark Connect URL, `sc://…`; then `master` is not used."""
    conf: dict[str, str] = {}
    packages: tuple[str, ...] = ()
    """Maven coordinates, fetched when Spark starts."""
    fast_start: bool = False
    """Starts and ends sooner, computes slower: for tests and tiny local work."""
    log: str = ""
    """A file for the output of the JVM and of UDFs; `-` for the terminal."""
    executor_loss_s: int = 60
    """How long jobs may wait on a cluster that has lost all executors."""
    first_executor_s: int = 600
    """How long they may wait for the first executor, or with dynamic allocation for any."""

    @property
    def local(self) -> bool:
        """Whether the executors are threads of the driver."""
        return not self.remote and self.master.startswith("local")


# -- from text ----------------------------------------------------------------------------


def parse(table: Mapping[str, Any], where: str = "[spark]") -> SparkSettings:
    """The settings in a TOML table. Raises Invalid for unknown keys and invalid values."""
    allowed = SparkSettings.__struct_fields__
    for key in table:
        if key not in allowed:
            raise Invalid(
                f"unknown key {key!r} in {where}",
                hint=did_you_mean(key, allowed) or f"known: {', '.join(allowed)}",
            )
    values = {**table, "conf": _texts(table.get("conf", {}), where)}
    try:
        settings = msgspec.convert(values, SparkSettings)
    except msgspec.ValidationError as error:
        raise Invalid(f"{where}: {error}") from None
    _check(settings, where)
    return settings


def _texts(conf: object, where: str) -> object:
    """Spark's values are texts; TOML's may be numbers, booleans, and tables for dotted keys."""
    if not isinstance(conf, Mapping):
        return conf
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in _flat(conf, where)
    }


def _flat(conf: Mapping[str, Any], where: str, prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in conf.items():
        if isinstance(value, Mapping):
            yield from _flat(value, where, f"{prefix}{key}.")
        elif isinstance(value, str | int | float | bool):
            yield f"{prefix}{key}", value
        else:
            raise Invalid(f"{where}: conf {prefix}{key} must be a text, a number or true/false")


def _check(settings: SparkSettings, where: str) -> None:
    if settings.remote and not settings.remote.startswith("sc://"):
        raise Invalid(
            f"{where}: remote is {settings.remote!r}, which is not a Spark Connect URL",
            hint="write sc://host:15002, or name a cluster with master",
        )
    if settings.master.startswith("sc://"):
        raise Invalid(f"{where}: master is a Spark Connect URL", hint="name it with remote")
    for key in settings.conf:
        if not key.startswith("spark."):
            raise Invalid(
                f"{where}: conf has {key!r}, but Spark's keys start with `spark.`",
                hint=f"did you mean 'spark.{key}'?",
            )
    for name in ("executor_loss_s", "first_executor_s"):
        if getattr(settings, name) <= 0:
            raise Invalid(f"{where}: {name} must be a number of seconds greater than 0")
    for package in settings.packages:
        if package.count(":") < 2:
            raise Invalid(
                f"{where}: {package!r} is not a Maven coordinate",
                hint="write group:artifact:version, e.g. org.apache.hadoop:hadoop-aws:3.5.0",
            )


# -- the process --------------------------------------------------------------------------

_ALWAYS: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Errors are translated for the task; logged, each would be a page of Java.
    "spark.log.level": "FATAL",
    # Small tasks continue while a large one uses the cores.
    "spark.scheduler.mode": "FAIR",
    # One rename for each file, and none of the folder; the commit marker is ours.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # A damaged page is an error, and never other values.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # INT96, the default, has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Progress and usage are read from the records of finished work.
    "spark.ui.retainedJobs": "1000",
    "spark.ui.retainedStages": "1000",
    "spark.ui.retainedTasks": "5000",
    "spark.ui.retainedDeadExecutors": "10",
    "spark.ui.dagGraph.retainedRootRDDs": "10",
    "spark.sql.ui.retainedExecutions": "20",
}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def process_conf(
    settings: SparkSettings, machine: Machine, *, jvm_options: tuple[str, ...] = ()
) -> dict[str, str]:
    """The configuration of a driver process, except its name and master."""
    conf = {
        **_ALWAYS,
        **(_LOOPBACK if _near(settings) else {}),
        "spark.driver.memory": f"{heap_mib(settings, machine)}m",
    }
    if settings.packages:
        conf["spark.jars.packages"] = ",".join(settings.packages)
    conf |= settings.conf
    own = ("-Xss4m", "-Duser.timezone=UTC", *(_C1 if settings.fast_start else ()), *jvm_options)
    configured = settings.conf.get("spark.driver.extraJavaOptions", "")
    conf["spark.driver.extraJavaOptions"] = " ".join((*own, configured)).strip()
    return conf


_C1: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def _near(settings: SparkSettings) -> bool:
    """Whether every executor is on this machine, so that the driver only listens there."""
    return settings.local or settings.master.startswith(
        ("spark://127.0.0.1:", "spark://localhost:")
    )


def heap_mib(settings: SparkSettings, machine: Machine) -> int:
    """Half of the memory where the driver computes; a driver that only plans needs less."""
    half = machine.memory_bytes // 2 // MIB
    return max(1024, min(half, _MAX_HEAP_MIB if settings.local else 4096))


# -- a task -------------------------------------------------------------------------------


def task_conf(
    input_bytes: int | None, cores: int, *, local: bool = True, conf: Mapping[str, str] = {}
) -> dict[str, str]:
    """SQL settings for a task that reads this many bytes of Parquet; None: unknown.

    Keys of the project's `conf` are left out.
    """
    if input_bytes is not None and input_bytes < SMALL_BYTES:
        settings_of = _small(input_bytes, cores)
    else:
        settings_of = _large(input_bytes, cores, local)
    return {key: value for key, value in settings_of.items() if key not in conf}


def _small(input_bytes: int, cores: int) -> dict[str, str]:
    tiny = input_bytes < TINY_BYTES
    return {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false" if tiny else "true",
        "spark.sql.shuffle.partitions": "1" if tiny else str(min(cores, 4)),
    }


def _large(input_bytes: int | None, cores: int, local: bool) -> dict[str, str]:
    if input_bytes is None:
        partitions = max(32, 8 * cores) if local else 200
    else:
        by_size = input_bytes * _EXPANSION // _SHUFFLE_TARGET
        partitions = min(max(by_size, 4 * cores if local else 64), 4000)
    return {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.shuffle.partitions": str(partitions),
    }
