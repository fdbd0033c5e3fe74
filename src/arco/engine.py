"""Everything that runs tasks, in one process: orchestrator, worker and merges."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from arco.app import Workspace
from arco.errors import Error
from arco.machine import machine
from arco.notifications.delivery import Courier
from arco.orchestration import states
from arco.orchestration.limits import Timing
from arco.orchestration.tables import RUNS, RunRow
from arco.storage.outage import Outage
from arco.worker.slots import slot_host

log = logging.getLogger(__name__)


class LocalEngine:
    """Runs what is triggered in a workspace, with a queue in memory."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        slots: int = 4,
        cache: Path | None = None,
        timing: Timing | None = None,
        private: bool = False,
        courier: Courier | None = None,
        drain_s: float = 30.0,
    ) -> None:
        """A private one serves only runs that are triggered for its id. With a `courier` it sends
        notifications. Tasks may take `drain_s` seconds after it is told to stop."""
        slot_host().start()  # which takes longer than to plan
        self.workspace = workspace
        timing = timing or Timing()
        self._stop = threading.Event()
        self._stop_worker = threading.Event()
        self._ended = threading.Event()
        self._failed: BaseException | None = None
        self._temporary = None if cache else tempfile.TemporaryDirectory(prefix="servo-")
        folder = cache or Path(self._temporary.name if self._temporary else "")
        runtime = workspace.runtime
        reports, queue = runtime.reports(timing), runtime.memory_queue(timing)
        self._reports = reports
        signer = runtime.signer()
        worker_id = f"local-{workspace.ids().lower()}"
        self.id = worker_id if private else ""
        self.worker = runtime.worker(
            worker_id,
            queue,
            reports,
            signer,
            folder,
            slots=slots,
            memory_mib=machine().memory_bytes >> 20,
            timing=timing,
            drain_s=drain_s,
            beats_always=private,
        )
        self.orchestrator = runtime.orchestrator(
            queue,
            reports,
            signer,
            timing=timing,
            courier=courier,
            engine_id=self.id,
            slots=slots,
            interrupt=self.worker.interrupt,
            on_board=lambda board: self._tell(),
        )
        self._changed = threading.Condition()
        self._seen = 0
        self._reading = Outage(workspace.clock, "run")
        self._threads: list[threading.Thread] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[LocalEngine]:
        """Run on separate threads until the block ends; then finish running tasks."""
        targets = {
            "orchestrator": lambda: self.orchestrator.run(self._stop),
            "worker": lambda: self.worker.run(self._stop_worker),
            "merger": lambda: self.workspace.upkeep.merge_loop().run(self._stop),
        }
        self.workspace.writer.publisher.cleanup.start()
        self.workspace.runtime.warm_spark()  # which takes longer than to plan
        for name, target in targets.items():
            thread = threading.Thread(target=self._guard, args=(target,), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        self._stop_worker.set()
        if self._failed is not None:
            # The orchestrator, which appends the worker's reports, may have failed.
            threading.Thread(
                target=self._reports.run, args=(self._ended,), name="reports", daemon=True
            ).start()
        for thread in self._threads:
            if thread.name == "worker":
                thread.join()
        self._stop.set()
        self.workspace.writer.signal.wake()
        for thread in self._threads:
            thread.join()
        self._ended.set()
        self._tell()
        if left := self.worker.unreported():
            log.error("the store did not accept the results of %s", ", ".join(left[:10]))
        self.workspace.writer.publisher.cleanup.finish()
        if self._temporary is not None:
            self._temporary.cleanup()
        if self._failed is not None:
            raise self._failed

    def _guard(self, target: object) -> None:
        assert callable(target)
        try:
            target()
        except BaseException as error:
            self._failed = error
            self._stop.set()
            self._stop_worker.set()
            self._tell()

    def _raise_if_failed(self) -> None:
        if self._failed is not None:
            raise Error(
                f"the engine stopped: {self._failed}",
                hint="fix the cause, then continue the run with `servo runs resume`",
            ) from self._failed

    @property
    def _stopped(self) -> bool:
        return self._failed is not None or self._ended.is_set()

    def _tell(self) -> None:
        with self._changed:
            self._seen += 1
            self._changed.notify_all()

    def wait_for_change(self, timeout_s: float) -> None:
        """Until the board changes, or some time has passed."""
        self._changed_or(timeout_s)
        self._raise_if_failed()

    def _changed_or(self, timeout_s: float) -> None:
        with self._changed:
            seen = self._seen
            self._changed.wait_for(lambda: self._seen != seen, timeout_s)

    def _row(self, run_id: str) -> RunRow | None:
        """A run; None while the store fails."""
        try:
            row = self.workspace.read.snapshot().get(RUNS, run_id)
        except Error as error:
            self._changed_or(self._reading.failed(error))
            return None
        self._reading.passed()
        return row

    def wait(self, run_id: str, *, poll_s: float = 0.5) -> RunRow:
        """Until a run has ended; its row."""
        while True:
            with self._changed:
                while run_id in self.orchestrator.board.runs and not self._stopped:
                    self._changed.wait(poll_s)
            self._raise_if_failed()
            stopped = self._stopped
            row = self._row(run_id)
            if row is not None and row.state not in states.RUN_ACTIVE:
                return row
            if stopped:
                raise Error(
                    f"the engine was stopped before run {run_id} had ended",
                    hint="the run continues when an orchestrator and a worker are running",
                )
            self.wait_for_change(poll_s)
