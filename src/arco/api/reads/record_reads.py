"""What was recorded: what went into outputs, runs as OpenLineage, imports, pins, advice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.page_tokens import PageKey
from arco.api.reads.answers import RecommendationBody, answers_of
from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.reads.operations import require_everything
from arco.api.reads.run_reads import RunId
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.run_visibility import require_run
from arco.api.views import View
from arco.errors import NotFound
from arco.imports.reader import ImportReader
from arco.imports.tables import ImportRow
from arco.ingest.reader import IngestReader
from arco.notifications.message import message_of
from arco.notifications.reader import NotificationReader
from arco.notifications.tables import NotificationRow
from arco.openlineage.export import queries_of, snapshot_at_end, task_runs
from arco.openlineage.spec import Location, TaskRun, events_of
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.input_lists import read_versions
from arco.orchestration.reader import OrchestrationReader
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.state.pins import read_pins
from arco.state.snapshot import At, Snapshot

MAX_INPUTS = 10_000


# -- lineage ----------------------------------------------------------------------------------


class InputsParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    materialization_id: Annotated[
        str, Meta(max_length=64, description="The output; empty: the newest.")
    ] = ""


class InputVersion(msgspec.Struct, frozen=True, kw_only=True):
    partition: str
    materialization_id: str


class ReadInput(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    count: int
    """How many versions of it went into the output."""
    versions: list[InputVersion]
    complete: bool
    """Whether all of them are listed."""


class InputsBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    materialization_id: str
    run_id: str
    inputs: list[ReadInput]
    hidden: int
    """Inputs that the caller does not see."""


def list_inputs(view: View, visible: Visible, parameters: InputsParameters) -> InputsBody:
    """List the input versions of an output."""
    asset_id_of(view, visible, parameters.asset)
    reader = lineage_reader(view.snapshot)
    rows = reader.inputs_of(parameters.asset, parameters.materialization_id)
    inputs: list[ReadInput] = []
    for row in rows:
        if not visible.sees_asset(row.source):
            continue
        read_in = read_versions(view.store, row)
        versions = read_in.versions
        inputs.append(
            ReadInput(
                source=row.source,
                count=row.source_count or len(versions),
                versions=[
                    InputVersion(
                        partition=each.partition, materialization_id=each.materialization_id
                    )
                    for each in versions[:MAX_INPUTS]
                ],
                complete=read_in.is_complete and len(versions) <= MAX_INPUTS,
            )
        )
    first = rows[0]
    return InputsBody(
        asset=parameters.asset,
        partition=first.partition_key,
        materialization_id=first.materialization_id,
        run_id=first.run_id,
        inputs=inputs,
        hidden=len(rows) - len(inputs),
    )


class RunLineageParameters(AtParameters, frozen=True, kw_only=True):
    run_id: RunId


class RunLineageBody(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    events: list[dict[str, Any]]
    """OpenLineage run events, two for each task of an asset that the caller sees."""


def export_run_lineage(
    view: View, visible: Visible, parameters: RunLineageParameters
) -> RunLineageBody:
    """Show a run that has ended as OpenLineage events. Outputs that were held are not in them."""
    row = require_run(view, visible, parameters.run_id)

    def open_at(at: At) -> Snapshot:
        return Snapshot.open(view.manifests, view.snapshot.files, at)

    snapshot = snapshot_at_end(open_at, view.snapshot, row)
    queries = queries_of(view.library, OrchestrationReader(view.snapshot), row)
    place = f"arco://{view.tenant}/{view.workspace}"
    tasks = [
        _seen_part(task, visible)
        for task in task_runs(snapshot, row, queries)
        if visible.sees_asset(task.asset)
    ]
    events = events_of(Location(place, place), row.run_id, tasks)
    return RunLineageBody(run_id=row.run_id, events=list(events))


def _seen_part(task: TaskRun, visible: Visible) -> TaskRun:
    """Without inputs that the caller does not see. A query may name them, too."""
    inputs = tuple(each for each in task.inputs if visible.sees_asset(each.asset))
    fields = tuple(each for each in task.fields if visible.sees_asset(each.asset))
    is_whole = len(inputs) == len(task.inputs) and len(fields) == len(task.fields)
    return msgspec.structs.replace(
        task, inputs=inputs, fields=fields, sql=task.sql if is_whole else ""
    )


class ReportedOutputBody(msgspec.Struct, frozen=True, kw_only=True):
    """An output that others have written."""

    report_id: str
    partition: str
    state: str
    producer: str
    job: str
    rows: int | None
    bytes: int | None
    files: int | None
    location: str
    message: str
    inputs: list[str]
    """Keys of assets that the caller sees."""
    first_reported_at: datetime
    last_reported_at: datetime
    recorded_at: datetime
    recorded_by: str


class ReportsParameters(PageParameters, frozen=True, kw_only=True):
    asset: AssetName


def list_reports(
    view: View, visible: Visible, parameters: ReportsParameters, window: PageWindow
) -> Iterator[tuple[PageKey, ReportedOutputBody]]:
    """List external outputs of an asset reported in the last 30 days, newest first."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    names = lineage_reader(view.snapshot).names
    after: Any = window.after
    shared = set(ReportedOutputBody.__struct_fields__) - {"partition", "inputs"}
    for row in IngestReader(view.snapshot).outputs(asset_id):
        key = (row.first_reported_at, row.report_id)
        if after is not None and key >= after:
            continue
        inputs = [names.key(id) for id in row.input_ids]
        yield (
            key,
            ReportedOutputBody(
                partition=row.partition_key,
                inputs=sorted(each for each in inputs if visible.sees_asset(each)),
                **{name: getattr(row, name) for name in shared},
            ),
        )


