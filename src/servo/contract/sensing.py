"""What a worker is given to evaluate a sensor, and what an evaluation answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from servo.contract.manifest import SensorKind
from servo.errors import Invalid

MAX_RUNS: Final = 10_000
MAX_KEY_BYTES: Final = 200
MAX_PARTITIONS_BYTES: Final = 4 << 10
MAX_CONFIG_BYTES: Final = 16 << 10
MAX_CURSOR_BYTES: Final = 256 << 10
MAX_ADDED_KEYS: Final = 10_000
MAX_ADDED_BYTES: Final = 256 << 10
MAX_PAYLOAD_BYTES: Final = 256 << 10
MAX_MESSAGE_ID_BYTES: Final = 200


class SensorCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    sensor_id: str
    """`project/name`."""
    name: str
    kind: SensorKind
    number: int
    """How many evaluations were recorded before; with the cursor, what it starts from."""
    cursor: str = ""
    due_s: int = 0
    """When it was due, in seconds since 1970."""
    has_function: bool = True
    is_told: bool = False
    """Whether the evaluation is recorded even if it has no effect."""
    skip_reason: str = ""
    """The last one that was recorded. The same reason again is not recorded."""
    message_id: str = ""
    payload: str = ""
    url: str = ""
    pattern: str = ""
    existing: bool = False
    asset: str = ""
    workspace: str = ""


class SensorRun(Struct, frozen=True, omit_defaults=True):
    """A request for a run."""

    key: str
    partitions: tuple[str, ...] = ()
    config: dict[str, str | int | bool | None] = {}
    force: bool = True


class SensorAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Accepted as a whole, or not at all."""

    cursor: str | None = None
    """None: as it was."""
    runs: tuple[SensorRun, ...] = ()
    keys: dict[str, tuple[str, ...]] = {}
    skip_reason: str = ""
    more: bool = False


def check_answer(answer: SensorAnswer) -> None:
    """Raise Invalid with what is wrong with it."""
    for problem, hint in _problems(answer):
        raise Invalid(problem, hint=hint)


def _problems(answer: SensorAnswer) -> Iterator[tuple[str, str]]:
    fewer = "return fewer per evaluation, with a cursor to go on from, and more=True"
    if len(answer.runs) > MAX_RUNS:
        yield f"it asks for {len(answer.runs):,} runs; the limit is {MAX_RUNS:,}", fewer
    for run in answer.runs:
        if not run.key or _size(run.key) > MAX_KEY_BYTES or not run.key.isprintable():
            hint = f"1 to {MAX_KEY_BYTES} bytes that can be printed"
            yield f"{run.key[:50]!r} cannot be the key of a request", hint
        if sum(map(_size, run.partitions)) > MAX_PARTITIONS_BYTES:
            hint = "ask for a range, or for several runs"
            yield f"the partitions of request {run.key!r} are too long", hint
        if sum(_size(name) + _size(str(value)) for name, value in run.config.items()) > (
            MAX_CONFIG_BYTES
        ):
            yield f"the config of request {run.key!r} is too large", "give a reference to it"
    added = [(name, key) for name, keys in answer.keys.items() for key in keys]
    if len(added) > MAX_ADDED_KEYS or sum(_size(key) for _, key in added) > MAX_ADDED_BYTES:
        yield f"it adds {len(added):,} partition keys, too many for one evaluation", fewer
    for name, key in added:
        if not name or not key:
            yield f"it adds the empty key {key!r} to the set {name!r}", "leave it out"
    if answer.cursor is not None and _size(answer.cursor) > MAX_CURSOR_BYTES:
        size = _size(answer.cursor)
        hint = "keep a position, not what was seen"
        yield f"the cursor has {size:,} bytes; the limit is {MAX_CURSOR_BYTES:,}", hint


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
