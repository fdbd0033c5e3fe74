"""Results as events: a result is never dropped, whatever its size.

One event carries all of a result (one commit shows all of it), and an event has a limit.
So, by size:

1. A small result is the event's plain JSON.
2. A large one has its columns, checks and lineage compressed in the same event (`packed`).
   Names, types and ids repeat: twenty thousand columns with lineage take a tenth of the
   limit. Decompressing is pure, so folds may do it.
3. A result that is still too large is cut, the least important part first, until it fits. The
   result says which parts were cut, and how much of each is left. A worker has put the whole result
   into the folder of the output's files before (`details`).

Of an input of many versions a result has the first few, the totals, and where all of them
are listed (`input_lists.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from arco.errors import Invalid
from arco.log.envelope import MAX_EVENT_BYTES, encode_payload
from arco.orchestration.events import TaskFinished
from arco.orchestration.input_refs import shortened
from arco.orchestration.packing import pack, unpack
from servo.contract.manifest import ACTIONS
from servo.contract.task import CheckResult, ColumnInfo, ErrorInfo, Lineage, TaskResult, Truncated

PLAIN_BYTES: Final = 128 << 10
"""Beyond this a result is packed."""
EVENT_BYTES: Final = MAX_EVENT_BYTES * 3 // 4
"""Beyond this it is cut. What an attempt adds later (usage, cost) has room above it."""
UNRECORDED: Final = "output.too_large"
UNRECORDED_HINT: Final = "give the output fewer columns and checks, or shorter names"

replace = msgspec.structs.replace


class TooLarge(Invalid):
    """A result that fits into no event, even with all its parts cut."""


class _Details(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is packed."""

    schema: tuple[ColumnInfo, ...] = ()
    files: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    lineage: Lineage | None = None


_details = msgspec.json.Decoder(_Details)


def finished(result: TaskResult) -> TaskFinished:
    """The event of a result, which always fits into the log."""
    try:
        return _event(bounded(result))
    except TooLarge as error:
        return TaskFinished(result=unrecorded(result, error.message))


def whole(event: TaskFinished) -> TaskResult:
    """The result of an event, with what is packed in it.

    A packed text that cannot be read is left out, and the result says so; its other parts count.
    """
    if not event.packed:
        return event.result
    try:
        details = _details.decode(unpack(event.packed))
    except (ValueError, msgspec.DecodeError):
        lost = [Truncated(part, 0, total) for part, total in event.parts.items()]
        return replace(event.result, truncated=(*event.result.truncated, *lost))
    output = event.result.materialization
    if output is not None:
        output = replace(output, schema=details.schema, files=details.files)
    return replace(
        event.result, materialization=output, checks=details.checks, lineage=details.lineage
    )


def bounded(result: TaskResult, limit: int = EVENT_BYTES) -> TaskResult:
    """The result, cut to what fits into one event. Raises TooLarge.

    Bounding a result twice is bounding it once.
    """
    cut, size = result, _size(result)
    for part in PARTS:
        if size > limit and part.count(cut):
            without = part.cut(cut, 0)
            size = _size(without)
            cut = without if size > limit else _most(part, cut, limit)
    if size > limit:
        raise TooLarge(f"its result has {size:,} bytes; the limit is {limit:,}")
    if cut is result:
        return result
    truncated = [Truncated(p.name, p.count(cut), p.count(result)) for p in PARTS]
    return replace(
        cut, truncated=(*result.truncated, *(each for each in truncated if each.kept < each.total))
    )


def _most(part: Part, result: TaskResult, limit: int) -> TaskResult:
    """The result with as much of this part as fits, within a factor of two."""
    count = part.count(result)
    while count:
        count //= 2
        cut = part.cut(result, count)
        if _size(cut) <= limit:
            return cut
    raise AssertionError(f"it fits without {part.name}")


def unrecorded(result: TaskResult, reason: str) -> TaskResult:
    """The result that is reported instead of one that does not fit into the log."""
    error = ErrorInfo(
        category="user_code",  # another attempt would have the same result
        code=UNRECORDED,
        message=f"the task {result.outcome}, and its result cannot be recorded: {reason[:1_000]}",
        hint=UNRECORDED_HINT,
    )
    return TaskResult(
        run_id=result.run_id,
        task_id=result.task_id,
        attempt=result.attempt,
        attempt_id=result.attempt_id,
        worker_id=result.worker_id,
        outcome="failed",
        error=error,
    )


# -- packing ------------------------------------------------------------------------------


def _event(result: TaskResult) -> TaskFinished:
    plain = TaskFinished(result=result)
    return plain if len(encode_payload(plain)) <= PLAIN_BYTES else _packed(result)


