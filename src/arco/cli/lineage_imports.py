"""`servo lineage import-dbt`, `imports`, `remove-import`: imports from other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, flag, option

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.progress import progress
    from arco.cli.session import Session
    from arco.imports.commands import Imported
    from arco.imports.dbt_names import parse_map

_SHOWN = 10


def register(app: typer.Typer) -> None:
    example = (
        "servo lineage import-dbt --manifest target/manifest.json --catalog target/catalog.json\n"
        "servo lineage import-dbt --namespace-map analytics.prod=marts --dry-run"
    )
    command(app, "import-dbt", example=example, takes=["actor"])(import_dbt)
    command(app, "imports", example="servo lineage imports", takes=["at"])(imports)
    example = "servo lineage remove-import dbt/jaffle_shop"
    command(app, "remove-import", example=example, takes=["actor"])(remove_import)


def import_dbt(
    session: Session,
    manifest: Annotated[Path, option("FILE", "The manifest.json of `dbt compile`.")] = Path(
        "target/manifest.json"
    ),
    catalog: Annotated[
        Path | None, option("FILE", "The catalog.json of `dbt docs generate`: all columns.")
    ] = None,
    namespace_map: Annotated[
        list[str] | None,
        option("SCHEMA=NAMESPACE", "The namespace of a schema, or database.schema. Repeatable."),
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would change.")] = (False),
) -> None:
    """Import models, sources, seeds and snapshots of a dbt project with their lineage.

    They become assets: schema.name in the database becomes namespace.name. Importing the same
    files again changes nothing; assets that a newer manifest no longer has are removed. Metadata
    set by code or people takes precedence over that of dbt.
    """
    namespaces = parse_map(namespace_map or ())
    with progress() as report:
        result = session.open().commands.imports.dbt(
            manifest, catalog, namespaces=namespaces, dry_run=dry_run, progress=report
        )
    _show(session, result, dry_run)


def imports(session: Session) -> None:
    """List the newest import of each source."""
    reader = session.open().of_all_namespaces("imports").read.imports(session.at())
    rows = reader.imports()
    if session.json:
        render.document({"generation": reader.snapshot.generation, "imports": rows})
        return
    if not rows:
        render.say("nothing was imported; see `servo lineage import-dbt --help`")
        return
    headers = ("source", "assets", "import", "version", "generated", "imported", "by")
    lines = [
        (
            row.source,
            row.nodes,
            row.number,
            row.tool_version or None,
            row.generated_at or None,
            row.imported_at,
            row.imported_by or None,
        )
        for row in rows
    ]
    render.show_table(headers, lines, right=["assets", "import"], whole=["source"])


def remove_import(
    session: Session,
    source: Annotated[str, argument("SOURCE", "The source, as listed by `servo lineage imports`.")],
) -> None:
    """Remove an import: its lineage is removed, and assets without another source become
    inactive."""
    result = session.open().commands.imports.remove(source)
    _show(session, result, dry_run=False)


def _show(session: Session, result: Imported, dry_run: bool) -> None:
    if session.json:
        render.document({"dry_run": dry_run, **render.plain(result)})
        return
    for relation, key in sorted(result.normalised.items()):
        render.note(f"{relation} is imported as {key}")
    for node, reason in sorted(result.refused.items()):
        render.note(f"{node} is not imported: {reason}")
    for note in result.notes:
        render.note(note)
    for what, keys in (
        ("added", result.added),
        ("changed", result.changed),
        ("moved", result.moved),
        ("removed", result.removed),
    ):
        for key in keys[:_SHOWN]:
            render.say(f"{what} {key}")
        if len(keys) > _SHOWN:
            render.say(f"{what} {len(keys) - _SHOWN:,} more; see --json")
    assets = render.count(result.nodes, "asset")
    if not result.changes:
        render.say(f"{result.source}: {assets}, nothing changed")
    elif dry_run:
        render.say(f"{result.source}: {assets}; this was a dry run, nothing was written")
    else:
        render.say(f"{result.source}: {assets}, generation {result.generation}")
