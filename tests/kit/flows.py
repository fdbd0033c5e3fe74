"""Projects that run, and the processes that run them, for tests that kill both.

`CITY` is a project with everything that can happen to a task:

    top ─┬─► left ──┐
         └─► right ─┴─► bottom      right fails for good, so bottom is skipped
    flaky                           fails twice, with a delay, and then succeeds
    alone ─► after                  has nothing to do with any of it

`OrchestratorProcess` and `WorkerProcess` are driven by hand, one step at a time, on
a clock that moves only when told to. They share nothing but a store: whoever is dropped
is dead, and another on the same store takes over.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import itertools
import logging
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from arco.app import Workspace
from arco.automation.sensor_events import SensorEvaluated
from arco.clock import Clock
from arco.errors import Conflict, Fenced, Unavailable
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.log.commit import Committed
from arco.notifications.delivery import Courier
from arco.orchestration import states
from arco.orchestration.board import Board
from arco.orchestration.cancel_notes import Cancellations
from arco.orchestration.events import AttemptLost, TaskFinished
from arco.orchestration.limits import Timing
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import TaskState
from arco.orchestration.tables import RUNS, TASKS, TIMERS, RunRow, TaskRow
from arco.state.replay import read_log
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.port import Store
from arco.transport.liveness import StoreLiveness
from arco.transport.queues.memory import MemoryQueue
from arco.transport.queues.port import Delivery, Queue
from arco.transport.reports import Reports
from arco.transport.task_envelope import EnvelopeKey, EnvelopeSigner
from arco.worker.capture import LogCapture
from arco.worker.commit import commit_output, committed
from arco.worker.evaluations import SILENT_S, evaluated
from arco.worker.failures import Interrupted, classify
from arco.worker.packing import pack
from arco.worker.secrets import NO_REDACTION
from arco.worker.sensing import Evaluation
from arco.worker.service import Worker
from arco.worker.staleness import Staleness
from arco.worker.supervise import Control
from servo.contract.identity import attempt_id
from servo.contract.manifest import Manifest
from servo.contract.sensing import SensorCall
from servo.contract.task import ErrorInfo, Materialization, OutputCommit, TaskRequest, TaskResult
from servo.discover import build_manifest, discover
from servo.sensor import SensorContext, SensorResult
from tests.kit.clocks import SimClock
from tests.kit.faulty import Crash
from tests.kit.workspace import make_workspace

CITY = """
from servo import AssetContext, AssetIn, Retry, asset

patient = Retry(max_attempts=9, delay="5s", max_delay="5s")


@asset(namespace="city", retry=patient)
def top() -> None: ...


@asset(namespace="city", retry=patient)
def left(top: AssetIn["city.top"]) -> None: ...


@asset(namespace="city", retry=patient)
def right(top: AssetIn["city.top"]) -> None:
    raise ValueError("no way")


@asset(namespace="city", retry=patient)
def bottom(left: AssetIn["city.left"], right: AssetIn["city.right"]) -> None: ...


@asset(namespace="city", retry=patient)
def flaky(ctx: AssetContext) -> None:
    if ctx.attempt < 3:
        raise ConnectionError("not yet")


@asset(namespace="city", retry=patient)
def alone() -> None: ...


@asset(namespace="city", retry=patient)
def after(alone: AssetIn["city.alone"]) -> None: ...
"""

CITY_ENDS = {
    "city.top": TaskState.SUCCEEDED,
    "city.left": TaskState.SUCCEEDED,
    "city.right": TaskState.FAILED,
    "city.bottom": TaskState.SKIPPED,
    "city.flaky": TaskState.SUCCEEDED,
    "city.alone": TaskState.SUCCEEDED,
    "city.after": TaskState.SUCCEEDED,
}
CITY_ATTEMPTS = dict.fromkeys(CITY_ENDS, 1) | {"city.flaky": 3, "city.bottom": 0}
"""How many attempts each takes where nothing but user code fails."""

PASSING = (Unavailable, Conflict, Fenced)
"""What a process that lives among others must expect, and try again after."""

KEYS = (EnvelopeKey("test", b"t" * 32),)
TIMING = Timing(linger_s=0.0)


def project(text: str) -> tuple[Manifest, bytes]:
    """A module's manifest and artifact, as `servo deploy` makes them."""
    with _discovering:  # two threads would import modules of the same name
        return _project(text)


