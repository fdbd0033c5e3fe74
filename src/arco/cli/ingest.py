"""`servo ingest`: outputs, checks and lineage of tables that others write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from arco.cli import deferral
from arco.cli.catalog_options import WRITES, AssetArgument, acknowledge
from arco.cli.options import Limit, argument, command, flag, group, option

if deferral.LOADED:
    import msgspec

    from arco.catalog.reader import CatalogReader
    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.ingest.events import OutputReported, ReportState
    from arco.ingest.openlineage import OpenLineageEvent, parse_namespaces
    from arco.ingest.reader import IngestReader
    from arco.ingest.tables import ReportedOutputRow
    from arco.orchestration.catalog_names import lineage_reader
    from servo.contract.keys import AssetKey
    from servo.contract.task import CheckResult

app = group("ingest", "Record outputs, checks and lineage of external tables.")

ReportId = Annotated[
    str, option("ID", "The id of the external write; reports with the same id are combined.")
]
Partition = Annotated[
    str, option("KEY", "The partition key, for example date=d:2026-01-31.", "--partition", "-p")
]
Producer = Annotated[str, option("NAME", "The reporting program.")]
Job = Annotated[str, option("NAME", "The job of the reporting program.")]


@command(
    app,
    "openlineage",
    example="servo ingest openlineage events.ndjson\n"
    "servo ingest openlineage events.ndjson --dataset-namespace postgres://db:5432/public=shop",
    takes=["actor"],
)
def openlineage(
    session: Session,
    file: Annotated[Path, argument("FILE", "OpenLineage run events, one JSON object per line.")],
    dataset_namespace: Annotated[
        list[str] | None,
        option(
            "DATASETS=NAMESPACE",
            "Map a dataset namespace, optionally with a schema, to a namespace. Repeatable.",
        ),
    ] = None,
) -> None:
    """Record run events of OpenLineage: outputs, columns, checks and lineage.

    Events of one run are combined, in any order; duplicates have no effect. Missing assets are
    created: `schema.name` of a dataset becomes `namespace.name`.
    """
    namespaces = parse_namespaces(dataset_namespace or ())
    commands = session.open().commands.ingest
    outcomes = []
    for number, line in enumerate(_lines(file), start=1):
        try:
            event = msgspec.json.decode(line, type=OpenLineageEvent)
        except msgspec.DecodeError as error:
            raise Invalid(f"line {number} of {file} is not an OpenLineage event: {error}") from None
        outcome = commands.openlineage_event(event, namespaces=namespaces)
        if outcome is not None:
            outcomes.append(outcome)
    if session.json:
        render.document({"events": outcomes})
        return
    recorded = sorted({key for each in outcomes for key in each.recorded})
    for dataset in sorted({name for each in outcomes for name in each.skipped}):
        render.note(f"{dataset} cannot be an asset")
    render.say(
        f"recorded {render.count(len(outcomes), 'event')} of {render.count(len(recorded), 'asset')}"
    )


def _lines(file: Path) -> list[bytes]:
    try:
        return [line for line in file.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None


@command(
    app,
    "output",
    example="servo ingest output crm.contacts --id load-17 --rows 1200 --producer fivetran",
    takes=WRITES,
)
def output(
    session: Session,
    key: AssetArgument,
    id: ReportId,
    partition: Partition = "",
    state: Annotated[str, option("STATE", "running, succeeded, failed or aborted.")] = "succeeded",
    rows: Annotated[int | None, option("N", "Number of rows.", min=0)] = None,
    bytes: Annotated[int | None, option("N", "Size in bytes.", min=0)] = None,
    files: Annotated[int | None, option("N", "Number of files.", min=0)] = None,
    location: Annotated[str, option("URL", "Location of the data.")] = "",
    input: Annotated[list[str] | None, option("ASSET", "An input asset. Repeatable.")] = None,
    producer: Producer = "",
    job: Job = "",
) -> None:
    """Record an output of an external asset."""
    workspace = session.open()
    commands = workspace.commands.ingest
    event = OutputReported(
        asset_id="",
        asset_key=key,
        report_id=id,
        reported_at=workspace.clock.now(),
        partition=partition,
        state=_state(state),
        producer=producer,
        job=job,
        rows=rows,
        bytes=bytes,
        files=files,
        location=location,
        input_ids=commands.input_ids(input or ()),
    )
    done = commands.report(event, idempotency_key=session.idempotency_key)
    acknowledge(session, done, f"recorded output {id} of {key}", asset=key, id=id)


def _state(text: str) -> ReportState:
    match text:
        case "running" | "succeeded" | "failed" | "aborted":
            return text
    raise Invalid(
        f"{text!r} is not a state of an output", hint="running, succeeded, failed or aborted"
    )


@command(
    app,
    "check",
    example="servo ingest check crm.contacts unique_mail --failed --id suite-17 --failing 3",
    takes=WRITES,
)
def check(
    session: Session,
    key: AssetArgument,
    name: Annotated[str, argument("CHECK", "The check's name.")],
    id: ReportId,
    failed: Annotated[bool, flag("--failed", "The check failed.")] = False,
    failing: Annotated[int | None, option("N", "Number of failing rows.", min=0)] = None,
    message: Annotated[str, option("TEXT", "Message of the check.")] = "",
    partition: Partition = "",
    producer: Producer = "",
    job: Job = "",
) -> None:
    """Record the result of an external check of an asset. It does not gate outputs."""
    workspace = session.open()
    result = CheckResult(
        name=name,
        passed=not failed,
        message=message,
        kind="reported",
        status="failed" if failed else "passed",
        failing=failing,
    )
    event = OutputReported(
        asset_id="",
        asset_key=key,
        report_id=id,
        reported_at=workspace.clock.now(),
        partition=partition,
        state="running",
        producer=producer,
        job=job,
        checks=(result,),
    )
    done = workspace.commands.ingest.report(event, idempotency_key=session.idempotency_key)
    acknowledge(session, done, f"recorded check {name} of {key}", asset=key, id=id)


@command(app, "list", example="servo ingest list crm.contacts", takes=["at"])
def list_(session: Session, key: AssetArgument, limit: Limit = 20) -> None:
    """List external outputs of an asset reported in the last 30 days, newest first."""
    snapshot = session.open().read.snapshot(session.at())
    asset_id = CatalogReader(snapshot).asset_id(AssetKey.parse(key))
    rows = IngestReader(snapshot).outputs(asset_id)
    names = lineage_reader(snapshot).names
    if session.json:
        outputs = [plain_report(row, [names.key(id) for id in row.input_ids]) for row in rows]
        render.document(
            {
                "generation": snapshot.generation,
                "asset": key,
                "outputs": outputs[:limit],
                "more": len(rows) > limit,
            }
        )
        return
    if not rows:
        render.say(f"no output was reported for {key}")
        return
    show_reports(rows[:limit])


def plain_report(row: ReportedOutputRow, inputs: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = render.plain(row)
    for name in ("columns", "checks", "column_edges"):
        fields[name] = msgspec.json.decode(fields[name] or "[]")
    del fields["times"], fields["input_ids"]
    return fields | {"inputs": inputs}


def show_reports(rows: list[ReportedOutputRow]) -> None:
    headers = (
        "reported output",
        "partition",
        "state",
        "rows",
        "size",
        "by",
        "job",
        "first",
        "last",
    )
    lines = [
        (
            row.report_id,
            partition_text(row.partition_key) or None,
            row.state,
            row.rows,
            None if row.bytes is None else render.size(row.bytes),
            row.producer or None,
            row.job or None,
            row.first_reported_at,
            row.last_reported_at,
        )
        for row in rows
    ]
    render.show_table(headers, lines, right=["rows", "size"], whole=("state", "first", "last"))
