"""Real orchestrators and workers: killed, told to stop, and too many of them.

A failure of the killing prints its seed, ARCO_KILL_SEED; the instants are the operating
system's. One test at a time: each is a handful of processes.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from arco.app import Workspace
from arco.engine import LocalEngine
from arco.errors import Corrupt, Denied, Error
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.orchestration.events import AttemptLost, TaskFinished
from arco.orchestration.limits import Timing
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import TaskRow
from arco.state.replay import read_log
from tests.integration.flow_crew import PATIENT, QUICK, FlowCrew
from tests.kit.depth import KILL_SEED, scaled
from tests.kit.flows import check_attempts, check_run, check_store, commit_all, tasks_of
from tests.kit.outages import DownStore

pytestmark = pytest.mark.xdist_group("processes")

Assemble = Callable[[str], FlowCrew]


@pytest.fixture
def assemble(tmp_path: Path) -> Iterator[Assemble]:
    with ExitStack() as stack:
        yield lambda assets: stack.enter_context(FlowCrew(tmp_path, assets))


def check_succeeded(crew: FlowCrew) -> dict[str, TaskRow]:
    w = crew.open()
    ends = dict.fromkeys(tasks_of(w, crew.run_id), TaskState.SUCCEEDED)
    tasks = check_run(w, crew.run_id, RunState.SUCCEEDED, ends, late=True)
    check_attempts(w, crew.run_id)
    check_store(w)
    return tasks


def failures(crew: FlowCrew) -> dict[str, set[str]]:
    """By asset: why attempts of it ended without success."""
    w = crew.open()
    assets = {task.task_id: key for key, task in tasks_of(w, crew.run_id).items()}
    found: dict[str, set[str]] = {key: set() for key in assets.values()}
    for recorded in read_log(w.read.snapshot(), w.core.types):
        match recorded.payload:
            case TaskFinished(result=result) if result.error is not None:
                found[assets[result.task_id]].add(result.error.code)
            case AttemptLost(task_id=task_id):
                found[assets[task_id]].add("lost")
    return found


SLOW = """
@asset(namespace="flow", retry=again)
def slow() -> None:
    while first("slow") or worker() == int((FOLDER / "slow.started").read_text()):
        time.sleep(0.05)


@asset(namespace="flow", retry=again)
def then(slow: AssetIn["flow.slow"]) -> None: ...
"""


def test_the_task_of_a_killed_worker_is_done_by_another(assemble: Assemble) -> None:
    crew = assemble(SLOW)
    crew.start("orchestrator", QUICK)
    workers = [crew.start("worker", QUICK) for _ in range(2)]
    crew.until(lambda: crew.first_process("slow"), "the task's start")
    [victim] = [w for w in workers if w.pid == crew.first_process("slow")]
    crew.drop(victim)
    victim.kill()
    crew.until(crew.ended, "the end of the run")
    check_succeeded(crew)


def fan(count: int) -> str:
    lines = ['@asset(namespace="flow", retry=again)\ndef root() -> None: ...\n']
    for i in range(count):
        lines.append(
            f'@asset(namespace="flow", retry=again, deps=["flow.root"])\n'
            f"def m{i}() -> None:\n    time.sleep(0.3)\n"
        )
    deps = ", ".join(f'"flow.m{i}"' for i in range(count))
    lines.append(f'@asset(namespace="flow", retry=again, deps=[{deps}])\ndef sink() -> None: ...\n')
    return "\n".join(lines)


def test_an_orchestrator_that_is_killed_again_and_again_does_no_harm(assemble: Assemble) -> None:
    print(f"replay with ARCO_KILL_SEED={KILL_SEED}")
    rng = random.Random(KILL_SEED)
    crew = assemble(fan(40))
    for _ in range(2):
        crew.start("worker", PATIENT, "--slots", "2")
    kills = 0
    while not crew.ended():
        victim = crew.start("orchestrator", PATIENT)
        crew.until(lambda v=victim: v.ready, "the orchestrator's start")  # type: ignore[misc]
        time.sleep(rng.uniform(0.05, 1.0))
        crew.drop(victim)
        victim.kill()
        kills += 1
    assert kills > 1
    tasks = check_succeeded(crew)
    assert len(tasks) == 42
    assert {task.attempt for task in tasks.values()} == {1}, failures(crew)


MIXED = """
@asset(namespace="flow", retry=again)
def short() -> None:
    first("short")
    while not (FOLDER / "draining").exists():
        time.sleep(0.05)
    time.sleep(0.3)


@asset(namespace="flow", retry=again)
def endless() -> None:
    if first("endless"):
        while True:
            time.sleep(0.05)


@asset(namespace="flow", retry=again)
def stuck() -> None:
    if first("stuck"):
        time.sleep(3600)