_discovering = threading.Lock()


@functools.cache
def _project(text: str) -> tuple[Manifest, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "flow.py").write_text(text)
        artifact = pack(root, [root / "flow.py"])
        return build_manifest(discover(root), hashlib.sha256(artifact).hexdigest()), artifact


def deploy(w: Workspace, text: str) -> None:
    w.commands.orchestration.deploy(*project(text), allow_removals=True)


def trigger(w: Workspace, *selection: str, **settings: Any) -> str:
    request = PlanRequest(selection=selection or ("*",), force=True)
    return w.commands.orchestration.trigger(request, **settings).run_id


# -- an executor without user code ---------------------------------------------------------

Outcome = ErrorInfo | None
Script = Callable[[TaskRequest], Outcome]
Sense = Callable[[SensorCall, SensorContext], object]
"""What the function of a sensor does."""


def city_script(request: TaskRequest) -> Outcome:
    """What the functions of `CITY` do."""
    if request.asset == "city.right":
        return ErrorInfo(category="user_code", code="user_code.ValueError", message="no way")
    if request.asset == "city.flaky" and request.attempt < 3:
        return ErrorInfo(
            category="transient",
            code="transient.ConnectionError",
            message="not yet",
            retriable=True,
        )
    return None


class Violated(BaseException):
    """A test's own assertion, made while a task ran. No handler of errors may take it."""


class ScriptedExecutor:
    """Opens real envelopes and writes real commit markers; in between goes a script."""

    def __init__(self, w: Workspace, worker_id: str, script: Script) -> None:
        self._w = w
        self._worker_id = worker_id
        self._signer = EnvelopeSigner(KEYS, w.clock)
        self.script = script
        self.ran: list[TaskRequest] = []
        self.during: Callable[[TaskRequest, Control], None] = lambda request, control: None
        """Called while a task runs, for whatever is to happen meanwhile."""
        self.sense: Sense = lambda call, context: SensorResult()

    def open(self, raw: bytes) -> TaskRequest:
        return self._signer.open(raw, tenant=self._w.tenant, workspace=self._w.name)

    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        self.ran.append(request)
        try:
            return self._run(request, control)
        except AssertionError as error:
            raise Violated(str(error)) from error
        except Exception as error:  # as the real one: a result that says so
            info = ErrorInfo(
                category="transient", code="transient.store", message=str(error), retriable=True
            )
            return self._result(request, outcome="failed", error=info)

    def evaluate(self, request: TaskRequest, control: Control) -> SensorEvaluated | None:
        """As the real one, with a script in the place of the function."""
        call = request.sensor
        assert call is not None
        self.ran.append(request)
        self.during(request, control)
        if control.cancelled():
            raise Interrupted()
        path = paths.attempt_log(request.run_id, request.task_id, request.attempt, self._w.ids())
        log = LogCapture(self._w.store, path, self._w.clock, NO_REDACTION, interval_s=SILENT_S)
        answer, info = None, None
        try:
            answer = Evaluation(
                call,
                lambda context: self.sense(call, context),
                lambda: self._w.store,
                logger=logging.getLogger("sensor"),
                secrets={},
                clock=self._w.clock,
                tenant=self._w.tenant,
                own_workspace=self._w.name,
            ).answer()
        except Exception as error:
            info = classify(error, request=request)
        return evaluated(request, log, answer, info, self._worker_id, 1)

    def end_idle(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _run(self, request: TaskRequest, control: Control) -> TaskResult:
        if request.attempt > 1 or request.redelivery > 0:
            found = committed(self._w.store, request)
            if found is not None:
                made = found.materialization
                return self._result(
                    request, outcome="succeeded", materialization=made, adopted=True
                )
        self.during(request, control)
        if control.cancelled():
            info = ErrorInfo(category="cancelled", code="cancelled", message="told to stop")
            return self._result(request, outcome="cancelled", error=info)
        error = self.script(request)
        if error is not None:
            return self._result(request, outcome="failed", error=error)
        id = self._w.ids()
        made = Materialization(
            materialization_id=id,
            asset=request.asset,
            asset_id=request.asset_id,
            partition=request.partition,
            run_id=request.run_id,
            task_id=request.task_id,
            attempt_id=request.attempt_id,
            path=f"{request.output}/{id}",
            fingerprint=request.fingerprint,
        )
        mine = OutputCommit(materialization=made)
        won, adopted = commit_output(self._w.store, request, mine)
        return self._result(
            request, outcome="succeeded", materialization=won.materialization, adopted=adopted
        )

    def _result(self, request: TaskRequest, **fields: Any) -> TaskResult:
        return TaskResult(
            run_id=request.run_id,
            task_id=request.task_id,
            attempt=request.attempt,
            attempt_id=request.attempt_id,
            worker_id=self._worker_id,
            **fields,
        )


# -- processes ------------------------------------------------------------------------------


class OrchestratorProcess:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        seed: int,
        *,
        queue: Queue | None = None,
        timing: Timing = TIMING,
        courier: Courier | None = None,
        **settings: Any,
    ) -> None:
        self.workspace = w = make_workspace(store, seed, clock=clock, **settings)
        self.queue = queue or w.runtime.store_queue(f"o{seed}", timing)
        self.reports = w.runtime.reports(timing)
        self.interrupt: Callable[[str], None] = lambda attempt_id: None
        self.on_board: Callable[[Board], None] = lambda board: None
        self.orchestrator = w.runtime.orchestrator(
            self.queue,
            self.reports,
            EnvelopeSigner(KEYS, clock),
            timing=timing,
            courier=courier,
            interrupt=lambda attempt_id: self.interrupt(attempt_id),
            on_board=lambda board: self.on_board(board),
        )

    @property
    def board(self) -> Board:
        return self.orchestrator.board

    def step(self) -> int:
        """One tick; what its loop would try again is tried at the next step."""
        try:
            return self.orchestrator.tick()
        except PASSING:
            return 0


