"""One evaluation of a sensor on this machine: nothing is recorded or requested.

The function runs in a process of its own, without keys and without the credentials of the store, as
in a worker: if it exits, crashes or freezes, the trial has failed, and says how.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import msgspec

from arco.app import Workspace
from arco.cli.packaging import discovered
from arco.cli.session import Session
from arco.config import resolve_project
from arco.errors import NotFound
from arco.orchestration.declarations import DeployedSensor, deployed_sensor
from arco.storage.open import open_store, options_of
from arco.storage.port import Store
from arco.tasks import private
from arco.tasks.failure import UserCodeRaised, as_user_code
from arco.worker.child_process import ChildAnswers, ChildEnded, ChildProcess
from arco.worker.failures import TaskTimeout, classify, failed
from arco.worker.loader import Loader
from arco.worker.secrets import SecretRegistry
from arco.worker.sensing import Evaluation, open_folder, open_workspace
from servo.contract.sensing import SensorAnswer, SensorCall
from servo.contract.task import CodeRef, ErrorInfo
from servo.discover import refuse
from servo.sensor import SensorContext
from servo.suggest import did_you_mean

START_S: Final = 60.0
"""How long the process may take to start; then it sends an empty message."""
GRACE_S: Final = 2.0
"""A function that has not stopped this long after its timeout is killed."""


class Evaluated(msgspec.Struct, frozen=True):
    answer: SensorAnswer | None
    error: ErrorInfo | None


class Trial(NamedTuple):
    sensor_id: str
    sensor: DeployedSensor
    cursor: str
    """Where it started from."""
    answer: SensorAnswer | None
    error: ErrorInfo | None


def try_sensor(
    session: Session,
    workspace: Workspace,
    folder: Path,
    name: str,
    *,
    cursor: str | None,
    message_id: str,
    payload: str,
) -> Trial:
    """Evaluate a sensor of the project in a folder, from the workspace's cursor or a given one."""
    project = resolve_project(folder.resolve())
    content = discovered(session, folder)
    refuse(content.problems)
    assert content.manifest is not None  # there are no problems
    manifest = content.manifest
    declared = {each.name: each for each in manifest.sensors}
    name = name.removeprefix(f"{project}/")
    if name not in declared:
        hint = did_you_mean(name, declared) or "see `servo validate`"
        raise NotFound(f"the project {project} in {folder} has no sensor {name!r}", hint=hint)
    sensor = deployed_sensor(declared[name], manifest.root)
    sensor_id = f"{project}/{name}"
    if cursor is None:
        rows = {row.sensor_id: row for row in workspace.read.sensors().sensors(removed=True)}
        cursor = rows[sensor_id].cursor if sensor_id in rows else ""
    call = SensorCall(
        sensor_id=sensor_id,
        name=name,
        kind=sensor.type,
        number=0,
        cursor=cursor,
        has_function=sensor.has_function,
        message_id=message_id,
        payload=payload,
        url=sensor.url,
        pattern=sensor.pattern,
        existing=sensor.existing,
        asset=sensor.asset,
        workspace=sensor.workspace,
    )
    if sensor.type == "webhook" and not sensor.has_function:
        return Trial(sensor_id, sensor, cursor, SensorAnswer(), None)
    evaluated = _evaluated(_Instruction(session, str(folder.resolve()), sensor, call))
    return Trial(sensor_id, sensor, cursor, evaluated.answer, evaluated.error)


class _Instruction(msgspec.Struct, frozen=True):
    session: Session
    folder: str
    sensor: DeployedSensor
    call: SensorCall