@asset(namespace="flow", retry=again)
def then(short: AssetIn["flow.short"], endless: AssetIn["flow.endless"]) -> None: ...
"""


def test_a_worker_that_is_told_to_stop_finishes_or_hands_back_what_it_has(
    assemble: Assemble,
) -> None:
    crew = assemble(MIXED)
    for _ in range(2):
        crew.start("orchestrator", PATIENT)
    leaving = crew.start("worker", PATIENT, "--slots", "3", "--drain", "3")
    for asset in ("short", "endless", "stuck"):
        crew.until(lambda a=asset: crew.first_process(a), asset)  # type: ignore[misc]
    crew.start("worker", PATIENT)
    crew.drop(leaving)
    (crew.folder / "draining").touch()
    assert leaving.terminate() == 0, leaving.log.read_text()
    crew.until(crew.ended, "the end of the run")
    tasks = check_succeeded(crew)
    drained = {"infrastructure.drained"}
    assert failures(crew) == {
        "flow.short": set(),
        "flow.endless": drained,
        "flow.stuck": drained,
        "flow.then": set(),
    }
    attempts = {key: task.attempt for key, task in tasks.items()}
    assert attempts == {"flow.short": 1, "flow.endless": 2, "flow.stuck": 2, "flow.then": 1}


def test_processes_go_on_after_the_store_has_denied_access(tmp_path: Path) -> None:
    with FlowCrew(tmp_path, fan(scaled(16, 40)), unprivileged=True) as crew:
        orchestrator = crew.start("orchestrator", PATIENT)
        worker = crew.start("worker", PATIENT, "--slots", "2")

        def done() -> int:
            ends = [task.state for task in tasks_of(crew.workspace, crew.run_id).values()]
            return ends.count(TaskState.SUCCEEDED)

        crew.until(lambda: done() > 4, "the first tasks")
        crew.make_writable(False)
        crew.until(
            lambda: all("Permission denied" in p.log.read_text() for p in (orchestrator, worker)),
            "the processes' words about it",
        )
        silent = "waiting: no orchestrator has been running since"
        crew.until(lambda: silent in crew.servo("runs", "show", crew.run_id), "what is shown")
        shown = json.loads(crew.servo("runs", "show", crew.run_id, "--json"))
        assert "orchestrator" in {reason["what"] for reason in shown["waiting"]}
        assert not crew.ended()
        crew.make_writable(True)
        crew.until(crew.ended, "the end of the run")
        check_succeeded(crew)
        for process in (orchestrator, worker):
            text = process.log.read_text()
            assert "the store answers again" in text and "Traceback" not in text, text
            crew.drop(process)
            assert process.terminate() == 0, process.log.read_text()


def test_a_worker_ends_although_the_store_takes_no_reports(tmp_path: Path) -> None:
    assets = """
@asset(namespace="flow", retry=again)
def one() -> None:
    first("one")
    while not (FOLDER / "go").exists():
        time.sleep(0.02)
"""
    with FlowCrew(tmp_path, assets, unprivileged=True) as crew:
        crew.start("orchestrator", PATIENT)
        worker = crew.start("worker", PATIENT, "--drain", "1")
        crew.until(lambda: crew.first_process("one"), "the task's start")
        crew.make_writable(False)
        (crew.folder / "go").touch()
        crew.drop(worker)
        assert worker.terminate() == 6
        assert "did not accept the results of flow.one attempt 1" in worker.log.read_text()
        crew.make_writable(True)
        crew.start("worker", QUICK)
        crew.start("orchestrator", QUICK)  # which does not wait for the dead one for long
        crew.until(crew.ended, "the end of the run")
        check_succeeded(crew)


@pytest.mark.parametrize("role", ["orchestrator", "worker"])
def test_a_process_that_is_denied_access_at_its_start_says_so_at_once(
    tmp_path: Path, role: str
) -> None:
    with FlowCrew(tmp_path, SLOW, unprivileged=True) as crew:
        (crew.folder / "lake").chmod(0)
        process = crew.start(role, PATIENT)
        crew.drop(process)
        assert process.wait() == 4, process.log.read_text()
        assert "Permission denied" in process.log.read_text()
        (crew.folder / "lake").chmod(0o755)


def test_a_crowd_does_everything_once(assemble: Assemble) -> None:
    crew = assemble(fan(30).replace("time.sleep(0.3)", "pass"))
    for role in ("orchestrator", "worker") * 2:
        crew.start(role, PATIENT)
    crew.until(crew.ended, "the end of the run")
    tasks = check_succeeded(crew)
    assert {task.attempt for task in tasks.values()} == {1}, failures(crew)


ENDLESS = """
@asset(namespace="flow", retry=again)
def endless() -> None:
    first("endless")
    while True:
        time.sleep(0.05)


