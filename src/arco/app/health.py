"""Checks whether this machine and its store can run a workspace, for `servo doctor`.

Every check is independent of the others where it can be: a store that cannot be reached does
not hide a Java that is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from arco.app.versions import installed
from arco.app.workspace import Workspace
from arco.clock import Clock
from arco.config import Running
from arco.errors import ClockSkew, Error, NotFound
from arco.machine import machine
from arco.orchestration.limit_tables import pause_text
from arco.spark.archive import find_java, java_version
from arco.spark.session import require
from arco.storage import paths
from arco.storage.open import probe
from arco.storage.port import Store
from arco.storage.store_clock import StoreClock
from arco.transport.task_envelope import ENV, parse_keys
from arco.worker.pricing import Pricing

GIB: Final = 1 << 30
LEAST_JAVA: Final = 17
LEAST_MEMORY: Final = 2 * GIB
LEAST_DISK: Final = 5 * GIB
FULL_DISK: Final = GIB // 4
CLOSE: Final = timedelta(seconds=30)
"""A difference of clocks without an effect."""


class HealthCheck(Struct, frozen=True):
    name: str
    status: Literal["ok", "warn", "fail"]
    message: str
    hint: str = ""


def machine_checks(
    env: Mapping[str, str], running: Running, *, spark_needed: bool
) -> Iterator[HealthCheck]:
    """Of what the machine has. `spark_needed`: deployed assets use Spark."""
    lacking: Literal["warn", "fail"] = "fail" if spark_needed else "warn"
    yield HealthCheck("python", "ok", f"{sys.version.split()[0]}, arco {installed('arco')}")
    if not running.spark.remote:
        yield _java(env, lacking)
    yield _spark(running, lacking)
    yield _memory()
    yield _disk("disk for temporary files", Path(tempfile.gettempdir()))
    if running.pricing is not None:
        yield _prices(running.pricing)


def store_checks(workspace: Workspace) -> Iterator[HealthCheck]:
    """Of a store, and of the workspace in it."""
    store = workspace.store
    try:
        probe(store, workspace.ids())
    except Error as error:
        yield _failed("store", error)
        return
    yield HealthCheck("store", "ok", f"{store.url} can be read and written")
    yield _generation(workspace)
    yield _clocks(store, workspace.clock)
    yield _keys(store)
    yield _dispatch(workspace)


def api_checks(workspace: Workspace) -> Iterator[HealthCheck]:
    """Of a workspace that is reached through the API."""
    yield HealthCheck("api", "ok", f"{workspace.store.url} answers")
    yield _generation(workspace)
    yield _dispatch(workspace)


def disk_check(directory: Path) -> HealthCheck:
    """Of a local store."""
    return _disk("disk of the store", directory)


def unreachable(error: Error) -> HealthCheck:
    return _failed("store", error)


def _failed(name: str, error: Error) -> HealthCheck:
    return HealthCheck(name, "fail", error.message, error.hint)


def _java(env: Mapping[str, str], lacking: Literal["warn", "fail"]) -> HealthCheck:
    java, home = find_java(env), env.get("JAVA_HOME", "")
    hint = f"install Java {LEAST_JAVA} or newer, and set JAVA_HOME to it"
    if java is None:
        where = f" in JAVA_HOME ({home})" if home else ""
        return HealthCheck("java", lacking, f"missing{where}; Spark needs it", hint)
    number = java_version(java)
    if not number:
        return HealthCheck("java", lacking, f"{java} cannot be started", hint)
    if int(number.partition(".")[0]) < LEAST_JAVA:
        return HealthCheck("java", lacking, f"{number} is too old for Spark ({java})", hint)
    return HealthCheck("java", "ok", f"{number} ({java})")


def _spark(running: Running, lacking: Literal["warn", "fail"]) -> HealthCheck:
    settings = running.spark
    try:
        require(settings)
    except Error as error:
        return HealthCheck("spark", lacking, error.message, error.hint)
    where = settings.remote.partition("/;")[0] or settings.master
    return HealthCheck("spark", "ok", f"{installed('pyspark')} on {where}")


def _memory() -> HealthCheck:
    limit = machine().memory_bytes
    message = f"{limit / GIB:.1f} GiB, {machine().cores} cores"
    if limit < LEAST_MEMORY:
        hint = "Spark and two tasks need about 2 GiB; give the machine or container more"
        return HealthCheck("memory", "warn", message, hint)
    return HealthCheck("memory", "ok", message)


def _disk(name: str, directory: Path) -> HealthCheck:
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return HealthCheck(name, "fail", f"{directory}: {error.strerror}", "check the path")
    message = f"{free / GIB:.1f} GiB free at {directory}"
    if not os.access(directory, os.W_OK):
        return HealthCheck(name, "fail", f"{directory} is not writable", "change its owner or mode")
    if free < LEAST_DISK:
        status: Literal["warn", "fail"] = "fail" if free < FULL_DISK else "warn"
        return HealthCheck(name, status, message, "free disk space")
    return HealthCheck(name, "ok", message)


def _prices(path: Path) -> HealthCheck:
    try:
        Pricing.read(path)
    except Error as error:
        return _failed("prices", error)
    return HealthCheck("prices", "ok", str(path))


def _generation(workspace: Workspace) -> HealthCheck:
    try:
        generation = workspace.read.snapshot().generation
    except Error as error:
        return _failed("workspace", error)
    state = f"generation {generation:,}" if generation else "empty"
    return HealthCheck("workspace", "ok", state)


def _dispatch(workspace: Workspace) -> HealthCheck:
    try:
        declared = workspace.read.orchestration().limits()
    except Error as error:
        return _failed("dispatch", error)
    if declared.is_paused:
        hint = "no task starts; `servo resume` starts dispatch again"
        return HealthCheck("dispatch", "warn", pause_text(declared.control), hint)
    count = len(declared.values)
    limits = f"; {count} limits are set, see `servo limits list`" if count else ""
    return HealthCheck("dispatch", "ok", f"not paused{limits}")


def _clocks(store: Store, clock: Clock) -> HealthCheck:
    try:
        difference = abs(StoreClock(store, clock).measure() - clock.now())
    except ClockSkew as error:
        return _failed("clock", error)
    except Error as error:
        return HealthCheck("clock", "warn", error.message, error.hint)
    message = f"differs from the store's by {difference.total_seconds():.0f} s"
    if difference > CLOSE:
        return HealthCheck("clock", "warn", message, "synchronise this machine's clock (NTP)")
    return HealthCheck("clock", "ok", message)


def _keys(store: Store) -> HealthCheck:
    name = "signing keys"
    if configured := os.environ.get(ENV):
        try:
            count = len(parse_keys(configured))
        except Error as error:
            return _failed(name, error)
        return HealthCheck(name, "ok", f"{count} in {ENV}")
    try:
        store.head(paths.TASK_KEYS)
    except NotFound:
        return HealthCheck(name, "ok", "none yet; the first run creates one in the store")
    except Error as error:
        return _failed(name, error)
    return HealthCheck(name, "ok", f"one, in the store; set {ENV} to keep keys out of it")
