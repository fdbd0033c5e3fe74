"""The supervision of one attempt in a slot: its output, messages and memory, and how it is ended.

An attempt that is to stop first gets a signal, which raises in its function, so that its Spark jobs
are cancelled and its `finally` blocks run. If it has not ended `GRACE_S` later, it is killed, with
all processes that it started.

The memory limit is the resident memory of the slot and its child processes, above what the slot
had when the task began. A limit of the address space would also count what is mapped and never
touched, which Arrow, DuckDB and the threads' stacks do by the gigabyte.
"""

from __future__ import annotations

import signal
from typing import Final, Protocol

from arco.worker import slot_messages as messages
from arco.worker.capture import LogCapture
from arco.worker.child_process import signal_name
from arco.worker.failures import Interrupted, TaskTimeout, classify, failed
from arco.worker.recordable import failed_result
from arco.worker.slot_spark import GuestSpark
from arco.worker.slots import ENDED_S, Slot
from arco.worker.stopping import CANCEL, TIME_OUT
from arco.worker.worker_core import WorkerCore
from servo.contract.sensing import SensorAnswer
from servo.contract.task import TaskRequest, TaskResult, Usage

POLL_S: Final = 0.05
GRACE_S: Final = 5.0
"""How long an attempt may take to stop after the signal."""
_ASK_AGAIN_S: Final = 1.0
_HUNG_UP_S: Final = 0.5
"""How long a process that has closed its socket may take to end by itself."""
_MIB: Final = 1 << 20
_FRESH_BYTES: Final = 192 * _MIB


class Control(Protocol):
    """What the worker's loop and an attempt exchange. Called from any thread."""

    def cancelled(self) -> bool: ...

    def progress(self, percent: int, message: str) -> None: ...