class WorkerProcess:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        seed: int,
        *,
        script: Script = city_script,
        queue: Queue | None = None,
        wrap: Callable[[Queue], Queue] = lambda queue: queue,
        timing: Timing = TIMING,
        executor: Callable[[Workspace], Any] | None = None,
        workspace: Workspace | None = None,
        reports: Reports | None = None,
    ) -> None:
        """`workspace` and `reports` are those of the process that it shares with others."""
        self.workspace = w = workspace or make_workspace(store, seed, clock=clock)
        self.worker_id = f"w{seed}"
        self.queue = wrap(queue or w.runtime.store_queue(self.worker_id, timing))
        self.reports = reports or w.runtime.reports(timing)
        self.executor = ScriptedExecutor(w, self.worker_id, script)
        staleness = Staleness(w.read.snapshot, clock)
        self.worker = Worker(
            self.worker_id,
            self.executor if executor is None else executor(w),  # type: ignore[arg-type]
            self.queue,
            self.reports,
            StoreLiveness(w.store),
            clock,
            timing=timing,
            is_stale=staleness.is_stale,
            is_over=staleness.is_over,
            cancelled=Cancellations(w.store, w.read.snapshot).among,
        )

    def step(self) -> int:
        """Everything that the queue has for it; what fails is tried again at the next step."""
        worked = 0
        self.beat()
        with contextlib.suppress(Unavailable):
            while taken := self.queue.take(1, 0.0):
                self.work(taken[0])
                worked += 1
        self.beat()
        return worked

    def work(self, delivery: Delivery) -> None:
        with contextlib.suppress(*PASSING):
            self.worker.work(delivery)
        self.flush()

    def flush(self) -> None:
        with contextlib.suppress(Unavailable):
            self.reports.flush()

    def beat(self) -> None:
        """What its heartbeat and its reporter do meanwhile."""
        self.flush()
        if self.worker.progress():
            _try(self.worker.stop_cancelled)
        _try(self.worker.beat)
        _try(self.worker.renew)


def _try(act: Callable[[], None]) -> None:
    """As a thread of the worker does: what fails is tried again later."""
    with contextlib.suppress(Exception):
        act()


