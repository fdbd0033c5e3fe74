"""`servo contracts`: contracts of assets, and whether they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.catalog_options import WRITES, AssetArgument, Expected, acknowledge
from arco.cli.exit_codes import DIFFERENT
from arco.cli.options import Limit, OnePartition, Reason, argument, command, flag, group, option

if deferral.LOADED:
    from rich.text import Text

    from arco.answers.contract_report import ContractJudge, ContractReport
    from arco.answers.version_data import personal_columns
    from arco.catalog.contract_changes import ContractChange, age_text, contract_changes
    from arco.catalog.contract_reader import ContractReader
    from arco.catalog.contract_tables import ContractBreachRow, ContractRow, ContractVersionRow
    from arco.catalog.odcs_import import from_odcs
    from arco.cli import render
    from arco.cli.contract_exchange import read_document
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from arco.cli.short_ids import short
    from arco.cli.version_changes import show_version_changes
    from arco.errors import Invalid
    from arco.remote.data_answers import RemoteAsset, remote_contract_report
    from servo.contract.manifest import ContractStatement

app = group("contracts", "Show, check, import and export contracts.")

VersionOption = Annotated[str, option("VERSION", "A version, 1.2.0; default: the one in effect.")]
_STATES = {"KEPT": "green", "BREACHED": "red", "UNKNOWN": "yellow"}
_PROMISES = {"kept": "green", "broken": "red", "unknown": "yellow"}


# -- contracts ------------------------------------------------------------------------------


@command(
    app,
    "list",
    example="servo contracts list\nservo contracts list --breached",
    takes=["at"],
)
def list_(
    session: Session,
    namespace: Annotated[str, option("NAME", "Only of assets in this namespace.")] = "",
    breached: Annotated[bool, flag("--breached", "Only contracts that are broken now.")] = False,
) -> None:
    """List the contracts of assets and whether they are kept."""
    snapshot = session.open().read.snapshot(session.at())
    contracts = [
        each
        for each in ContractReader(snapshot).contracts(namespace)
        if not breached or each.row.open_breaches
    ]
    if session.json:
        documents = [{"asset": each.asset} | _document(each.row) for each in contracts]
        render.document({"generation": snapshot.generation, "contracts": documents})
        return
    if not contracts:
        render.say("no contract is broken" if breached else "no asset has a contract")
        return
    lines = [
        (
            each.asset,
            each.row.version,
            _state(each.row),
            each.row.open_breaches or None,
            each.row.source,
            ", ".join(each.row.consumers) or None,
        )
        for each in contracts
    ]
    headers = ("asset", "version", "state", "open", "declared in", "consumers")
    render.show_table(headers, lines, right=["open"], whole=headers[:3])


@command(
    app,
    "show",
    example="servo contracts show sales.orders\nservo contracts show sales.orders --version 1.0.0",
    takes=["at"],
)
def show(session: Session, key: AssetArgument, version: VersionOption = "") -> None:
    """Show the contract of an asset: promises, consumers and newest breaches."""
    snapshot = session.open().read.snapshot(session.at())
    reader = ContractReader(snapshot)
    if version:
        contract = reader.statement(key, version)
        if session.json:
            head = {"generation": snapshot.generation, "asset": key}
            render.document(head | {"contract": contract})
            return
        _show_statement(key, contract, {})
        return
    row = reader.contract(key)
    breaches = reader.breaches(key, recent=True)
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "asset": key,
                **_document(row),
                "row_version": reader.row_version(row.asset_id),
                "recent_breaches": breaches,
            }
        )
        return
    where = f"project {row.project}" if row.source == "code" else "by command"
    head = {
        "state": _state(row),
        "breaches": f"{row.open_breaches} open, {row.breaches} in all",
        "declared": f"{row.source}, {where}, {render.cell(row.declared_at)} "
        f"by {row.declared_by or '–'}",
        "row version": reader.row_version(row.asset_id),
    }
    _show_statement(key, row.decoded(), head, row.accepted)
    if breaches:
        _show_breaches(breaches[:5])


def _document(row: ContractRow) -> dict[str, object]:
    plain: dict[str, object] = render.plain(row)
    del plain["statement"]
    return plain | {"contract": row.decoded()}


def _state(row: ContractRow) -> Text:
    return Text(row.state.lower(), _STATES[row.state])


def _show_statement(
    key: str,
    contract: ContractStatement,
    head: dict[str, object],
    accepted: dict[str, str] | None = None,
) -> None:
    retention = contract.retention
    durations = [
        f"{number} {measure}"
        for measure, number in (("days", retention.days), ("versions", retention.versions))
        if number
    ]
    render.show_fields(
        {
            "asset": key,
            "version": contract.version,
            **head,
            "description": contract.description or None,
            "terms": contract.terms or None,
            "owner": contract.owner or "the asset's owners",
            "consumers": ", ".join(contract.consumers) or None,
            "key": ", ".join(contract.key) or None,
            "freshness": f"at most {age_text(contract.freshness)} old"
            if contract.freshness
            else None,
            "retention": " or ".join(durations) or None,
        }
    )
    if contract.columns:
        lines = [
            (
                each.name,
                each.type or "any type",
                "yes" if each.nullable else "no",
                (accepted or {}).get(each.name) or None,
                each.description or None,
            )
            for each in contract.columns
        ]
        headers = ("column", "type", "null", "accepted break", "description")
        render.show_table(headers, lines, whole=headers[:1])
    if contract.checks:
        checks = [(each.name, each.severity) for each in contract.checks]
        render.show_table(("check", "severity"), checks)


# -- versions -------------------------------------------------------------------------------


@command(
    app,
    "diff",
    example="servo contracts diff sales.orders\nservo contracts diff sales.orders 1.0.0 2.0.0",
    takes=["at"],
)
def diff(
    session: Session,
    key: AssetArgument,
    old: Annotated[str, argument("FROM", "A version; default: the one before TO.")] = "",
    new: Annotated[str, argument("TO", "A version; default: the newest.")] = "",
) -> None:
    """Compare two versions of a contract, and mark changes that break consumers."""
    snapshot = session.open().read.snapshot(session.at())
    before, after = ContractReader(snapshot).pair(key, old, new)
    changes = contract_changes(before, after)
    versions = before.version, after.version
    show_version_changes(session, snapshot.generation, key, versions, changes, _change, _breaks)


def _change(change: ContractChange) -> dict[str, object]:
    plain: dict[str, object] = render.plain(change)
    return plain | {"breaks": change.breaks}


def _breaks(change: ContractChange) -> Text:
    return Text("consumers", "red") if change.breaks else Text("nothing", "green")


@command(app, "history", example="servo contracts history sales.orders", takes=["at"])
def history(session: Session, key: AssetArgument, limit: Limit = 20) -> None:
    """List the history of a contract: versions, accepted breaks and breaches."""
    snapshot = session.open().read.snapshot(session.at())
    reader = ContractReader(snapshot)
    versions, breaches = reader.versions(key), reader.breaches(key)
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "asset": key,
                "versions": [_entry(each) for each in versions],
                "breaches": breaches[:limit],
                "more": len(breaches) > limit,
            }
        )
        return
    if not versions:
        render.say(f"{key} has never had a contract")
        return
    lines = [
        (
            each.changed_at,
            each.event,
            each.version,
            render.lines(_texts(each)) or None,
            each.changed_by or None,
            each.reason or None,
        )
        for each in versions
    ]
    headers = ("time", "what", "version", "changes", "by", "reason")
    render.show_table(headers, lines, whole=headers[:3])
    if breaches:
        _show_breaches(breaches[:limit])
    if len(breaches) > limit:
        render.note("there are older breaches; see --limit")


def _entry(row: ContractVersionRow) -> dict[str, object]:
    plain: dict[str, object] = render.plain(row)
    return plain | {
        "statement": row.decoded() if row.statement else None,
        "changes": [_change(each) for each in row.decoded_changes()],
    }


def _texts(row: ContractVersionRow) -> Iterator[str]:
    if row.event == "accepted":
        yield "the contract as a whole" if row.column == "*" else f"a break of {row.column}"
    for each in row.decoded_changes():
        yield f"{each} (breaks consumers)" if each.breaks else str(each)


def _show_breaches(rows: Sequence[ContractBreachRow]) -> None:
    lines = [
        (
            row.breached_at,
            row.version,
            partition_text(row.partition_key) or None,
            row.message,
            Text("open", "red") if row.ended_at is None else Text(row.outcome, "green"),
            row.reason or None,
            short(row.run_id) if row.run_id else None,
        )
        for row in rows
    ]
    headers = ("breached at", "version", "partition", "what", "state", "reason", "run")
    render.show_table(headers, lines, title="breaches", whole=headers[:2])


# -- checking -------------------------------------------------------------------------------


@command(
    app,
    "check",
    example="servo contracts check sales.orders\n"
    "servo contracts check sales.orders -p date=2026-01-31\n"
    "servo contracts check sales.orders --file contract.yaml",
    takes=["at"],
)
def check(
    session: Session,
    key: AssetArgument,
    partition: OnePartition = None,
    version: VersionOption = "",
    file: Annotated[
        Path | None, option("FILE", "A document of the standard, instead of the declared contract.")
    ] = None,
) -> None:
    """Check the current version of an asset against its contract, without a run.

    The default is the partition that was written last. Reads the footers of its files, and the
    columns that checks use. The exit code is 1 if a promise is broken.
    """
    workspace = session.open()
    at = session.at()
    snapshot = workspace.read.snapshot(at)
    contract = None
    if file is not None:
        contract = from_odcs(read_document(file), asset=key).contract
    elif version:
        contract = ContractReader(snapshot).statement(key, version)
    asset_id = ContractReader(snapshot).asset_id(key)
    if session.api:
        if file is not None:
            raise Invalid(
                "the API checks contracts that are declared, not those of files",
                hint="see `servo contracts import --dry-run`",
            )
        remote = RemoteAsset(workspace, key, snapshot.generation)
        report = remote_contract_report(remote, partition or (), version, is_newest=at is None)
    else:
        judge = ContractJudge(snapshot, workspace.library, workspace.store, workspace.clock)
        report = judge.report(
            key,
            partition=partition or (),
            contract=contract,
            now=workspace.clock.now() if at is None else snapshot.published_at,
            hidden=personal_columns(asset_id, snapshot),
        )
    _show_report(session, snapshot.generation, report)
    if not report.is_kept:
        raise typer.Exit(DIFFERENT)


def _show_report(session: Session, generation: int, report: ContractReport) -> None:
    if session.json:
        plain = render.plain(report) | {"partition": partition_text(report.partition)}
        render.document({"generation": generation, "is_kept": report.is_kept} | plain)
        return
    name = f"{report.asset}[{partition_text(report.partition)}]" if report.partition else ""
    verdict = "keeps" if report.is_kept else "breaks"
    style = "green" if report.is_kept else "red"
    render.say(f"{name or report.asset} {verdict} version {report.version} of its contract", style)
    lines: list[tuple[object, ...]] = [
        (each.promise, Text(each.status, _PROMISES[each.status]), each.message or None)
        for each in report.promises
    ]
    headers: tuple[str, ...] = ("promise", "status", "why")
    if not any(each.message for each in report.promises):
        headers, lines = headers[:2], [line[:2] for line in lines]
    render.show_table(headers, lines, whole=["promise", "status"])


@command(
    app,
    "remove",
    example='servo contracts remove sales.orders --reason "replaced by marts.orders"',
    takes=WRITES,
)
def remove(session: Session, key: AssetArgument, reason: Reason, expected: Expected = None) -> None:
    """Remove a contract that was declared by command; its history stays."""
    done = session.open().commands.contracts.withdraw(
        key, reason=reason, expected_version=expected, idempotency_key=session.idempotency_key
    )
    acknowledge(session, done, f"removed the contract of {key}", asset=key)
