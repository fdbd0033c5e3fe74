"""`servo orchestrator` and `servo worker`: processes that meet in the store alone."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.allocator import use_little_memory
from arco.cli.options import command
from arco.cli.session import Session
from arco.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from arco.orchestration.limits import Timing
    from arco.spark.host import SparkHost

Interval = Annotated[
    float, typer.Option(min=0.01, metavar="S", help="How often to look when nothing wakes it.")
]
Heartbeat = Annotated[
    float, typer.Option(min=0.05, metavar="S", help="How often a worker says that it is alive.")
]
ZombieAfter = Annotated[
    float, typer.Option(metavar="S", help="A worker that is silent for so long is dead.")
]
Claim = Annotated[
    float, typer.Option(metavar="S", help="How long a worker has a task without renewing.")
]


def register(app: typer.Typer) -> None:
    command(
        app,
        "orchestrator",
        example="servo orchestrator\nservo orchestrator --max-in-flight 64 --quota acme=8",
    )(orchestrator)
    command(app, "worker", example="servo worker --slots 4")(worker)


def orchestrator(
    session: Session,
    interval: Interval = 0.5,
    heartbeat: Heartbeat = 5.0,
    zombie_after: ZombieAfter = 30.0,
    claim: Claim = 60.0,
    max_in_flight: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Maximum number of tasks that are queued or running."
        ),
    ] = 512,
    tenant_max: Annotated[
        int, typer.Option(min=0, metavar="N", help="The same for each tenant; 0: no limit.")
    ] = 0,
    quota: Annotated[
        list[str] | None, typer.Option(metavar="TENANT=N", help="A tenant's own limit.")
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option(metavar="TENANT=N", help="A tenant's share; 1 by default.")
    ] = None,
) -> None:
    """Commit what is reported, decide what runs next, and send it to the workers' queue.

    The queue lives in the workspace's store. Any number of orchestrators and workers
    may run on one workspace, and each may be killed at any time.
    """
    use_little_memory()
    from arco.orchestration.limits import Limits

    workspace = session.open()
    timing = _timing(interval, heartbeat, zombie_after, claim)
    limits = Limits(
        max_in_flight=max_in_flight,
        tenant_max_in_flight=tenant_max,
        quotas=_numbers(quota, "quota"),
        weights=_numbers(weight, "weight"),
    )
    stop = _until_told()
    reports = workspace.reports(timing)
    queue = workspace.store_queue(_identity(), timing)
    made = workspace.orchestrator(
        queue, reports, workspace.signer(), limits=limits, timing=timing, name=_identity()
    )
    compactor = workspace.compactor(stop)
    merging = threading.Thread(target=compactor.merge_until_stopped, name="merger", daemon=True)
    _say(session, "started", f"orchestrating {workspace.store.url}; Ctrl-C ends it")
    merging.start()
    made.run(stop)
    stop.set()
    merging.join()
    if compactor.failed is not None:
        raise compactor.failed
    _say(session, "stopped", f"stopped at generation {made.board.generation}")


def worker(
    session: Session,
    slots: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks at a time.")] = 4,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its name; by default host and process.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to keep code on this machine.")
    ] = None,
    interval: Interval = 0.5,
    heartbeat: Heartbeat = 5.0,
    zombie_after: ZombieAfter = 30.0,
    claim: Claim = 60.0,
    drain: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="How long running tasks get at the end.")
    ] = 30.0,
) -> None:
    """Take tasks from the workspace's queue, and run them.

    SIGTERM and Ctrl-C drain: nothing new is taken, what runs may finish, and what does
    not finish in time is handed back for another attempt.
    """
    use_little_memory()
    from arco.dispatch.reports import DRAIN_S

    workspace = session.open()
    timing = _timing(interval, heartbeat, zombie_after, claim)
    stop = _until_told()
    worker_id = name or _identity()
    reports = workspace.reports(timing)
    folder = cache or _default_cache()
    made = workspace.worker(
        worker_id,
        workspace.store_queue(worker_id, timing),
        reports,
        workspace.signer(),
        folder,
        slots=slots,
        timing=timing,
        drain_s=drain,
    )
    ended = threading.Event()
    reporting = threading.Thread(target=reports.run, args=(ended,), name="reports", daemon=True)
    reporting.start()
    workspace.warm_spark()
    _say(session, "started", f"worker {worker_id} takes tasks of {workspace.store.url}")
    made.run(stop)
    ended.set()
    reporting.join(2 * DRAIN_S)  # a call of the store may hang
    _end_spark(workspace.spark(), worker_id, made.unreported())
    _say(session, "stopped", f"worker {worker_id} stopped after {made.tasks_done} tasks")


def _end_spark(spark: SparkHost, worker_id: str, unreported: list[str]) -> None:
    """Results that the store did not take are told, whatever becomes of Spark."""
    try:
        spark.end()
    finally:
        _raise_if_unreported(worker_id, unreported)


def _raise_if_unreported(worker_id: str, attempts: list[str]) -> None:
    if not attempts:
        return
    shown = ", ".join(attempts[:10]) + (", …" if len(attempts) > 10 else "")
    raise Unavailable(
        f"worker {worker_id} stopped, and the store did not take the results of {shown}",
        hint="nothing to do: another worker adopts what was committed, and tries the rest again",
    )


def _default_cache() -> Path:
    """This user's own, and nobody else's: what is in it is run."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "servo" / "artifacts"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise Invalid(f"{folder} belongs to somebody else", hint="give --cache DIR")
    return folder


def _timing(interval: float, heartbeat: float, zombie_after: float, claim: float) -> Timing:
    from arco.orchestration.limits import Timing

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


def _until_told() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _identity() -> str:
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname().lower()) or "host"
    return f"{host}-{os.getpid()}-{os.urandom(3).hex()}"


def _numbers(given: list[str] | None, what: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in given or ():
        tenant, _, number = text.rpartition("=")
        if not tenant or not number.isdecimal():
            raise Invalid(f"{text!r} is not a {what}", hint="write TENANT=N")
        found[tenant] = int(number)
    return found


def _say(session: Session, state: str, text: str) -> None:
    from arco.cli import render

    if session.json:
        render.line({"state": state, "message": text})
    else:
        render.say(text)
