"""`servo contracts export` and `import`: the Open Data Contract Standard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from arco.cli import deferral
from arco.cli.catalog_options import WRITES, AssetArgument, Expected, acknowledge
from arco.cli.options import argument, command, flag, option

if deferral.LOADED:
    import msgspec
    import yaml

    from arco.catalog.contract_reader import ContractReader
    from arco.catalog.odcs_export import to_odcs
    from arco.catalog.odcs_import import from_odcs
    from arco.cli import render
    from arco.cli.session import Session
    from arco.errors import Invalid, NotFound


def register(contracts: typer.Typer) -> None:
    command(
        contracts,
        "export",
        example="servo contracts export sales.orders\n"
        "servo contracts export sales.orders --output contract.yaml",
        takes=["at"],
    )(export)
    command(
        contracts,
        "import",
        example="servo contracts import contract.yaml\n"
        "servo contracts import contract.yaml --asset sales.orders --dry-run",
        takes=WRITES,
    )(import_)


def export(
    session: Session,
    key: AssetArgument,
    version: Annotated[
        str, option("VERSION", "A version, 1.2.0; default: the one in effect.")
    ] = "",
    output: Annotated[Path | None, option("FILE", "Write to this file.")] = None,
    format: Annotated[
        str, option("yaml|json", "Default: by the file's name, and YAML otherwise.")
    ] = "",
) -> None:
    """Print a contract in the Open Data Contract Standard, as YAML, or with --json as JSON."""
    snapshot = session.open().read.snapshot(session.at())
    reader = ContractReader(snapshot)
    statement = msgspec.structs.replace(reader.statement(key, version), name=key)
    document = to_odcs(statement, id=reader.asset_id(key))
    text = _written(document, _format(session, format, output))
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise Invalid(f"{output} cannot be written: {error.strerror}") from None
    if session.json:
        render.document({"asset": key, "version": statement.version, "file": str(output)})
        return
    render.say(f"wrote version {statement.version} of the contract of {key} to {output}")


def _format(session: Session, requested: str, output: Path | None) -> Literal["yaml", "json"]:
    if requested not in ("", "yaml", "json"):
        raise Invalid(f"{requested!r} is not a format", hint="give yaml or json")
    by_name = output is not None and output.suffix.lower() == ".json"
    return (
        "json" if requested == "json" or (not requested and (session.json or by_name)) else "yaml"
    )


def _written(document: dict[str, object], format: Literal["yaml", "json"]) -> str:
    if format == "json":
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    return text


def import_(
    session: Session,
    file: Annotated[Path, argument("FILE", "A document of version 3 of the standard.")],
    asset: Annotated[
        str, option("NAMESPACE.NAME", "The asset, if the schema is not named like it.")
    ] = "",
    schema: Annotated[str, option("NAME", "The schema, if the document has several.")] = "",
    dry_run: Annotated[bool, flag("--dry-run", "Only check the document; change nothing.")] = False,
    expected: Expected = None,
) -> None:
    """Declare the contract of an asset from a document of the Open Data Contract Standard.

    A contract that is declared in code is changed in code. A change that breaks a promise needs a
    higher first number of the version.
    """
    workspace = session.open()
    imported = from_odcs(read_document(file), asset=asset, schema=schema)
    contract = imported.contract
    commands = workspace.commands.contracts
    for each in () if session.json else imported.left_out:
        render.note(f"not enforced: {each}")
    if dry_run:
        row = commands.check(workspace.read.snapshot(), contract)
        before = "" if row is None else row.version
        if session.json:
            render.document(
                {"asset": contract.name, "contract": contract, "before": before or None}
                | {"left_out": list(imported.left_out)}
            )
            return
        render.say(f"{contract.name} would have version {contract.version} of its contract")
        return
    outcome = commands.set(
        contract, expected_version=expected, idempotency_key=session.idempotency_key
    )
    acknowledge(
        session,
        outcome,
        f"declared version {contract.version} of the contract of {contract.name}",
        asset=contract.name,
        version=contract.version,
        left_out=list(imported.left_out),
    )


def read_document(file: Path) -> object:
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    try:
        document: object = yaml.safe_load(text)  # JSON is YAML too
    except (yaml.YAMLError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = "" if where is None else f" (line {where.line + 1})"
        problem = getattr(error, "problem", "") or "it is nested too deeply, or has no valid text"
        raise Invalid(
            f"{file} is neither YAML nor JSON: {problem}{line}",
            hint="it should be an Open Data Contract, as `servo contracts export` writes them",
        ) from None
    if not isinstance(document, dict):
        what = "is empty" if document is None else "has no fields"
        raise Invalid(
            f"{file} {what}: it is not a contract of the Open Data Contract Standard",
            hint="`servo contracts export` writes such a document",
        )
    return document
