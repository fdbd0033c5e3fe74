"""One evaluation of a sensor in this process: nothing is recorded or requested."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from arco.app import Workspace
from arco.cli.packaging import discovered
from arco.cli.session import Session
from arco.config import resolve_project
from arco.errors import NotFound
from arco.orchestration.declarations import DeployedSensor, deployed_sensor
from arco.storage.open import open_store, options_of
from arco.storage.port import Store
from arco.tasks.failure import UserCodeRaised, as_user_code
from arco.worker.failures import TaskTimeout, classify
from arco.worker.loader import Loader
from arco.worker.secrets import SecretRegistry
from arco.worker.sensing import Evaluation, open_folder, open_workspace
from servo.contract.sensing import SensorAnswer, SensorCall
from servo.contract.task import CodeRef, ErrorInfo
from servo.discover import refuse
from servo.sensor import SensorContext
from servo.suggest import did_you_mean


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
    answer, error = _evaluate(workspace, folder.resolve(), sensor, call)
    return Trial(sensor_id, sensor, cursor, answer, error)


def _evaluate(
    workspace: Workspace, folder: Path, sensor: DeployedSensor, call: SensorCall
) -> tuple[SensorAnswer | None, ErrorInfo | None]:
    loader = Loader(folder)

    def called(context: SensorContext) -> object:
        code = CodeRef(artifact="", module=sensor.module, name=sensor.variable, root=sensor.root)
        return as_user_code(lambda: loader.sensor(code)(context))

    def open_place() -> Store:
        return _open(workspace, call)

    try:
        with _limited(sensor.timeout_s):
            evaluation = Evaluation(
                call,
                called,
                open_place,
                logger=_logger(call.sensor_id),
                secrets=SecretRegistry().resolve(sensor.secrets),
                clock=workspace.clock,
                tenant=workspace.tenant,
                own_workspace=workspace.name,
            )
            return evaluation.answer(), None
    except (Exception, TaskTimeout) as error:
        raised: BaseException = error.error if isinstance(error, UserCodeRaised) else error
        return None, classify(raised, folder=folder)


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
        raise TaskTimeout(f"the sensor took longer than its {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
