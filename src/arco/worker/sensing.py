"""The evaluation of a sensor, within a slot: what it observes, its function, and its answer.

    look (files, versions) ─► function ─► answer, checked

If one part of an answer is invalid, the evaluation has failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from arco.clock import Clock
from arco.storage.http import HttpStore
from arco.storage.port import Store
from arco.tasks.failure import UserCodeRaised, as_user_code
from arco.worker import sensor_files, sensor_versions
from arco.worker.attempt import Assignment
from arco.worker.failures import TaskTimeout, classify, failed
from arco.worker.recordable import result_of
from arco.worker.usage import Meter
from servo.contract.sensing import SensorAnswer, SensorCall, SensorRun, check_answer
from servo.contract.task import TaskResult
from servo.errors import Invalid
from servo.sensor import RunRequest, SensorContext, SensorResult


class SensorAttempt:
    """Runs once, in the main thread."""

    def __init__(self, assignment: Assignment) -> None:
        self._shared, self._request, self._stopping, self._loader, self._secrets = assignment
        self._redact = assignment.redact
        self._meter = Meter(assignment.shared.clock)

    def run(self) -> tuple[TaskResult, SensorAnswer | None]:
        answer: SensorAnswer | None = None
        outcome, info = "succeeded", None
        try:
            answer = self._evaluate()
        except (Exception, TaskTimeout) as error:
            raised: BaseException = error.error if isinstance(error, UserCodeRaised) else error
            reason = self._stopping.reason()
            if reason is not None:
                raised = reason.with_traceback(raised.__traceback__)
            folder = self._loader.folder
            info = classify(raised, redact=self._redact, folder=folder, request=self._request)
            outcome = "cancelled" if info.category == "cancelled" else "failed"
        result = result_of(
            self._request,
            self._shared.worker_id,
            outcome=outcome,
            error=info,
            usage=self._meter.usage(),
        )
        return result, answer

    def _evaluate(self) -> SensorAnswer:
        call = self._request.sensor
        assert call is not None  # or this would be a task
        self._stopping.check()
        process = self._shared.process

        def called(context: SensorContext) -> object:
            code = self._request.code
            function = as_user_code(lambda: self._loader.sensor(code))
            process.loaded()
            try:
                return as_user_code(lambda: self._stopping.call(lambda: function(context)))
            finally:
                process.called()

        evaluation = Evaluation(
            call,
            called,
            lambda: self._open(call),
            logger=process.logger(self._request.asset),
            secrets=self._secrets,
            clock=self._shared.clock,
            tenant=self._request.tenant_id,
            own_workspace=self._request.workspace_id,
        )
        answer = evaluation.answer()
        text = msgspec.json.encode(answer).decode()
        if self._redact(text) != text:
            raise failed(
                "user_code",
                "sensor.secret",
                f"the result of {call.name} holds a secret",
                "leave it out of cursor, keys and config: they are stored in the log",
            )
        return answer

    def _open(self, call: SensorCall) -> Store:
        if call.kind == "files":
            return open_folder(call.url, self._shared.open_store)
        if call.workspace in ("", self._request.workspace_id):
            return self._shared.store
        check_reads_others(self._shared.store, call)
        base = self._shared.store.url.removesuffix(f"/{self._request.workspace_id}")
        return open_workspace(f"{base}/{call.workspace}", self._shared.open_store)


def check_reads_others(store: Store, call: SensorCall) -> None:
    """Raises TaskFailed at a worker of the API: its server has access to its own workspace only."""
    if isinstance(store, HttpStore):
        raise failed(
            "configuration",
            "sensor.needs_store",
            f"{call.name} waits for versions of {call.asset} in the workspace {call.workspace}, "
            "and this worker has no access to the tables of another workspace",
            "run a worker with access to the store beside those with --api",
        )


def open_workspace(url: str, open_store: Callable[[str], Store]) -> Store:
    scheme, _, path = url.partition("://")
    if scheme == "file" and not Path(path).is_dir():
        raise failed(
            "configuration",
            "sensor.workspace",
            f"there is no workspace {path.rpartition('/')[2]}",
            "check its name; it must be of the same tenant, in the same store",
        )
    return open_store(url)


def open_folder(url: str, open_store: Callable[[str], Store]) -> Store:
    scheme, separator, path = url.partition("://")
    if not separator or scheme == "file":
        folder = path if separator else url
        if not Path(folder).is_dir():
            raise failed(
                "configuration",
                "sensor.url",
                f"there is no folder {folder} on this machine",
                "workers do not share this machine's disk: use an object store, or mount it",
            )
    return open_store(url)


class Evaluation:
    """One evaluation of a sensor: what it observes, and its answer."""

    def __init__(
        self,
        call: SensorCall,
        function: Callable[[SensorContext], object],
        open_place: Callable[[], Store],
        *,
        logger: logging.Logger,
        secrets: Mapping[str, str],
        clock: Clock,
        tenant: str,
        own_workspace: str,
    ) -> None:
        """`open_place` opens the store that a sensor of files or of an asset observes."""
        self._call = call
        self._function = function
        self._open = open_place
        self._logger = logger
        self._secrets = secrets
        self._clock = clock
        self._tenant = tenant
        self._workspace = call.workspace or own_workspace

    def answer(self) -> SensorAnswer:
        match self._call.kind:
            case "files":
                answer = self._of_files()
            case "asset":
                answer = self._of_asset()
            case _:
                answer = self._called()
        try:
            check_answer(answer)
        except Invalid as error:
            raise failed("user_code", "sensor.result", error.message, error.hint) from None
        return answer

    def _of_files(self) -> SensorAnswer:
        call = self._call
        try:
            new = sensor_files.new_files(
                self._open(), call.cursor, pattern=call.pattern, existing=call.existing
            )
        except (ValueError, msgspec.MsgspecError):
            raise self._strange_cursor() from None
        cursor = None if new.cursor == call.cursor else new.cursor
        if not new.files:
            return SensorAnswer(cursor=cursor)
        own = SensorAnswer(
            cursor=cursor, runs=(SensorRun(sensor_files.request_key(new.files)),), more=new.more
        )
        return self._called(own, files=new.files) if call.has_function else own

    def _of_asset(self) -> SensorAnswer:
        call = self._call
        try:
            new = sensor_versions.looked_at(
                self._open(),
                self._tenant,
                self._workspace,
                self._clock,
                call.asset,
                call.cursor,
            )
        except ValueError:
            raise self._strange_cursor() from None
        if not new.versions:
            return SensorAnswer(cursor=new.cursor)
        own = SensorAnswer(
            cursor=new.cursor,
            runs=(SensorRun(sensor_versions.request_key(new.versions)),),
            more=new.more,
        )
        versions = sensor_versions.of_context(new.versions)
        return self._called(own, versions=versions) if call.has_function else own

    def _strange_cursor(self) -> Exception:
        return failed(
            "configuration",
            "sensor.cursor",
            f"the cursor of {self._call.sensor_id} is not one of a sensor of this kind",
            "clear it: servo sensors reset",
        )

    def _called(self, own: SensorAnswer | None = None, **seen: Any) -> SensorAnswer:
        """The function's answer; `own` has the cursor of a sensor of files or assets."""
        call = self._call
        context = SensorContext(
            cursor="" if own is not None else call.cursor,
            log=self._logger,
            payload=call.payload,
            message_id=call.message_id,
            secrets=self._secrets,
            **seen,
        )
        answer = answer_from(self._function(context), call.name)
        if own is None:
            return answer
        if answer.cursor is not None:
            raise failed(
                "user_code",
                "sensor.result",
                f"{call.name} returned a cursor; a sensor of kind {call.kind} keeps its own",
                "leave the cursor out",
            )
        return msgspec.structs.replace(answer, cursor=own.cursor, more=own.more or answer.more)