class EngineProcess(OrchestratorProcess):
    """Orchestrator and worker in one process, with a queue and reports that die with it.

    Most of its steps are hurries: reports are appended, and what is ready by them is sent.
    """

    def __init__(self, store: Store, clock: Clock, seed: int) -> None:
        super().__init__(store, clock, seed, queue=MemoryQueue(clock, TIMING.claim_s))
        self.worker = WorkerProcess(
            store, clock, seed, queue=self.queue, workspace=self.workspace, reports=self.reports
        )
        self.executor = self.worker.executor
        self.interrupt = self.worker.worker.interrupt
        self._steps = 0

    def step(self) -> int:
        self._steps += 1
        did = 0
        for taken in self.queue.take(2, 0.0):
            with contextlib.suppress(*PASSING):
                self.worker.worker.work(taken)
            did += 1
        _try(self.worker.worker.beat)
        _try(self.worker.worker.renew)
        return did + (self.hurry() if self._steps % 3 else super().step())

    def hurry(self) -> int:
        with contextlib.suppress(*PASSING):
            return len(self.orchestrator.hurry())
        return 0


class Crowd:
    """Processes on one store and one clock, stepped in turn until a run has ended."""

    def __init__(
        self, store: Store, clock: SimClock, run_id: str, seeds: itertools.count[int] | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.run_id = run_id
        self.orchestrators: list[OrchestratorProcess] = []
        self.workers: list[WorkerProcess] = []
        self._seeds = itertools.count(10) if seeds is None else seeds
        self.sense: Sense = lambda call, context: SensorResult()
        self.looking = make_workspace(store, 9, clock=clock)

    def without_processes(self, store: Store, clock: SimClock) -> Crowd:
        """Nobody yet, on a copy of the store; ids go on from where they are here."""
        return Crowd(store, clock, self.run_id, copy.copy(self._seeds))

    def orchestrator(self, store: Store | None = None, **settings: Any) -> OrchestratorProcess:
        made = OrchestratorProcess(store or self.store, self.clock, next(self._seeds), **settings)
        self.orchestrators.append(made)
        return made

    def engine(self, store: Store | None = None) -> EngineProcess:
        made = EngineProcess(store or self.store, self.clock, next(self._seeds))
        self.orchestrators.append(made)
        return made

    def worker(self, store: Store | None = None, **settings: Any) -> WorkerProcess:
        made = WorkerProcess(store or self.store, self.clock, next(self._seeds), **settings)
        made.executor.sense = lambda call, context: self.sense(call, context)
        self.workers.append(made)
        return made

    def step(self) -> bool:
        """Whether anybody did anything. Who dies is replaced, on the store itself."""
        did = 0
        for o in list(self.orchestrators):
            try:
                did += o.step()
            except Crash:
                self.orchestrators.remove(o)
                self.engine() if isinstance(o, EngineProcess) else self.orchestrator()
        for k in list(self.workers):
            try:
                did += k.step()
            except Crash:
                self.workers.remove(k)
                self.worker()
        self.clock.sleep(1.0 if did else 9.0)
        return did > 0

    def until(self, reached: Callable[[], object], *, steps: int = 300) -> None:
        for _ in range(steps):
            if reached():
                return
            self.step()
        raise AssertionError(f"stuck: {self.describe()}")

    def finish(self) -> None:
        """Until the run has ended, and nothing is left in the queue."""
        self.until(self.ended)
        self.until(lambda: not queued(self.store))
        self.step()
        for o in list(self.orchestrators):
            try:
                OrchestratorProcess.step(o)
            except Crash:
                self.orchestrators.remove(o)
                OrchestratorProcess.step(self.orchestrator())

    def ended(self) -> bool:
        boards = [o.board for o in self.orchestrators]
        if any(self.run_id in board.runs for board in boards):
            return False  # the cheap answer
        return end_of(self.looking, self.run_id) is not None

    def describe(self) -> str:
        row = self.looking.read.snapshot().get(RUNS, self.run_id)
        tasks = tasks_of(self.looking, self.run_id)
        found = {key: (t.state, t.attempt, t.error_message) for key, t in tasks.items()}
        return f"{row and row.state} {found} {queued(self.store)}"

    def fresh(self) -> Workspace:
        return make_workspace(self.store, next(self._seeds), clock=self.clock)


# -- what must hold in the end ---------------------------------------------------------------


def end_of(w: Workspace, run_id: str) -> RunRow | None:
    """The row of a run that has ended."""
    row = w.read.snapshot().get(RUNS, run_id)
    return row if row is not None and row.state not in states.RUN_ACTIVE else None


def tasks_of(w: Workspace, run_id: str) -> dict[str, TaskRow]:
    return {row.asset_key: row for row in w.read.snapshot().rows(TASKS, run_id)}


def commit_all(w: Workspace) -> None:
    while isinstance(w.committer.commit(), Committed):
        pass


def check_run(
    w: Workspace, run_id: str, state: str, ends: Mapping[str, str], *, late: bool = False
) -> dict[str, TaskRow]:
    """A run ended as it should, and each output counts once. `w` is a fresh process.

    With `late`, results may have been recorded that came after their task had ended.
    """
    commit_all(w)
    s = w.read.snapshot()
    run = s.get(RUNS, run_id)
    assert run is not None and run.state == state, run
    tasks = tasks_of(w, run_id)
    assert {key: task.state for key, task in tasks.items()} == dict(ends)
    _check_outputs(w, s, run_id, tasks, late)
    assert [t for t in s.rows(TIMERS, run_id) if t.state == "SCHEDULED"] == []
    return tasks


def _check_outputs(
    w: Workspace, s: Snapshot, run_id: str, tasks: Mapping[str, TaskRow], late: bool
) -> None:
    good = {task.task_id: task for task in tasks.values() if task.state == TaskState.SUCCEEDED}
    rows = [row for row in s.all(MATERIALIZATIONS) if row.run_id == run_id]
    counted = {row.task_id: row for row in rows if row.status == "GOOD"}
    assert Counter(row.task_id for row in rows if row.status == "GOOD") == Counter(list(good))
    if not late:
        assert len(rows) == len(counted), rows
    current = {row.asset_id: row for row in s.all(PARTITIONS) if row.run_id == run_id}
    for task_id, task in good.items():
        made = counted[task_id]
        assert (made.version, made.materialization_id) == (1, task.materialization_id)
        assert current[task.asset_id].materialization_id == made.materialization_id
        assert current[task.asset_id].version == 1
    assert len(current) == len(good)
    markers = [meta.path for meta in w.store.list(f"commits/{run_id}/")]
    named = Counter(Path(path).stem for path in markers)
    assert all(n == 1 for n in named.values()), named
    assert set(good) <= set(named)
    for path in markers:
        raw = w.store.get(path).data.decode()
        task_id = Path(path).stem
        if task_id in good:
            assert good[task_id].materialization_id in raw


def check_attempts(w: Workspace, run_id: str) -> None:
    """Each attempt but the last one of a task failed, was lost or timed out: the log says so."""
    ended: dict[str, set[str]] = {}
    for recorded in read_log(w.read.snapshot(), w.core.types):
        match recorded.payload:
            case TaskFinished(result=result) if result.outcome == "failed":
                ended.setdefault(result.task_id, set()).add(result.attempt_id)
            case AttemptLost(task_id=task_id, attempt_id=lost):
                ended.setdefault(task_id, set()).add(lost)
    for task in tasks_of(w, run_id).values():
        before = {attempt_id(run_id, task.task_id, n) for n in range(1, task.attempt)}
        assert before <= ended.get(task.task_id, set()), task


def check_board(board: Board, w: Workspace) -> None:
    """A board that came here step by step is the one that is loaded at once."""
    loaded = Board()
    loaded.load(w.read.snapshot())
    assert board_state(board) == board_state(loaded)


def board_state(board: Board) -> dict[str, object]:
    state = dict(vars(board))
    del state["serves"], state["is_alive"]
    state["in_flight_of"] = {t: n for t, n in board.in_flight_of.items() if n}
    return state


def check_store(w: Workspace) -> None:
    report = w.upkeep.fsck()
    assert report.clean, report.findings
    rebuilt = w.upkeep.rebuild(publish=False)
    assert rebuilt.same, rebuilt.differences


def queued(store: Store) -> list[str]:
    return [meta.path for meta in store.list(paths.QUEUE)]