class Supervision:
    """Of one attempt, by one thread."""

    def __init__(
        self,
        core: WorkerCore,
        slot: Slot,
        task: messages.Task,
        control: Control,
        log: LogCapture,
    ) -> None:
        self._slot = slot
        self._worker_id = core.worker_id
        self._task = task
        self._control = control
        self._clock = core.clock
        self._log = log
        self._spark = GuestSpark(core.spark, slot, core.clock)
        self._began = core.clock.monotonic()
        self._base_bytes = 0
        self._stopped_at: float | None = None
        self._signalled_at = 0.0
        self._reason: BaseException | None = None
        """Why the attempt is to stop."""
        self._result: TaskResult | None = None
        self.answer: SensorAnswer | None = None
        """Of a sensor that was evaluated."""

    def run(self) -> TaskResult:
        slot, request = self._slot, self._task.request
        slot.drain(lambda stream, data: None)  # of no task: printed between two tasks
        slot.send(self._task)
        try:
            while self._result is None:
                over = (
                    slot.is_over
                )  # checked before reading: its last messages are still in the socket
                received = slot.listen(POLL_S, self._log.write)
                if received is None or (over and not received):
                    return self._ended()
                for message in received:
                    self._hear(message)
                if self._result is None:
                    self._watch(request)
        finally:
            slot.drain(self._log.write)
            self._spark.leave(killed=self._result is None)
        slot.cpu_ms += self._result.usage.cpu_ms
        return self._result

    def _hear(self, message: messages.FromSlot) -> None:
        match message:
            case messages.Done(result, reusable, answer):
                # A signal may still be pending: another task must not get it.
                self._slot.reusable = reusable and self._stopped_at is None
                self._result, self.answer = result, answer
            case messages.SlotProgress(percent, text):
                self._control.progress(percent, text)
            case messages.LogLine(level, text):
                self._slot.drain(self._log.write)  # what was printed before it
                self._log.line(level, text)
            case messages.SparkRequested():
                self._spark.supply()
            case messages.SparkJoined(tags):
                self._spark.tags = tags
            case messages.SparkDoubted(port):
                self._spark.send_status(port)

    # -- ending ---------------------------------------------------------------------------

    def _watch(self, request: TaskRequest) -> None:
        now = self._clock.monotonic()
        if self._reason is None:
            self._reason = self._why_stop(request, now)
        if self._reason is None:
            if request.memory_mib:
                self._watch_memory(request.memory_mib)
            return
        if self._stopped_at is None:
            self._stopped_at = now
        if now - self._stopped_at >= GRACE_S:
            self._slot.kill()
        elif now - self._signalled_at >= _ASK_AGAIN_S:
            self._signalled_at = now
            late = isinstance(self._reason, TaskTimeout)
            self._slot.signal(TIME_OUT if late else CANCEL)

    def _why_stop(self, request: TaskRequest, now: float) -> BaseException | None:
        """Cancellation comes before the timeout."""
        if self._control.cancelled():
            return Interrupted()
        limit_s = request.timeout_s
        if limit_s and now - self._began >= limit_s + self._spark.start_s(now):
            return TaskTimeout(f"the task took longer than its {limit_s} s")
        return None

    def _watch_memory(self, limit_mib: int) -> None:
        used = self._slot.memory_bytes()
        if not self._base_bytes:
            # Of a process that was just forked, more than this is the task's already.
            self._base_bytes = used if self._slot.cpu_ms else min(used, _FRESH_BYTES)
        if used - self._base_bytes <= limit_mib * _MIB:
            return
        self._reason = failed(
            "user_code",
            "memory.limit",
            f"the task used {(used - self._base_bytes) // _MIB:,} MiB of memory; "
            f"its limit is {limit_mib:,} MiB",
            "raise Resources(memory_mib=), or make the asset do less at once",
        )
        self._slot.kill()  # there is no time for a signal

    # -- a slot that has ended ------------------------------------------------------------

    def _ended(self) -> TaskResult:
        """It closed its socket, or its process ended, without a result."""
        slot, request = self._slot, self._task.request
        slot.wait(_HUNG_UP_S)  # its exit status tells more than that it was killed
        slot.kill()
        slot.wait(ENDED_S)
        slot.drain(self._log.write)
        error = self._reason or self._death()
        info = classify(error, redact=self._log.redact, request=request)
        return failed_result(request, self._worker_id, info, usage=self._usage())

    def _usage(self) -> Usage:
        ended = self._slot.ended
        wall_ms = max(1, round((self._clock.monotonic() - self._began) * 1000))
        if ended is None:
            return Usage(wall_ms=wall_ms)
        cpu_ms = max(0, ended.cpu_ms - self._slot.cpu_ms)
        return Usage(wall_ms=wall_ms, cpu_ms=cpu_ms, peak_memory_kib=ended.peak_kib)

    def _death(self) -> BaseException:
        ended = self._slot.ended
        if ended is None:
            return failed(
                "infrastructure",
                "process.lost",
                "the process that ran the task was lost with the worker's slot host",
                "see the worker's own log",
            )
        status = ended.status
        if status == messages.BROKEN:
            return failed(
                "infrastructure",
                "process.broken",
                "the process that ran the task failed in the worker's own code",
                "see the log of the attempt",
            )
        if status == messages.DESCRIPTORS_LOST:
            return failed(
                "user_code",
                "process.descriptors",
                "the function closed file descriptors that are not its own",
                "close only what it has opened",
            )
        if status >= 0:
            return failed(
                "user_code",
                "process.exit",
                f"the function ended its process, with exit status {status}",
                "return, or raise an error; look for os._exit, also in libraries",
            )
        return _killed(-status)


def _killed(number: int) -> BaseException:
    name = signal_name(number)
    if number == signal.SIGKILL:
        return failed(
            "infrastructure",
            "process.killed",
            f"the process that ran the task was killed ({name}), and not by the worker",
            "the machine may be out of memory: set Resources(memory_mib=), "
            "or give the worker fewer slots",
        )
    return failed(
        "user_code",
        "process.crash",
        f"the process that ran the task crashed ({name})",
        "look for a defect in a native library that the asset uses",
    )