def answer_from(result: object, name: str) -> SensorAnswer:
    """What a function returned, as data; TaskFailed if it is no result."""
    hint = "return SensorResult(cursor=..., runs=[RunRequest(key=...)])"
    if not isinstance(result, SensorResult):
        text = "nothing" if result is None else f"a {type(result).__name__}"
        raise failed("user_code", "sensor.result", f"{name} returned {text}", hint)
    try:
        runs = tuple([_run(each) for each in result.runs])
        keys = {name: tuple(values) for name, values in dict(result.keys).items()}
        answer = SensorAnswer(
            cursor=result.cursor,
            runs=runs,
            keys=keys,
            skip_reason=result.skip_reason,
            more=result.more,
        )
        return msgspec.convert(msgspec.to_builtins(answer), SensorAnswer, strict=True)
    except (TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        text = f"{name} returned a result that is not valid: {error}"
        raise failed("user_code", "sensor.result", text, hint) from None


def _run(request: object) -> SensorRun:
    if not isinstance(request, RunRequest):
        raise TypeError(f"runs has a {type(request).__name__}, not a RunRequest")
    given = request.partitions
    ranges = (given,) if isinstance(given, str) else tuple(given)
    partitions = tuple([text for text in ranges if text])
    return SensorRun(request.key, partitions, dict(request.config), bool(request.force))
