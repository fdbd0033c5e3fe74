"""Schedules, requests, backfills and automation of assets."""

from __future__ import annotations

from datetime import datetime

import msgspec

from arco.automation.asset_events import (
    AutomationAdvanced,
    AutomationPaused,
    AutomationRequest,
    AutomationResumed,
    HeldPartition,
)
from arco.automation.backfill_states import BackfillCause
from arco.automation.events import (
    BackfillAdvanced,
    BackfillCancelled,
    BackfillCreated,
    BackfillEnded,
    BackfillPaused,
    BackfillResumed,
    BackfillRetried,
    SchedulePaused,
    ScheduleResumed,
    ScheduleTicked,
)
from arco.orchestration.declarations import (
    DeployedAutomation,
    PlainSchedule,
)
from arco.orchestration.deployments import packed
from arco.orchestration.events import (
    DeploymentCreated,
    DeploymentInstalled,
    DeploymentPart,
    RunAsset,
    RunCancelRequested,
    RunRequested,
    RunRequestRefused,
    RunRequestWithdrawn,
    RunTriggered,
    TaskPlan,
    TasksPlanned,
)
from arco.orchestration.plan import Axis, Chunk, PlanRequest
from arco.orchestration.run_requests import request_fingerprint
from arco.orchestration.states import RunTrigger
from tests.golden.stories.recorded_log import Log
from tests.golden.stories.runs import deployed

replace = msgspec.structs.replace


def scheduled() -> Log:
    """Schedules come, change, pause and go; ticks ask for runs, and so do people."""
    log = Log()
    schedule = PlainSchedule(
        name="nightly",
        cron="30 2 * * *",
        timezone="Europe/Berlin",
        selection=("raw.*",),
        partitions=("date=2026-01-01",),
        config={"top": 3},
        catchup="all",
        catchup_limit=5,
        overlap="queue",
    )
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(deployed("raw.orders", "A1"),),
            total=1,
            schedules=2,
            changed_schedules=(schedule, replace(schedule, name="hourly", cron="0 * * * *")),
        )
    )
    log.do(
        DeploymentPart(
            project="shop",
            deployment_id="D2",
            parent="D1",
            number=0,
            schedules=packed([replace(schedule, cron="0 3 * * *")]),
            removed_schedules=("hourly",),
        )
    )
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=1,
            schedules=1,
            parts=1,
        )
    )
    log.do(DeploymentInstalled(project="shop", deployment_id="D2", parent="D1"))
    tick = ScheduleTicked(
        schedule_id="shop/nightly",
        timing="0 3 * * * Europe/Berlin",
        tick="2026-01-02T03:00",
        scheduled_at=datetime(2026, 1, 2, 2),
        missed=7,
        missed_at_least=True,
    )
    log.wait(26 * 3600)
    log.do(tick, actor="")
    skipped = replace(
        tick,
        tick="2026-01-03T03:00",
        scheduled_at=datetime(2026, 1, 3, 2),
        outcome="skipped",
        reason="run R1 is still active",
        missed=0,
        missed_at_least=False,
    )
    log.wait(24 * 3600)
    log.do(skipped, actor="")
    log.do(SchedulePaused(schedule_id="shop/nightly", reason="the source is down"))
    log.do(ScheduleResumed(schedule_id="shop/nightly", catchup="latest"))
    request = PlanRequest(selection=("raw.orders",), force=True)
    print_of = request_fingerprint(request)
    for key in ("k1", "k2", "k3"):
        log.do(
            RunRequested(
                request_key=key,
                fingerprint=print_of,
                request=request,
                reference="ticket 7",
                run_id=f"R-{key}",
                until=datetime(2026, 1, 3),
                timeout_s=60,
                priority=3,
            )
        )
    log.do(RunRequestWithdrawn(request_key="k1", reason="a mistake"))
    log.do(RunRequestRefused(request_key="k2", reason="no such asset", hint="look"), actor="")
    log.do(
        RunTriggered(
            run_id="R-k3",
            plan_id="P1",
            plan_fingerprint="fp",
            deployment_id="D2",
            tasks_total=0,
            run_key="k3",
            request_fingerprint=print_of,
            reference="ticket 7",
        )
    )
    return log


