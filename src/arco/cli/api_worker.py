"""`servo worker --api`: a worker without access to the store. Also the end of all workers."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import NamedTuple

from arco.cli import render
from arco.cli.session import Session
from arco.clock import SystemClock
from arco.config import ConfigSource, resolve_names, resolve_running
from arco.errors import Invalid, Unavailable
from arco.orchestration.limits import Timing
from arco.spark.host import SparkHost
from arco.tasks import private
from arco.transport.reports import DRAIN_S
from arco.worker.api_worker import ApiAddress, ApiWorker
from arco.worker.pricing import Pricing
from servo.contract.ulid import system_ulids


class ApiOptions(NamedTuple):
    url: str
    name: str
    data_url: str
    slots: int
    memory_mib: int
    drain_s: float


def run_api_worker(
    session: Session, options: ApiOptions, timing: Timing, cache: Path, stop: threading.Event
) -> None:
    """Work through a server until `stop` is set."""
    private.protect()
    key = os.environ.pop(private.TOKEN, "")
    if not key:
        raise Invalid(
            f"{private.TOKEN} is not set",
            hint="create a key: servo auth keys create NAME --role admin --scope workers.work "
            "--kind worker",
        )
    chosen = ConfigSource(None, session.tenant, session.workspace)
    names = resolve_names(chosen, os.environ, Path.cwd())
    running = resolve_running(os.environ, Path.cwd())
    spark = SparkHost(running.spark)
    worker = ApiWorker(
        ApiAddress(options.url, *names, options.name, key, os.environ.get("ARCO_CA_FILE", "")),
        cache,
        SystemClock(),
        system_ulids(),
        spark=spark,
        pricing=None if running.pricing is None else Pricing.read(running.pricing),
        data_url=options.data_url,
        slots=options.slots,
        memory_mib=options.memory_mib,
        timing=timing,
        drain_s=options.drain_s,
    )
    settings = worker.settings
    private.add_secrets(settings.secret_variables)
    ended = threading.Event()
    reporting = threading.Thread(
        target=worker.reports.run, args=(ended,), name="reports", daemon=True
    )
    reporting.start()
    if settings.needs_spark and options.data_url:
        spark.warm()
    logging.getLogger("arco.worker.service").setLevel(logging.INFO)
    _say(session, "started", f"worker {settings.worker_id} takes tasks of {worker.url}")
    worker.run(stop)
    ended.set()
    reporting.join(2 * DRAIN_S)
    end_spark(spark, settings.worker_id, worker.worker.unreported())
    done = worker.worker.tasks_done
    _say(session, "stopped", f"worker {settings.worker_id} stopped after {done} tasks")


def _say(session: Session, state: str, text: str) -> None:
    if session.json:
        render.line({"state": state, "message": text})
    else:
        render.say(text)


def end_spark(spark: SparkHost, worker_id: str, unreported: list[str]) -> None:
    """Reports results that the store did not accept, also if stopping Spark fails."""
    try:
        spark.end()
    finally:
        _raise_if_unreported(worker_id, unreported)


def _raise_if_unreported(worker_id: str, attempts: list[str]) -> None:
    if not attempts:
        return
    listed = ", ".join(attempts[:10]) + (", …" if len(attempts) > 10 else "")
    raise Unavailable(
        f"worker {worker_id} stopped; the store did not accept the results of {listed}",
        hint="no action is needed: another worker adopts committed outputs and "
        "retries the other tasks",
    )
