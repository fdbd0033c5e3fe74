"""`servo sensors`: sensors and their evaluations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from arco.cli import deferral
from arco.cli.options import Reason, argument, command, flag, group, option

if deferral.LOADED:
    from arco.app import Workspace
    from arco.automation.sensor_evaluations import definition_of, request_key
    from arco.automation.sensor_tables import (
        SensorEvaluationRow,
        SensorMessageRow,
        SensorRow,
        SensorStatus,
    )
    from arco.cli import render
    from arco.cli.exit_codes import DIFFERENT
    from arco.cli.sensor_evaluations import last_evaluated, turn_text, turn_without_effect
    from arco.cli.sensor_trial import Trial, try_sensor
    from arco.cli.session import Session
    from arco.dispatch.sensor_waiting import untaken
    from arco.errors import Invalid
    from arco.orchestration.declarations import DeployedSensor

app = group("sensors", "Show, test, pause and reset sensors; push messages.")

Name = Annotated[str, argument("SENSOR", "The name of a sensor, or project/name.")]
PayloadFile = Annotated[
    Path | None, option("FILE", "The message's payload; - for standard input.", "--payload")
]
SHOWN_CHARS = 60


@command(app, "list", example="servo sensors list", takes=["at"])
def list_(
    session: Session,
    removed: Annotated[
        bool, flag("--removed", "Include sensors that were removed from their project.")
    ] = False,
) -> None:
    """List sensors with their state and their last evaluation.

    Evaluations without effect are not recorded in the log: with --generation or --as-of only
    recorded evaluations are shown.
    """
    workspace = session.open()
    reader = workspace.read.sensors(session.at())
    rows = reader.sensors(removed=removed)
    waiting = _waiting(session, workspace, rows)
    evaluated = last_evaluated(session, workspace, rows)
    if session.json:
        sensors = [
            _plain(row)
            | {"waiting": waiting.get(row.sensor_id), "evaluated_at": evaluated[row.sensor_id]}
            for row in rows
        ]
        render.document({"generation": reader.snapshot.generation, "sensors": sensors})
        return
    if not rows:
        render.say("there are no sensors; declare one with servo.sensor(), and deploy it")
        return
    headers = ("sensor", "kind", "status", "evaluated", "what", "message")
    lines = [
        (
            row.sensor_id,
            row.kind,
            row.status,
            evaluated[row.sensor_id],
            " ".join(row.selection),
            waiting.get(row.sensor_id) or row.error or row.skip_reason or None,
        )
        for row in rows
    ]
    render.show_table(headers, lines, whole=("sensor", "kind", "status", "evaluated"))


@command(
    app,
    "show",
    example="servo sensors show new_orders --limit 50\nservo sensors show new_orders --log 12",
    takes=["at"],
)
def show(
    session: Session,
    sensor: Name,
    limit: Annotated[int, option("N", "Show at most N evaluations.", min=1)] = 20,
    log: Annotated[int | None, option("NUMBER", "Print the log of this evaluation.")] = None,
) -> None:
    """Show a sensor, its recorded evaluations, and waiting messages.

    An evaluation is REQUESTED (it requested runs), SKIPPED (it requested none) or FAILED (it
    changed nothing). Merged requests have a key that was used before. Evaluations that found
    nothing new are not recorded; only the last of them is shown.
    """
    workspace = session.open()
    reader = workspace.read.sensors(session.at())
    row = reader.sensor(sensor)
    if log is not None:
        _show_log(session, workspace, reader.evaluation(row, log))
        return
    evaluations, messages = reader.evaluations(row, limit), reader.undone(row, limit)
    waiting = _waiting(session, workspace, [row]).get(row.sensor_id)
    turn = None if session.at() else turn_without_effect(workspace, row)
    if session.json:
        document = {"generation": reader.snapshot.generation, **_plain(row), "waiting": waiting}
        document["evaluated_at"] = row.last_evaluation_at if turn is None else turn.at
        document["nothing_new"] = None if turn is None else turn.turn
        render.document(document | {"evaluations": evaluations, "messages": messages})
        return
    definition = definition_of(row)
    render.show_fields(
        {
            "sensor": row.sensor_id,
            "kind": row.kind,
            "status": _status(row),
            "error": _with_hint(row.error, row.hint) or None,
            "waiting": waiting,
            "skip reason": row.skip_reason or None,
            "watches": _watched(definition) or None,
            "selection": " ".join(row.selection),
            "interval": None if row.kind == "webhook" else f"{row.interval_s} s",
            "timeout": f"{definition.timeout_s} s",
            "cursor": _shortened(row.cursor) or None,
            "messages waiting": row.waiting or None,
            "last recorded": row.last_evaluation_at,
            "nothing new": None if turn is None else turn_text(turn),
        }
    )
    if evaluations:
        _show_evaluations(evaluations)
    if messages:
        _show_messages(messages)


def _waiting(session: Session, workspace: Workspace, rows: Sequence[SensorRow]) -> dict[str, str]:
    """Only for the newest generation: the queue at an earlier one is unknown."""
    return {} if session.at() else untaken(workspace.store, rows, workspace.clock.now())


def _show_evaluations(evaluations: list[SensorEvaluationRow]) -> None:
    headers = ("number", "state", "requests", "merged", "refused", "recorded", "log", "why")
    lines = [
        (
            e.number,
            e.state,
            e.requests or None,
            e.merged or None,
            e.refused or None,
            e.evaluated_at,
            "yes" if e.log else None,
            _with_hint(e.reason, e.hint) or ", ".join(e.request_keys[:3]) or None,
        )
        for e in evaluations
    ]
    render.show_table(headers, lines, whole=("number", "state", "recorded"), title="evaluations")


def _show_messages(messages: list[SensorMessageRow]) -> None:
    headers = ("message", "state", "pushed", "attempts", "error")
    lines = [
        (m.message_id, m.state, m.pushed_at, m.attempts or None, m.error or None) for m in messages
    ]
    render.show_table(headers, lines, whole=("message", "state", "pushed"), title="messages")


def _show_log(session: Session, workspace: Workspace, row: SensorEvaluationRow) -> None:
    parts = [] if not row.log else [meta.path for meta in workspace.store.list(f"{row.log}.")]
    text = b"".join(workspace.store.get(path).data for path in parts).decode("utf-8", "replace")
    if session.json:
        fields = {"sensor_id": row.sensor_id, "number": row.number}
        render.document({**fields, "log": text})
    elif not text:
        render.say("the log is empty")
    else:
        for line in text.splitlines():
            render.say(line)


@command(
    app,
    "pause",
    example="servo sensors pause new_orders --reason 'source is down'",
    takes=["actor"],
)
def pause(session: Session, sensor: Name, reason: Reason = "") -> None:
    """Pause a sensor: it is not evaluated until it is resumed. A deployment does not resume it.

    Messages that are pushed to it wait until then.
    """
    workspace = session.open()
    workspace.commands.sensors.pause(sensor, reason=reason)
    _answer(session, workspace, sensor)


@command(app, "resume", example="servo sensors resume new_orders", takes=["actor"])
def resume(session: Session, sensor: Name) -> None:
    """Resume a sensor. It continues from its cursor."""
    workspace = session.open()
    workspace.commands.sensors.resume(sensor)
    _answer(session, workspace, sensor)


@command(
    app,
    "reset",
    example="servo sensors reset new_orders\nservo sensors reset new_orders --cursor 2026-01-31",
    takes=["actor"],
)
def reset(
    session: Session,
    sensor: Name,
    cursor: Annotated[str, option("TEXT", "The new cursor; empty by default.")] = "",
    reason: Reason = "",
) -> None:
    """Clear the cursor of a sensor, or set it. The result of a running evaluation is discarded.

    Requests whose key was used before are merged, and start no second run.
    """
    workspace = session.open()
    workspace.commands.sensors.reset(sensor, cursor=cursor, reason=reason)
    _answer(session, workspace, sensor)


@command(
    app,
    "push",
    example="servo sensors push orders_pushed --id 4711 --payload order.json",
    takes=["actor"],
)
def push(
    session: Session,
    sensor: Name,
    id: Annotated[str, option("ID", "The id of the message; each id is processed once.", "--id")],
    payload: PayloadFile = None,
) -> None:
    """Push a message to a webhook sensor."""
    workspace = session.open()
    pushed = workspace.commands.sensors.push(sensor, id, _payload(payload))
    if session.json:
        render.document(pushed._asdict())
    elif pushed.is_repeated:
        render.say(f"message {id} was pushed to {pushed.sensor_id} before; nothing has changed")
    else:
        render.say(f"message {id} is {pushed.state}; see servo sensors show {pushed.sensor_id}")


@command(
    app,
    "test",
    example="servo sensors test new_orders\nservo sensors test new_orders --cursor 2026-01-31",
)
def test(
    session: Session,
    sensor: Name,
    project: Annotated[
        Path, option("DIR", "The project's folder.", "--project", show_default=False)
    ] = Path(),
    cursor: Annotated[
        str | None, option("TEXT", "Start from this cursor; default: the cursor in the workspace.")
    ] = None,
    id: Annotated[
        str, option("ID", "For a webhook sensor: the id of the message.", "--id")
    ] = "test",
    payload: PayloadFile = None,
) -> None:
    """Evaluate a sensor of this folder on this machine, and show its result. Changes nothing."""
    workspace = session.open()
    trial = try_sensor(
        session, workspace, project, sensor, cursor=cursor, message_id=id, payload=_payload(payload)
    )
    if payload is None and trial.error is not None and trial.sensor.type == "webhook":
        render.note("the message was empty; give it a body with --payload FILE")
    if session.json:
        fields = {"sensor_id": trial.sensor_id, "kind": trial.sensor.type, "cursor": trial.cursor}
        render.document({**fields, "answer": trial.answer, "error": trial.error})
    else:
        _show_trial(trial, id)
    if trial.error is not None:
        raise typer.Exit(DIFFERENT)


def _show_trial(trial: Trial, message_id: str) -> None:
    error, answer = trial.error, trial.answer
    if error is not None or answer is None:
        assert error is not None
        if error.traceback:
            render.say(error.traceback.rstrip())
        render.say(f"{trial.sensor_id} fails: {_with_hint(error.message, error.hint)}", "bold red")
        return
    runs = answer.runs
    if trial.sensor.type == "webhook" and not trial.sensor.has_function:
        key = request_key(trial.sensor_id, message_id)
        render.say(f"a message asks for one run; this one has the key {key}")
        return
    render.show_fields(
        {
            "sensor": trial.sensor_id,
            "cursor": _shortened(trial.cursor) or None,
            "next cursor": _next_cursor(answer.cursor),
            "would request": render.count(len(runs), "run"),
            "skip reason": answer.skip_reason or None,
            "partition keys": msgspec.json.encode(answer.keys).decode() if answer.keys else None,
            "more": "yes: it is evaluated again immediately" if answer.more else None,
        }
    )
    if runs:
        lines = [
            (
                run.key,
                " ".join(run.partitions) or None,
                render.pairs({k: str(v) for k, v in run.config.items()}),
            )
            for run in runs[:20]
        ]
        render.show_table(("key", "partitions", "config"), lines)
        if len(runs) > len(lines):
            render.note(f"{len(runs) - len(lines):,} more")


def _next_cursor(cursor: str | None) -> str:
    if cursor is None:
        return "as it is"
    return _shortened(cursor) or "empty"


def _payload(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return raw.decode()
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Invalid(
            f"{file} is not text in UTF-8", hint="store it, and push a reference to it"
        ) from None


def _answer(session: Session, workspace: Workspace, sensor: str) -> None:
    row = workspace.read.sensors().sensor(sensor)
    if session.json:
        render.document(_plain(row))
    else:
        render.say(f"{row.sensor_id} is {_status(row)}; its cursor is {_next_cursor(row.cursor)}")


def _status(row: SensorRow) -> str:
    if row.status != SensorStatus.PAUSED:
        return str(row.status)
    reason = f": {row.pause_reason}" if row.pause_reason else ""
    return f"{row.status} by {row.paused_by or '–'}{reason}"


def _watched(sensor: DeployedSensor) -> str:
    if sensor.type == "files":
        return f"{sensor.url}/{sensor.pattern or '*'}"
    workspace = f" in workspace {sensor.workspace}" if sensor.workspace else ""
    return f"{sensor.asset}{workspace}"


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text):,} characters)"


def _with_hint(text: str, hint: str) -> str:
    return f"{text} ({hint})" if hint else text


def _plain(row: SensorRow) -> dict[str, Any]:
    fields: dict[str, Any] = render.plain(row)
    return {**fields, "definition": msgspec.json.decode(row.definition)}