@asset(namespace="flow", retry=again)
def polite(ctx: AssetContext) -> None:
    first("polite")
    while True:
        ctx.check_cancelled()
        time.sleep(0.05)


@asset(namespace="flow", retry=again)
def then(endless: AssetIn["flow.endless"]) -> None: ...
"""


def test_a_run_of_remote_workers_is_cancelled(assemble: Assemble) -> None:
    crew = assemble(ENDLESS)
    crew.start("orchestrator", PATIENT)
    crew.start("worker", PATIENT)
    for asset in ("endless", "polite"):
        crew.until(lambda a=asset: crew.first_process(a), asset)  # type: ignore[misc]
    crew.servo("runs", "cancel", crew.run_id, "--reason", "enough")
    crew.until(crew.ended, "the end of the run")
    w = crew.open()
    ends = dict.fromkeys(tasks_of(w, crew.run_id), TaskState.CANCELLED)
    check_run(w, crew.run_id, RunState.CANCELLED, ends)
    assert "lost" not in set().union(*failures(crew).values()), "they stopped by themselves"
    snapshot = w.read.snapshot()
    assert (snapshot.all(MATERIALIZATIONS), snapshot.all(PARTITIONS)) == ([], [])
    check_store(w)


# -- all in one process ---------------------------------------------------------------------

CHAIN = """
@asset(namespace="flow", retry=again)
def one() -> None:
    first("one")
    while not (FOLDER / "go").exists():
        time.sleep(0.02)


@asset(namespace="flow", retry=again)
def two(one: AssetIn["flow.one"]) -> None: ...


@asset(namespace="flow", retry=again)
def three(two: AssetIn["flow.two"]) -> None: ...
"""
BRISK = Timing(
    interval_s=0.1,
    heartbeat_s=0.5,
    zombie_after_s=4,
    claim_s=6,
    redeliver_after_s=4,
    cancel_grace_s=4,
)


def engine_of(crew: FlowCrew) -> LocalEngine:
    return LocalEngine(crew.open(), slots=2, cache=crew.folder / "cache", timing=BRISK)


def test_an_engine_that_is_stopped_says_so_and_leaves_a_run_that_goes_on(
    assemble: Assemble,
) -> None:
    crew = assemble(CHAIN)
    said: list[str] = []

    def wait(engine: LocalEngine) -> None:
        try:
            said.append(engine.wait(crew.run_id).state)
        except Error as error:
            said.append(error.message)

    with engine_of(crew).running() as engine:
        crew.until(lambda: crew.first_process("one"), "the task's start")
        waiter = threading.Thread(target=wait, args=(engine,))
        waiter.start()
        threading.Timer(0.5, (crew.folder / "go").touch).start()
        # The worker takes nothing new; what it has may finish.
    waiter.join(timeout=60)
    assert not waiter.is_alive()
    assert said == [f"the engine was stopped before run {crew.run_id} had ended"]
    assert tasks_of(crew.open(), crew.run_id)["flow.one"].state == TaskState.SUCCEEDED

    with engine_of(crew).running() as engine:
        assert engine.wait(crew.run_id).state == RunState.SUCCEEDED
    check_succeeded(crew)


@pytest.mark.parametrize("error", [Denied, Corrupt])
def test_an_engine_goes_on_after_an_outage_of_its_store(
    assemble: Assemble, error: type[Error]
) -> None:
    crew = assemble(CHAIN)
    w = crew.open()
    store = DownStore(w.store)
    engine = LocalEngine(
        Workspace(store, w.tenant, w.name), slots=2, cache=crew.folder / "cache", timing=BRISK
    )
    with engine.running():
        crew.until(lambda: crew.first_process("one"), "the task's start")
        store.error = error
        crew.until(lambda: engine.orchestrator.outage.began, "the engine's notice")
        (crew.folder / "go").touch()
        store.error = None
        assert engine.wait(crew.run_id).state == RunState.SUCCEEDED
    check_succeeded(crew)


def test_an_engine_whose_orchestrator_fails_still_reports_what_was_done(
    assemble: Assemble,
) -> None:
    crew = assemble(CHAIN)
    engine = engine_of(crew)
    with pytest.raises(RuntimeError, match="broken"), engine.running():
        crew.until(lambda: crew.first_process("one"), "the task's start")

        def broken(names: Sequence[str] = ()) -> int:
            raise RuntimeError("broken")

        engine.orchestrator.tick = broken  # type: ignore[method-assign]
        with pytest.raises(Error, match="the engine stopped: broken"):
            engine.wait(crew.run_id)
        (crew.folder / "go").touch()
    w = crew.open()
    commit_all(w)
    assert tasks_of(w, crew.run_id)["flow.one"].state == TaskState.SUCCEEDED