def _packed(result: TaskResult) -> TaskFinished:
    output = result.materialization
    details = _Details(
        schema=() if output is None else output.schema,
        files=() if output is None else output.files,
        checks=result.checks,
        lineage=result.lineage,
    )
    slim = None if output is None else replace(output, schema=(), files=())
    text = pack(msgspec.json.encode(details))
    return TaskFinished(
        result=replace(result, materialization=slim, checks=(), lineage=None),
        packed=text,
        parts={part.name: count for part in PARTS if (count := part.count(result))},
    )


def _size(result: TaskResult) -> int:
    return len(encode_payload(_event(result)))


# -- cutting ------------------------------------------------------------------------------


class Part(NamedTuple):
    """A part of a result that may be long."""

    name: str
    count: Callable[[TaskResult], int]
    cut: Callable[[TaskResult, int], TaskResult]
    """The result with this number of them."""


def _count_samples(result: TaskResult) -> int:
    return max((len(check.sample) for check in result.checks), default=0)


def _cut_samples(result: TaskResult, count: int) -> TaskResult:
    checks = (replace(check, sample=check.sample[:count]) for check in result.checks)
    return replace(result, checks=tuple(checks))


def _has_bounds(column: ColumnInfo) -> bool:
    return column.min is not None or column.max is not None


def _cut_statistics(result: TaskResult, count: int) -> TaskResult:
    columns, left = [], count
    for column in _schema(result):
        if _has_bounds(column):
            left -= 1
            column = column if left >= 0 else replace(column, min=None, max=None)
        columns.append(column)
    return _with_output(result, schema=tuple(columns))


def _count_read(result: TaskResult) -> int:
    return max((len(ref.materializations) for ref in _lineage(result).read), default=0)


def _cut_read(result: TaskResult, count: int) -> TaskResult:
    return _with_lineage(result, read=tuple(shortened(r, count) for r in _lineage(result).read))


def _cut_files(result: TaskResult, count: int) -> TaskResult:
    output = result.materialization
    assert output is not None
    total = output.file_count or len(output.files)
    return _with_output(result, files=output.files[:count], file_count=total)


def _cut_checks(result: TaskResult, count: int) -> TaskResult:
    """The checks that decide about the output stay."""
    order = sorted(result.checks, key=lambda check: -ACTIONS.index(check.action))
    return replace(result, checks=tuple(order[:count]))


def _cut_metadata(result: TaskResult, count: int) -> TaskResult:
    output = result.materialization
    assert output is not None
    return _with_output(result, metadata=dict(list(output.metadata.items())[:count]))


def _schema(result: TaskResult) -> tuple[ColumnInfo, ...]:
    return () if result.materialization is None else result.materialization.schema


def _lineage(result: TaskResult) -> Lineage:
    return result.lineage or Lineage()


def _with_output(result: TaskResult, **fields: object) -> TaskResult:
    assert result.materialization is not None
    return replace(result, materialization=replace(result.materialization, **fields))


def _with_lineage(result: TaskResult, **fields: object) -> TaskResult:
    return replace(result, lineage=replace(_lineage(result), **fields))


PARTS: Final = (
    Part("samples of a check", _count_samples, _cut_samples),
    Part(
        "columns with bounds",
        lambda result: sum(map(_has_bounds, _schema(result))),
        _cut_statistics,
    ),
    Part("versions of an input that was read", _count_read, _cut_read),
    Part(
        "influences on rows",
        lambda result: len(_lineage(result).influences),
        lambda result, n: _with_lineage(result, influences=_lineage(result).influences[:n]),
    ),
    Part(
        "columns with lineage",
        lambda result: len(_lineage(result).columns),
        lambda result, n: _with_lineage(result, columns=_lineage(result).columns[:n]),
    ),
    Part(
        "columns without lineage",
        lambda result: len(_lineage(result).unmapped),
        lambda result, n: _with_lineage(result, unmapped=_lineage(result).unmapped[:n]),
    ),
    Part(
        "files",
        lambda result: 0 if result.materialization is None else len(result.materialization.files),
        _cut_files,
    ),
    Part("checks", lambda result: len(result.checks), _cut_checks),
    Part(
        "columns",
        lambda result: len(_schema(result)),
        lambda result, n: _with_output(result, schema=_schema(result)[:n]),
    ),
    Part(
        "metadata",
        lambda result: (
            0 if result.materialization is None else len(result.materialization.metadata)
        ),
        _cut_metadata,
    ),
)
"""In the order in which they are cut."""
