"""The supervision of one attempt: what a slot says is heard, also what it said last."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from arco.clock import SystemClock
from arco.storage.memory import MemoryStore
from arco.worker import slot_messages as messages
from arco.worker.capture import LogCapture
from arco.worker.secrets import Redactor
from arco.worker.slots import Slot, SlotHost
from arco.worker.supervise import Supervision
from servo.contract.identity import attempt_id
from servo.contract.task import CodeRef, TaskRequest, TaskResult
from tests.kit.bench import NoControl, worker_core

REQUEST = TaskRequest(
    tenant_id="acme",
    workspace_id="prod",
    run_id="r1",
    task_id="t1",
    plan_id="p1",
    attempt=1,
    attempt_id=attempt_id("r1", "t1", 1),
    asset="sales.f",
    asset_id="01J00000000000000000000000",
    code=CodeRef(artifact="a", module="assets", name="f"),
    output="data/sales/f/_",
    fingerprint="fp",
)
RESULT = TaskResult(
    run_id="r1",
    task_id="t1",
    attempt=1,
    attempt_id=REQUEST.attempt_id,
    outcome="succeeded",
    worker_id="w1",
)


class EndsJustAfterItWasHeard(Slot):
    """A process that says its last words, and ends, when the supervisor has just looked."""

    def __init__(self, connection: socket.socket, theirs: socket.socket) -> None:
        self._pipes = os.pipe(), os.pipe()
        outputs = self._pipes[0][0], self._pipes[1][0]
        super().__init__(1, "a", SlotHost(), messages.Frames(connection), outputs)
        self._process = messages.Frames(theirs)

    def listen(
        self, timeout_s: float, on_output: Callable[[str, bytes], None]
    ) -> list[messages.FromSlot] | None:
        received = super().listen(0.0, on_output)
        if not self.is_over:
            self._process.send(messages.LogLine("INFO", "last words"))
            self._process.send(messages.Done(RESULT, reusable=False))
            self.end(messages.Ended(1, 0, 10, 1000))
        return received

    def close(self) -> None:
        super().close()
        for _, written in self._pipes:
            os.close(written)


def test_what_a_slot_said_before_it_ended_is_heard() -> None:
    ours, theirs = socket.socketpair()
    slot = EndsJustAfterItWasHeard(ours, theirs)
    store = MemoryStore(SystemClock())
    core = worker_core(store, "w1")
    log = LogCapture(store, "log", core.clock, Redactor())
    task = messages.Task(REQUEST, "")
    try:
        result = Supervision(core, slot, task, NoControl(), log).run()
    finally:
        slot.close()
        theirs.close()
    log.close("succeeded")
    assert result == RESULT
    lines = b"".join(store.get(meta.path).data for meta in store.list("log."))
    assert [line.split(maxsplit=1)[1] for line in lines.decode().splitlines()] == [
        "INFO    last words",
        "END     succeeded",
    ]
