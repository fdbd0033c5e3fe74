"""The columns that an asset declares, as checks of its output.

`columns=` is a promise: a column that is missing, of another type, or null where it is declared
`nullable=False` fails the check `columns`. Columns that are not declared are a matter of `extra=`:
allowed, a warning of a check of their own, or refused by the same check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arco.worker.checks import conditions, proofs, types
from arco.worker.checks.check_request import CheckRequest
from arco.worker.checks.needs import FailingRows, Finding, Need, ProvenFinding
from arco.worker.checks.phrases import rows_that
from servo.contract.manifest import Check, ColumnDef, Extra
from servo.contract.task import CheckStatus

NAME = "columns"
EXTRA_NAME = "columns(extra)"


def declared_checks(columns: Sequence[ColumnDef], extra: Extra) -> list[Check]:
    if not columns:
        return []
    names = tuple(each.name for each in columns)
    checks = [
        Check(
            kind="columns",
            name=NAME,
            columns=names,
            params={
                "types": [each.type for each in columns],
                "required": [each.name for each in columns if not each.nullable],
                "only": extra == "refuse",
            },
        )
    ]
    if extra == "warn":
        params: dict[str, str | int | bool | list[str] | None] = {
            "types": [""] * len(names),
            "required": [],
            "only": True,
        }
        checks.append(
            Check(kind="columns", name=EXTRA_NAME, columns=names, params=params, severity="warning")
        )
    return checks


def compared(request: CheckRequest) -> Need:
    """The need of the check that compares an output with its asset's columns."""
    given, required = request.check.params["types"], request.check.params["required"]
    assert isinstance(given, list) and isinstance(required, list)
    declared = list(zip(request.check.columns, given, strict=True))
    complaints = [*_undeclared(request), *_mismatches(request, declared)]
    present = [column for name in required if (column := request.all.find(name))]
    nulls = {column: proofs.nulls(request.subject, column) for column in present}
    complaints += [
        f"{column.name!r} is declared not null, and is null in "
        f"{rows_that(count, request.subject.rows)}"
        for column, count in nulls.items()
        if count
    ]
    expected = ", ".join(
        f"{name} {type}".rstrip() + (" not null" if name in required else "")
        for name, type in declared
    )
    unknown = [column for column, count in nulls.items() if count is None]
    if unknown and not complaints and not request.empty:
        return FailingRows(conditions.no_nulls(unknown), expected)
    actual = ", ".join(f"{field.name} {types.text_of(field.type)}" for field in request.all.schema)
    status: CheckStatus = "failed" if complaints else "passed"
    return ProvenFinding(Finding(status, expected, actual, "; ".join(complaints), method="footer"))


def _undeclared(request: CheckRequest) -> list[str]:
    if not request.check.params["only"]:
        return []
    declared = {name.lower() for name in request.check.columns}
    declared |= {name.partition(".")[0] for name in declared}
    added = {name.lower() for file in request.subject.files for name in file.added}
    names = [name for name in request.all.names if name.lower() not in declared | added]
    return [f"{name!r} is not declared" for name in names]


def _mismatches(request: CheckRequest, declared: list[tuple[str, str]]) -> Iterator[str]:
    """Declared columns that are missing, or of another type."""
    stored = {
        name.lower(): type for file in request.subject.files for name, type in types.stored(file)
    }
    for name, text in declared:
        column = request.all.find(name)
        if column is None:
            yield f"{name!r} is declared and missing"
            continue
        type = types.canonical(text) if text else None
        if text and type is None:
            request.refuse(f"declares {name!r} to be {text!r}, which is not a Spark type")
        actual = stored.get(column.name.lower()) or types.text_of(column.type)
        if type is not None and actual != type:
            yield f"{name!r} is declared {type}, and is {actual}"