def backfilled() -> Log:
    """A backfill goes through all of its states; a chunk of it fails, and one is gone."""
    log = Log()
    axes = (Axis(name="date", spans=(738_886, 738_896), size=4, blocks=3, keys=10),)
    first = Chunk(axes=axes, newest_first=True)
    request = PlanRequest(
        selection=("raw.orders",),
        partitions=("date=2024-01-01..2024-01-10",),
        max_tasks=200_000,
        chunk=first,
        deployments=("shop/D1",),
    )
    log.do(
        BackfillCreated(
            backfill_id="B1",
            request=request,
            until=datetime(2026, 1, 1),
            partitions=10,
            chunks=3,
            chunk_size=4,
            max_concurrent_runs=2,
            failure_threshold="50%",
            reason="a correction",
        )
    )
    log.do(BackfillPaused(backfill_id="B1", reason="the source is down"))
    log.do(BackfillResumed(backfill_id="B1"))
    log.do(BackfillAdvanced(backfill_id="B1", step=2, chunks=2), actor="")
    log.do(
        RunTriggered(
            run_id="R1",
            plan_id="P1",
            plan_fingerprint="fp",
            deployment_id="D1",
            tasks_total=1,
            run_key="backfill:B1:0",
            request_fingerprint=request_fingerprint(request),
            trigger=RunTrigger.BACKFILL,
            reference="B1:0",
            priority=-1_000,
        )
    )
    asset = RunAsset(key="raw.orders", asset_id="A1", max_attempts=1)
    task = TaskPlan(task_id="t1", asset=0, partition="date=d:2024-01-10")
    log.do(TasksPlanned(run_id="R1", first=0, assets=(asset,), tasks=(task,)), actor="")
    log.do(RunCancelRequested(run_id="R1", reason="a mistake"))
    refusal = RunRequestRefused(request_key="backfill:B1:1", reason="gone", code="partitions_gone")
    log.do(refusal, actor="")
    log.do(BackfillCancelled(backfill_id="B1", reason="a mistake"))
    log.do(BackfillRetried(backfill_id="B1", chunks=(0, 1)))
    log.do(BackfillAdvanced(backfill_id="B1", step=5, chunks=2), actor="")
    for key in ("backfill:B1:0:2", "backfill:B1:2"):
        log.do(RunRequestRefused(request_key=key, reason="inputs are missing"), actor="")
    log.do(
        BackfillEnded(
            backfill_id="B1",
            step=6,
            cause=BackfillCause.NOT_ALL_GOOD,
            reason="of its partitions 6 failed",
        ),
        actor="",
    )
    return log


def automated() -> Log:
    """Automation of assets: declared, asked for, refused where it is late, paused and resumed."""
    log = Log()
    eager = DeployedAutomation(name="raw.totals", when="eager")
    first = DeploymentCreated(
        deployment_id="D1",
        manifest="m1",
        artifact="z1",
        project="shop",
        assets=(deployed("raw.orders", "A1"), deployed("raw.totals", "A2")),
        total=2,
        declarations=(
            eager,
            DeployedAutomation(
                name="raw.report", when="on_cron", cron="0 6 * * *", timezone="Europe/Berlin"
            ),
        ),
    )
    log.do(first)
    asked = AutomationRequest(
        assets=("raw.report", "raw.totals"),
        partitions=("date=2025-01-01..2025-01-03",),
        cause="raw.orders[date=2025-01-01] M1 of run R1 is new",
    )
    until = datetime(2025, 1, 4, 6)
    advanced = AutomationAdvanced(
        proposal="P1",
        step=0,
        position=1,
        until=until,
        requests=(asked,),
        ticked=("raw.report",),
        ticked_position=1,
    )
    log.do(replace(advanced, step=0, ticked=(), ticked_position=0, has_more=True))
    advanced = replace(advanced, part=1, step=1)
    log.do(advanced)
    log.do(replace(advanced, proposal="P2"))  # of another orchestrator
    log.do(replace(advanced, proposal="P2", part=2, step=2))
    log.do(replace(advanced, proposal="P3", part=0, step=2, position=1_000))  # of the future
    advanced = replace(advanced, proposal="P4", part=0)
    log.do(AutomationPaused(asset="raw.totals", reason="the source is down"))
    log.do(replace(advanced, step=2, position=3))  # leaves the paused one out
    log.do(AutomationResumed(asset="raw.totals", catchup="all"))
    log.do(AutomationPaused(asset="raw.unknown"))
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=2,
            declarations=(replace(eager, when="on_missing"),),
            removed_declarations=("automation/raw.report",),
        )
    )
    return log


def held() -> Log:
    """Partitions that wait are kept with the cursor, and one of them is released."""
    log = Log()
    eager = DeployedAutomation(name="raw.totals", when="eager")
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(deployed("raw.totals", "A1"),),
            total=1,
            declarations=(eager,),
        )
    )
    days = [HeldPartition("raw.totals", f"date=d:2026-01-0{n}") for n in (1, 2)]
    advanced = AutomationAdvanced(proposal="P1", step=0, position=1, until=log.now)
    log.do(replace(advanced, held=tuple(days)), actor="")
    log.do(replace(advanced, proposal="P2", held=tuple(days)), actor="")  # it comes too late
    log.do(replace(advanced, proposal="P3", step=1, released=(days[0],)), actor="")
    return log
