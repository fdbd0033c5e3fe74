"""A worker's supervisor: takes messages, runs them in slots, sends heartbeats, reports results.

No user code runs in this process: a task can only damage its own slot.

- A message stays claimed until its result is durable in the log; only then is it done. If the
  worker dies before that, the claim expires.
- A message whose attempt already runs here is ignored: its claim is renewed or expires.
- A worker that is stopped finishes its tasks within its time limit, and reports the others as
  failed with a reason that is retried.
- Heartbeats, claims, cancellations and acknowledgements have a thread each: none of them
  waits for a store call of another. Messages whose results are durable are
  acknowledged together, as many as there are by then.
- Errors of the store end none of these threads: they wait until the outage is over.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection

from arco.automation.sensor_events import SensorEvaluated
from arco.clock import Clock
from arco.errors import Denied, Error, Invalid
from arco.orchestration.events import TaskStarted
from arco.orchestration.limits import Timing
from arco.orchestration.results import finished
from arco.storage.outage import Outage
from arco.tasks.input_failures import partition_text
from arco.transport.liveness import LivenessRecord, LivenessWriter, Progress
from arco.transport.queues.capacity import Capacity
from arco.transport.queues.memory import MemoryQueue
from arco.transport.queues.port import Delivery, Queue
from arco.transport.reports import Reports
from arco.transport.task_envelope import UnknownKey
from arco.worker.evaluations import UNANSWERED, failed_event, started
from arco.worker.execute import Executor
from arco.worker.failures import Interrupted
from arco.worker.recordable import failed_result
from arco.worker.supervise import GRACE_S
from servo.contract.sensing import SensorCall
from servo.contract.task import ErrorInfo, TaskRequest, TaskResult

log = logging.getLogger(__name__)

MAX_DELIVERIES = 5
"""Maximum of deliveries. A message that was lost this often kills its workers; one that was
released this often cannot be opened by any."""
REMEMBERED = 10_000
"""Attempts of its own that a worker remembers."""
PATIENCE_S = 0.25
"""How soon a slot that waits for the store notices that the worker is to stop."""
STOP_S = 5.0
"""How long the worker waits for threads and slots that should end at once."""

IsStale = Callable[[TaskRequest], bool]
FindCancelled = Callable[[Collection[str]], set[str]]
"""Returns those of the runs that are being cancelled."""


class _Working:
    """An attempt that this worker runs; the `Control` of its execution."""

    def __init__(self, request: TaskRequest, delivery: Delivery, since: float) -> None:
        self.request = request
        self.delivery = delivery
        self.since = since
        """When its claim was last renewed."""
        self.percent = 0
        self.message = ""
        self.stop = False
        self.draining = False
        self.reported = False
        """Whether its result was handed to the reports."""

    def cancelled(self) -> bool:
        return self.stop

    def progress(self, percent: int, message: str) -> None:
        self.percent, self.message = percent, message


class Worker:
    def __init__(
        self,
        worker_id: str,
        executor: Executor,
        queue: Queue,
        reports: Reports,
        liveness: LivenessWriter,
        clock: Clock,
        *,
        capacity: Capacity | None = None,
        timing: Timing | None = None,
        is_stale: IsStale = lambda request: False,
        is_over: IsStale = lambda request: False,
        cancelled: FindCancelled = lambda runs: set(),
        drain_s: float = 30.0,
        beats_always: bool = False,
    ) -> None:
        """`beats_always`: also without work, for an engine whose runs nobody else serves."""
        self.worker_id = worker_id
        self._executor = executor
        self._queue = queue
        self._reports = reports
        self._liveness = liveness
        self._clock = clock
        self.capacity = capacity or Capacity(4, clock)
        self._timing = (timing or Timing()).check()
        self.is_stale = is_stale
        self.is_over = is_over
        self.reported_attempts: OrderedDict[str, None] = OrderedDict()
        """Attempts whose results this worker has appended to the log, the newest last."""
        self._evaluated: dict[str, tuple[int, str, int]] = {}
        """By sensor, the turn that was evaluated here last."""
        self.cancelled = cancelled
        self._drain_s = drain_s
        self._working: dict[str, _Working] = {}
        self._threads: list[threading.Thread] = []
        self.stop = threading.Event()
        self._waits_until = 0.0
        """Until then no message is taken: this worker cannot open the current ones."""
        self._beats_always = beats_always
        self._beats = 0
        self._was_busy = False
        self._ended = threading.Event()
        self._dealt_with = threading.Condition()
        self._unacknowledged: list[Delivery] = []
        """Messages whose results are in the log, and that the queue still has."""
        self._acknowledging = False
        """Whether a thread acknowledges them."""
        self._taking = Outage(clock, "queue", patient=True)
        self._looking = Outage(clock, "look-up of tasks", patient=True)
        self.beating = Outage(clock, "heartbeat", patient=True)
        self.tasks_done = 0

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; then drain."""
        self.stop = stop
        duties = self._start_duties()  # first: the first task needs them
        for _ in range(self.capacity.slots):
            self._start_thread()
        stop.wait()
        self._drain()
        self._ended.set()
        with self._dealt_with:
            self._dealt_with.notify_all()
        for thread in duties:
            thread.join(STOP_S)
        self._try(self.beat, "could not delete the liveness record")

    def _start_thread(self) -> None:
        """One for each concurrent task: it waits for a message, and then for its slot."""
        name = f"slot-{len(self._threads)}"
        thread = threading.Thread(target=self._slot, args=(self.stop,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def interrupt(self, attempt_id: str) -> None:
        working = self._working.get(attempt_id)
        if working is not None:
            working.stop = True

    def progress(self) -> dict[str, Progress]:
        """The progress of running tasks, by attempt; without sensors."""
        return {
            id: Progress(w.request.run_id, w.request.task_id, w.percent, w.message)
            for id, w in list(self._working.items())
            if w.request.sensor is None
        }

    # -- slots ---------------------------------------------------------------------------

    def _slot(self, stop: threading.Event) -> None:
        while not stop.is_set():
            stop.wait(self.take_one(stop))

    def take_one(self, stop: threading.Event) -> float:
        """Take a message and work on it. Returns the pause before the next one."""
        if self._clock.monotonic() < self._waits_until:
            return 0.5
        if not self.capacity.wait_for_room(0.5):
            return 0.0
        try:
            deliveries = self._queue.take(1, 0.5, self.capacity)
        except Exception as error:  # a thread that ends would not be replaced
            return self._taking.failed(_as_error(error))
        for delivery in deliveries:
            try:
                self._deal_with(delivery, stop)
            except Error as error:  # of the store, before the task was started
                self._release(delivery)
                return self._taking.failed(error)
        self._taking.passed()
        return 0.0

    def _deal_with(self, delivery: Delivery, stop: threading.Event) -> None:
        """Work on a message, which has its room until then."""
        try:
            if stop.is_set():  # so that others do not wait until the claim expires
                self._release(delivery)
            else:
                self.work(delivery)
        except Error:
            self.capacity.release(delivery.message.weight)
            raise
        except Exception:
            log.exception("a message could not be handled; it will be delivered again")
        self.capacity.release(delivery.message.weight)

    def _release(self, delivery: Delivery) -> None:
        self._try(functools.partial(self._queue.release, [delivery]), "could not release a claim")

    def work(self, delivery: Delivery) -> None:
        """Deal with one message."""
        try:
            request = self._executor.open(delivery.message.body)
        except UnknownKey as error:
            log.error("cannot open message %s: %s", delivery.message.name, error)
            if delivery.number >= MAX_DELIVERIES:
                self._queue.done([delivery])
                return
            # Another worker may have the key: our slots do not take it again first.
            self._waits_until = self._clock.monotonic() + STOP_S
            self._queue.release([delivery])
            return
        except (Denied, Invalid) as error:
            log.error("refused message %s: %s", delivery.message.name, error)
            self._queue.done([delivery])
            return
        if request.sensor is not None:
            self._evaluate(delivery, request, request.sensor)
            return
        if self._does_nothing(delivery, request):
            log.info("message %s belongs to an attempt that has ended", delivery.message.name)
            self._queue.done([delivery])
            return
        working = _Working(request, delivery, self._clock.monotonic())
        if self._working.setdefault(request.attempt_id, working) is not working:
            return  # it runs here already: its claim expires if that fails
        self._reports.submit([self._started(request)], urgent=delivery.number > 1)
        if delivery.number > 1:
            # The task may have killed a worker before: this time the start must be durable.
            try:
                self._reports.flush()
            except BaseException:  # otherwise its claim would be renewed for ever
                self._working.pop(request.attempt_id, None)
                raise
        if delivery.lost >= MAX_DELIVERIES:
            self._report(working, self._undeliverable(request))
            return
        task = f"{request.asset} {partition_text(request.partition)}".strip()
        log.info("started %s, attempt %d, of run %s", task, request.attempt, request.run_id)
        began = self._clock.monotonic()
        result = self._run(working)
        problem = f": {result.error.code}" if result.error is not None else ""
        took_s = self._clock.monotonic() - began
        log.info(
            "%s of run %s %s in %.1f s%s", task, request.run_id, result.outcome, took_s, problem
        )
        self.tasks_done += 1
        try:
            self._report(working, result)
        except Exception as error:
            log.exception("the result of %s cannot be reported", request.asset)
            self._report(working, self._broken(request, error))

    def _evaluate(self, delivery: Delivery, request: TaskRequest, call: SensorCall) -> None:
        """Evaluate a sensor. An evaluation without effect is not reported."""
        turn = (call.number, call.message_id, call.due_s)
        again = self._evaluated.get(call.sensor_id) == turn and not call.is_told
        if again and delivery.number == 1:  # two orchestrators have requested it
            self._queue.done([delivery])
            return
        working = _Working(request, delivery, self._clock.monotonic())
        if self._working.setdefault(request.attempt_id, working) is not working:
            return
        event: SensorEvaluated | None
        try:
            if delivery.lost >= MAX_DELIVERIES:
                error = self._undeliverable(request).error
                event = failed_event(started(call, self.worker_id), error or UNANSWERED)
            else:
                event = self._executor.evaluate(request, working)
        except Interrupted:  # the worker stops: another one evaluates it
            self._working.pop(request.attempt_id, None)
            self._release(delivery)
            return
        except Exception:
            log.exception("%s could not be evaluated", request.asset)
            event = failed_event(started(call, self.worker_id), UNANSWERED)
        self._evaluated[call.sensor_id] = turn
        if event is None:
            self._done(working)
            return
        self._reports.submit([event], done=lambda: self._done(working))
        working.reported = True

    def _does_nothing(self, delivery: Delivery, request: TaskRequest) -> bool:
        """Whether the attempt is over: then its message does nothing."""
        if request.attempt_id in self.reported_attempts:
            return True
        again = delivery.number > 1 or request.redelivery > 0
        return self._looked_up(self.is_stale if again else self.is_over, request)

    def _looked_up(self, look_up: IsStale, request: TaskRequest) -> bool:
        """Retry until the store answers, as long as the claim is certainly held.

        Releasing the message at each failure would create claims during the whole outage.
        """
        deadline = self._clock.monotonic() + self._timing.claim_s / 2
        while True:
            try:
                answer = look_up(request)
                self._looking.passed()
                return answer
            except Error as error:
                pause_s = self._looking.failed(error)
                if self._clock.monotonic() + pause_s > deadline or not self._waited(pause_s):
                    raise

    def _waited(self, seconds: float) -> bool:
        """Wait; False as soon as the worker is to stop."""
        until = self._clock.monotonic() + seconds
        while not self.stop.is_set():
            left = until - self._clock.monotonic()
            if left < 0.001:  # a clock may not be able to sleep less
                return True
            self._clock.sleep(min(PATIENCE_S, left))
        return False

    def _run(self, working: _Working) -> TaskResult:
        """Always returns a result: an attempt without one would count as running for ever."""
        try:
            again = working.delivery.number > 1
            result = self._executor.run(working.request, working, again=again)
        except Exception as error:
            log.exception("%s could not be run", working.request.asset)
            return self._broken(working.request, error)
        if working.draining and result.outcome == "cancelled":
            return self._drained(working.request)
        return result

    def _report(self, working: _Working, result: TaskResult) -> None:
        self._reports.submit([finished(result)], done=lambda: self._done(working))
        working.reported = True

    def unreported(self) -> list[str]:
        """The attempts whose results are not in the log, for people."""
        requests = [w.request for w in list(self._working.values())]
        return [
            f"{r.asset} {partition_text(r.partition)} attempt {r.attempt}".replace("  ", " ")
            for r in requests
        ]

    def _done(self, working: _Working) -> None:
        """The result is in the log: the message is not needed any more."""
        self.reported_attempts[working.request.attempt_id] = None
        if len(self.reported_attempts) > REMEMBERED:
            self.reported_attempts.popitem(last=False)
        self._working.pop(working.request.attempt_id, None)
        with self._dealt_with:
            self._unacknowledged.append(working.delivery)
            self._dealt_with.notify_all()
            aside = self._acknowledging
        if not aside:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge all finished messages to the queue, in one call."""
        with self._dealt_with:
            deliveries, self._unacknowledged = self._unacknowledged, []
        if not deliveries:
            return
        try:
            self._queue.done(deliveries)
        except Error as error:
            log.warning("some of %d messages will be delivered again: %s", len(deliveries), error)

    def _acknowledge_until_ended(self) -> None:
        while True:
            with self._dealt_with:
                self._dealt_with.wait_for(lambda: self._unacknowledged or self._ended.is_set())
                if not self._unacknowledged:
                    self._acknowledging = False  # from here on, the reporting thread does it
                    return
            try:
                self._acknowledge()
            except Exception:
                log.exception("messages were not acknowledged; they will be delivered again")

    def _started(self, request: TaskRequest) -> TaskStarted:
        return TaskStarted(
            run_id=request.run_id,
            task_id=request.task_id,
            attempt_id=request.attempt_id,
            worker_id=self.worker_id,
        )

    # -- heartbeat -----------------------------------------------------------------------

    def _start_duties(self) -> list[threading.Thread]:
        """Start the threads for heartbeats, claims, cancellations and acknowledgements."""
        poll_s, heartbeat_s = min(1.0, self._timing.heartbeat_s), self._timing.heartbeat_s
        claims_s = min(heartbeat_s, self._timing.claim_s / 6)
        patient = functools.partial(Outage, self._clock, patient=True)
        duties: list[tuple[str, Callable[[], None], float, Outage]] = [
            ("heartbeat", self.beat, heartbeat_s, self.beating),
            ("claims", self.renew, claims_s, patient("claims")),
            ("cancellations", self.stop_cancelled, poll_s, patient("cancellations")),
            ("idle slots", self._executor.end_idle, poll_s, patient("idle slots")),
        ]
        threads = []
        for name, act, every_s, outage in duties:
            thread = threading.Thread(
                target=self._repeat, args=(act, every_s, outage), name=name, daemon=True
            )
            thread.start()
            threads.append(thread)
        if isinstance(self._queue, MemoryQueue):
            return threads  # which has no calls to wait for
        self._acknowledging = True
        acknowledging = threading.Thread(
            target=self._acknowledge_until_ended, name="acknowledgements", daemon=True
        )
        acknowledging.start()
        return [*threads, acknowledging]

    def _repeat(self, act: Callable[[], None], every_s: float, outage: Outage) -> None:
        while not self._ended.wait(every_s):
            self.once(act, outage)

    def once(self, act: Callable[[], None], outage: Outage) -> None:
        try:
            act()
        except Exception as error:
            if not isinstance(error, Error):
                log.exception("a thread of the worker failed and continues")
            outage.failed(_as_error(error))
        else:
            outage.passed()

    def _try(self, act: Callable[[], None], otherwise: str) -> None:
        try:
            act()
        except Exception as error:
            log.warning("%s: %s", otherwise, error, exc_info=not isinstance(error, Error))

    def stop_cancelled(self) -> None:
        tasks = [w.request for w in list(self._working.values()) if w.request.sensor is None]
        runs = {request.run_id for request in tasks}
        if not runs:
            return
        cancelled_runs = self.cancelled(runs)
        for working in list(self._working.values()):
            if working.request.run_id in cancelled_runs:
                working.stop = True

    def beat(self) -> None:
        """Write the liveness record with the running tasks; not if there are and were none."""
        attempts = self.progress()
        if not attempts and (self._ended.is_set() or not self._beats_always):
            if self._was_busy:
                self._liveness.end(self.worker_id)
            self._was_busy = False
            return
        self._beats += 1
        record = LivenessRecord(
            self.worker_id,
            self._beats,
            attempts,
            0 if self._beats_always else self.capacity.slots,  # it has a queue of its own
            self.capacity.memory_mib,
            self.capacity.reserved.slots,
            self._timing.heartbeat_s,
            self.beating.last,
        )
        self._liveness.beat(record)
        self._was_busy = True

    def renew(self) -> None:
        """Renew the claims of running tasks."""
        now, old = self._clock.monotonic(), self._timing.claim_s / 3
        held = [w for w in list(self._working.values()) if now - w.since > old]
        if held:
            self._queue.renew([w.delivery for w in held])
        for working in held:
            working.since = now

    # -- the end -------------------------------------------------------------------------

    def _drain(self) -> None:
        """Wait for running tasks, then stop them; kill those that do not stop."""
        self._wait(self._drain_s, self._busy)
        for working in list(self._working.values()):
            working.draining = working.stop = True
        self._wait(GRACE_S + STOP_S, self._busy)
        self._wait(STOP_S, lambda: bool(self._working))
        self._executor.close()

    def _wait(self, seconds: float, busy: Callable[[], bool]) -> None:
        deadline = self._clock.monotonic() + seconds
        while busy() and self._clock.monotonic() < deadline:
            self._clock.sleep(0.02)

    def _busy(self) -> bool:
        """Whether a task runs. Results that wait to be reported do not count."""
        running = any(not working.reported for working in list(self._working.values()))
        return running or any(thread.is_alive() for thread in self._threads)

    # -- results of its own --------------------------------------------------------------

    def _drained(self, request: TaskRequest) -> TaskResult:
        error = ErrorInfo(
            category="infrastructure",
            code="infrastructure.drained",
            message="the worker was shut down while the task was running",
            retriable=True,
        )
        return failed_result(request, self.worker_id, error)

    def _undeliverable(self, request: TaskRequest) -> TaskResult:
        error = ErrorInfo(
            category="infrastructure",
            code="infrastructure.undeliverable",
            message=f"{MAX_DELIVERIES} workers claimed it, and none of them reported a result",
            hint="the task may kill its worker; see the workers' own logs and memory",
        )
        return failed_result(request, self.worker_id, error)

    def _broken(self, request: TaskRequest, cause: Exception) -> TaskResult:
        error = ErrorInfo(
            category="infrastructure",
            code="infrastructure.worker",
            message=f"the worker failed to run the task: {type(cause).__name__}",
            hint=f"see the log of worker {self.worker_id}",
            retriable=True,
        )
        return failed_result(request, self.worker_id, error)


def _as_error(error: Exception) -> Error:
    return error if isinstance(error, Error) else Error(f"{type(error).__name__}: {error}")