# -- imports, pins, notifications -------------------------------------------------------------


def list_imports(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, ImportRow]]:
    """List what was imported from dbt: the newest import of each source."""
    require_everything(visible, "imports")
    for row in sorted(ImportReader(view.snapshot).imports(), key=lambda row: row.source):
        if window.after is None or (row.source,) > window.after:
            yield (row.source,), row


class PinBody(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    generation: int
    reason: str
    created_at: datetime
    expires_at: datetime | None
    active: bool


def list_pins(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, PinBody]]:
    """List pins: generations that are kept regardless of age, including expired pins."""
    require_everything(visible, "pins")
    for pin in sorted(read_pins(view.store), key=lambda pin: (pin.generation, pin.name)):
        key = (pin.generation, pin.name)
        if window.after is None or key > window.after:
            is_active = pin.expires_at is None or pin.expires_at > view.now
            yield key, PinBody(**msgspec.structs.asdict(pin), active=is_active)


class NotificationParameters(AtParameters, frozen=True, kw_only=True):
    notification_id: Annotated[str, Meta(min_length=1, max_length=128)]


class NotificationBody(msgspec.Struct, frozen=True, kw_only=True):
    notification: NotificationRow
    title: str
    text: str


def get_notification(
    view: View, visible: Visible, parameters: NotificationParameters
) -> NotificationBody:
    """Show a notification: its text, its recipient and its delivery attempts."""
    require_everything(visible, "notifications")
    row = NotificationReader(view.snapshot).notification(parameters.notification_id)
    if row.notification_id != parameters.notification_id:
        raise NotFound(f"there is no notification {parameters.notification_id}")
    message = message_of(row, "")
    return NotificationBody(notification=row, title=message.title, text=message.text)


# -- recommendations --------------------------------------------------------------------------


class RecommendationParameters(PageParameters, frozen=True, kw_only=True):
    asset: Annotated[AssetName, Meta(description="Only about this asset.")] = ""


def list_recommendations(
    view: View, visible: Visible, parameters: RecommendationParameters, window: PageWindow
) -> Iterator[tuple[PageKey, RecommendationBody]]:
    """List recommended improvements, most important first."""
    if parameters.asset:
        asset_id_of(view, visible, parameters.asset)

    def recommend() -> list[RecommendationBody]:
        recommendations = answers_of(view).recommend()
        return [RecommendationBody(**msgspec.structs.asdict(each)) for each in recommendations]

    for place, each in enumerate(view.derived("recommendations", recommend)):
        if window.after is not None and (place,) <= window.after:
            continue
        if visible.sees_asset(each.asset) and parameters.asset in ("", each.asset):
            yield (place,), each


_READ, _RUNS = Permission.ASSETS_READ, Permission.RUNS_READ
ROUTES: tuple[Any, ...] = (
    read("/assets/{asset}/inputs", _READ, list_inputs),
    read("/runs/{run_id}/lineage", _RUNS, export_run_lineage),
    listing("/imports", _READ, list_imports),
    listing("/assets/{asset}/reports", _READ, list_reports),
    listing("/pins", _READ, list_pins, live=True),
    read("/notifications/{notification_id}", _RUNS, get_notification),
    listing("/recommendations", _READ, list_recommendations),
)