def _evaluated(instruction: _Instruction) -> Evaluated:
    text, timeout_s = msgspec.json.encode(instruction).decode(), instruction.sensor.timeout_s
    with ChildProcess(__name__, "evaluate_apart", text, os.environ) as child:
        try:
            if child.receive(START_S) is None:
                error: BaseException = failed(
                    "infrastructure",
                    "process.start",
                    f"the process of the function did not start within {START_S:.0f} s",
                    "try again when the machine is less busy",
                )
            elif line := child.receive(timeout_s + GRACE_S):
                return msgspec.json.decode(line, type=Evaluated)
            else:
                error = TaskTimeout(_late(timeout_s))
        except ChildEnded as ended:
            error = _death(ended)
    return Evaluated(None, classify(error, folder=Path(instruction.folder)))


def _death(ended: ChildEnded) -> BaseException:
    if ended.code is None:
        code, hint = "process.descriptors", "close only what it has opened"
    elif ended.code < 0:
        code, hint = "process.crash", "look for a defect in a native library that it uses"
    else:
        code, hint = "process.exit", "return, or raise an error; look for os._exit"
    return failed("user_code", code, f"the process of the function {ended}", hint)


def evaluate_apart(answers: ChildAnswers, text: str) -> None:
    """Evaluate a sensor, answer, and end this process. An empty line comes before user code."""
    instruction = msgspec.json.decode(text, type=_Instruction)
    folder = Path(instruction.folder)
    try:
        workspace = instruction.session.open()
        secrets = SecretRegistry().resolve(instruction.sensor.secrets)
    except Exception as error:
        answers.send(b"")
        answers.end(msgspec.json.encode(Evaluated(None, classify(error, folder=folder))))
    visible, credentials = private.of_slot(os.environ, workspace.store.url, ())
    os.environ.clear()
    os.environ.update(visible)
    answers.send(b"")
    evaluated = _evaluate(workspace, instruction, secrets, credentials)
    try:
        line = msgspec.json.encode(evaluated)
    except UnicodeEncodeError as error:  # a cursor or a key that is not Unicode
        line = msgspec.json.encode(Evaluated(None, classify(error, folder=folder)))
    answers.end(line)


def _evaluate(
    workspace: Workspace,
    instruction: _Instruction,
    secrets: Mapping[str, str],
    credentials: Mapping[str, str],
) -> Evaluated:
    folder, sensor, call = Path(instruction.folder), instruction.sensor, instruction.call
    loader = Loader(folder)

    def called(context: SensorContext) -> object:
        code = CodeRef(artifact="", module=sensor.module, name=sensor.variable, root=sensor.root)
        return as_user_code(lambda: loader.sensor(code)(context))

    def open_place() -> Store:
        with private.exposed(credentials):
            return _open(workspace, call)

    try:
        with _limited(sensor.timeout_s):
            evaluation = Evaluation(
                call,
                called,
                open_place,
                logger=_logger(call.sensor_id),
                secrets=secrets,
                clock=workspace.clock,
                tenant=workspace.tenant,
                own_workspace=workspace.name,
            )
            return Evaluated(evaluation.answer(), None)
    except (Exception, TaskTimeout) as error:
        raised: BaseException = error.error if isinstance(error, UserCodeRaised) else error
        return Evaluated(None, classify(raised, folder=folder))


def _open(workspace: Workspace, call: SensorCall) -> Store:
    own = workspace.store

    def open_like_own(url: str) -> Store:
        same = url.partition("://")[0] == own.url.partition("://")[0]
        return open_store(url, **(options_of(own) if same else {}))

    if call.kind == "files":
        return open_folder(call.url, open_like_own)
    if call.workspace in ("", workspace.name):
        return own
    base = own.url.removesuffix(f"/{workspace.name}")
    return open_workspace(f"{base}/{call.workspace}", open_like_own)


def _logger(name: str) -> logging.Logger:
    logger = logging.Logger(name, logging.INFO)
    logger.addHandler(logging.StreamHandler(sys.stderr))
    return logger


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise TaskTimeout after this many seconds."""

    def end(number: int, frame: FrameType | None) -> None:
        raise TaskTimeout(_late(seconds))

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _late(seconds: int) -> str:
    return f"the sensor took longer than its {seconds} s"
