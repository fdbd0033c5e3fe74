"""`servo orchestrator` and `servo worker`: processes that communicate only through the store."""

from __future__ import annotations

import logging
import os
import socket
import threading
from pathlib import Path
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.allocator import CACHED_BYTES, use_little_memory
from arco.cli.options import command, option
from arco.cli.slots import start_slot_host
from arco.cli.stop_signal import stop_on_signal

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.api_worker import ApiOptions, end_spark, run_api_worker
    from arco.cli.channel_courier import channel_courier
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.machine import machine
    from arco.orchestration.limits import Timing
    from arco.transport.reports import DRAIN_S

Interval = Annotated[
    float, option("S", "Seconds between reads of the store when nothing changes.", min=0.01)
]
Heartbeat = Annotated[float, option("S", "Seconds between heartbeats of a worker.", min=0.05)]
ZombieAfter = Annotated[
    float, option("S", "Treat a worker as dead after S seconds without a heartbeat.")
]
Claim = Annotated[
    float, option("S", "Seconds after which a claim expires if the worker does not renew it.")
]


def register(app: typer.Typer) -> None:
    command(
        app,
        "orchestrator",
        example="servo orchestrator\nservo orchestrator --interval 2",
        before=use_little_memory,
    )(orchestrator)
    command(
        app,
        "worker",
        example="servo worker --slots 4\n"
        "ARCO_TOKEN=$KEY servo worker --api https://arco.example.com --tenant acme -w prod",
        before=_begin_worker,
    )(worker)


def _begin_worker() -> None:
    use_little_memory()
    start_slot_host()


def orchestrator(
    session: Session,
    interval: Interval = 0.5,
    heartbeat: Heartbeat = 5.0,
    zombie_after: ZombieAfter = 30.0,
    claim: Claim = 60.0,
) -> None:
    """Decide which tasks run next, and enqueue them for workers.

    It also commits events, evaluates schedules and automation, and sends notifications through
    the channels in `arco.toml`. The queue is in the workspace's store. Any number of
    orchestrators and workers may run on one workspace; each may be killed at any time. All of
    them apply the limits of `servo limits`.
    """
    workspace = session.open(cache_budget_bytes=CACHED_BYTES)
    timing = _timing(interval, heartbeat, zombie_after, claim)
    stop = stop_on_signal()
    reports = workspace.runtime.reports(timing)
    queue = workspace.runtime.store_queue(_identity(), timing)
    loop = workspace.runtime.orchestrator(
        queue,
        reports,
        workspace.runtime.signer(),
        timing=timing,
        courier=channel_courier(session),
        name=_identity(),
    )
    logging.getLogger("arco.dispatch.journal").setLevel(logging.INFO)
    _say(session, "started", f"orchestrating {workspace.store.url}; press Ctrl-C to stop")
    with workspace.upkeep.merge_loop().beside(stop):
        loop.run(stop)
    _say(session, "stopped", f"stopped at generation {loop.board.generation}")


def worker(
    session: Session,
    slots: Annotated[int, option("N", "Concurrent tasks of one CPU each.", min=1)] = 4,
    memory_mib: Annotated[
        int | None,
        option("M", "MiB of memory for tasks; default: this machine's. 0: no limit.", min=0),
    ] = None,
    name: Annotated[
        str | None, option("NAME", "The worker's name; default: host and process id.")
    ] = None,
    cache: Annotated[
        Path | None, option("DIR", "Folder for deployed code on this machine.")
    ] = None,
    interval: Interval = 0.5,
    heartbeat: Heartbeat = 5.0,
    zombie_after: ZombieAfter = 30.0,
    claim: Claim = 60.0,
    drain: Annotated[
        float, option("S", "Seconds that running tasks may take after SIGTERM.", min=0.0)
    ] = 30.0,
    api: Annotated[
        str | None,
        option("URL", "Work through this server, without access to the store. [ARCO_API]"),
    ] = None,
    data_url: Annotated[
        str, option("URL", "With --api: the store's URL for Spark, which has its own credentials.")
    ] = "",
) -> None:
    """Run tasks from the workspace's queue.

    After SIGTERM or Ctrl-C the worker claims no new tasks. Running tasks may finish; those that
    do not finish in time are retried by another worker.

    A task needs the slots and memory of its Resources. A worker does not claim tasks that are too
    large for it.

    With --api the worker needs no credentials for the store: it works through `servo serve`, with
    the API key in ARCO_TOKEN (`servo auth keys create NAME --role admin --scope workers.work
    --kind worker`). Tasks on Spark need --data-url, and credentials for the data there.
    """
    timing = _timing(interval, heartbeat, zombie_after, claim)
    stop = stop_on_signal()
    worker_id = name or _identity()
    folder = cache or _default_cache()
    memory = machine().memory_bytes >> 20 if memory_mib is None else memory_mib
    if server := api or session.api:
        through = ApiOptions(server, worker_id, data_url, slots, memory, drain)
        run_api_worker(session, through, timing, folder, stop)
        return
    workspace = session.open(cache_budget_bytes=CACHED_BYTES)
    reports = workspace.runtime.reports(timing)
    service = workspace.runtime.worker(
        worker_id,
        workspace.runtime.store_queue(worker_id, timing),
        reports,
        workspace.runtime.signer(),
        folder,
        slots=slots,
        memory_mib=memory,
        timing=timing,
        drain_s=drain,
    )
    ended = threading.Event()
    reporting = threading.Thread(target=reports.run, args=(ended,), name="reports", daemon=True)
    reporting.start()
    workspace.runtime.warm_spark()
    logging.getLogger("arco.worker.service").setLevel(logging.INFO)
    _say(session, "started", f"worker {worker_id} takes tasks of {workspace.store.url}")
    service.run(stop)
    ended.set()
    reporting.join(2 * DRAIN_S)  # a call of the store may hang
    end_spark(workspace.runtime.spark(), worker_id, service.unreported())
    _say(session, "stopped", f"worker {worker_id} stopped after {service.tasks_done} tasks")


def _default_cache() -> Path:
    """A folder that only this user can write to: its code is executed."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "servo" / "artifacts"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise Invalid(f"{folder} belongs to another user", hint="give --cache DIR")
    return folder


def _timing(interval: float, heartbeat: float, zombie_after: float, claim: float) -> Timing:
    return Timing(
        interval_s=interval,
        busy_interval_s=min(0.1, interval),
        linger_s=min(0.05, interval),
        heartbeat_s=heartbeat,
        zombie_after_s=zombie_after,
        claim_s=claim,
        redeliver_after_s=max(2.5 * interval, zombie_after),
        cancel_grace_s=max(2 * heartbeat, zombie_after),
    ).check()


def _identity() -> str:
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname().lower()) or "host"
    return f"{host}-{os.getpid()}-{os.urandom(3).hex()}"


def _say(session: Session, state: str, text: str) -> None:
    if session.json:
        render.line({"state": state, "message": text})
    else:
        render.say(text)
