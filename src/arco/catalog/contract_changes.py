"""What differs between two versions of a contract, and the number that the new one needs.

    change                                        breaks
    a column was removed, renamed, narrowed,      yes
      retyped, or may be null now
    a column was added, widened, or is not null   no
    the key was changed or removed                yes
    a check was removed or changed                yes
    freshness was removed, relaxed or is asked    yes
      at other times
    versions are kept for less time               yes
    words, owner and consumers                    no, and no promise

A promise that differs needs a higher version; one that breaks a consumer, a higher first number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from arco.columns.promises import BREAKS, consumer_names, promise_changes
from servo.contract.contract_version import ContractVersion
from servo.contract.manifest import (
    Check,
    ContractStatement,
    FreshnessSpec,
    Retention,
)
from servo.duration import duration_text

ContractPart = Literal["column", "key", "check", "freshness", "retention", "words"]
WORDS: Final = ("description", "terms", "owner")


class ContractChange(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    part: ContractPart
    name: str
    text: str
    breaks: bool = False

    @property
    def is_promise(self) -> bool:
        return self.part != "words"

    def __str__(self) -> str:
        return self.text


def contract_changes(
    old: ContractStatement, new: ContractStatement, renames: Mapping[str, str] | None = None
) -> tuple[ContractChange, ...]:
    """`renames` are those of the asset's columns; the new contract may add others."""
    return tuple(_changes(old, new, renames or {}))


def _changes(
    old: ContractStatement, new: ContractStatement, renames: Mapping[str, str]
) -> Iterator[ContractChange]:
    governed = {**renames, **{c.renamed_from: c.name for c in new.columns if c.renamed_from}}
    for change in promise_changes(old.columns, new.columns, governed):
        text = str(change)
        if change.kind in ("added", "added_required"):
            text = f"{change.path} is promised{f' as {change.after}' if change.after else ''}"
        elif change.kind == "made_required":
            text = f"{change.path} is not null now"
        yield ContractChange("column", change.column, text, change.kind in BREAKS)
    yield from _key_change(old.key, new.key)
    yield from _check_changes(old.checks, new.checks)
    yield from _freshness_change(old.freshness, new.freshness)
    yield from _retention_changes(old.retention, new.retention)
    for name in WORDS:
        if getattr(old, name) != getattr(new, name):
            yield ContractChange("words", name, f"{name} was changed")
    removed = [each for each in old.consumers if each not in new.consumers]
    added = [each for each in new.consumers if each not in old.consumers]
    for each in removed:
        yield ContractChange("words", "consumers", f"{each} is no consumer any more")
    for each in added:
        yield ContractChange("words", "consumers", f"{each} is a consumer")


def _key_change(old: Sequence[str], new: Sequence[str]) -> Iterator[ContractChange]:
    if set(old) == set(new):
        return
    names = ", ".join(new)
    if not old:
        yield ContractChange("key", names, f"the key is {names}")
    else:
        before = ", ".join(old)
        text = f"the key was changed from {before} to {names}" if new else f"the key {before} left"
        yield ContractChange("key", before, text, breaks=True)


def _check_changes(old: Sequence[Check], new: Sequence[Check]) -> Iterator[ContractChange]:
    before, after = ({substance(each): each for each in checks} for checks in (old, new))
    names = {each.name for each in new}
    for key, check in before.items():
        if key not in after:
            verb = "was changed" if check.name in names else "was removed"
            yield ContractChange("check", check.name, f"the check {check.name} {verb}", breaks=True)
    replaced = {check.name for key, check in before.items() if key not in after}
    for key, check in after.items():
        if key not in before and check.name not in replaced:
            yield ContractChange("check", check.name, f"the check {check.name} was added")


def substance(check: Check) -> bytes:
    """The content of a check, without its name."""
    parts = (check.kind, check.columns, check.params, check.phase)
    return msgspec.json.encode(parts, order="sorted")


def _freshness_change(
    old: FreshnessSpec | None, new: FreshnessSpec | None
) -> Iterator[ContractChange]:
    before, after = _promised_age(old), _promised_age(new)
    if before == after:
        return
    if old is None:
        yield ContractChange("freshness", "freshness", f"data is at most {age_text(new)} old")
        return
    relaxed = new is None or new.max_age_s > old.max_age_s
    other_times = new is not None and (old.cron, old.timezone) != (new.cron, new.timezone)
    text = f"data was at most {age_text(old)} old, and is {age_text(new) or 'of any age'} now"
    yield ContractChange("freshness", "freshness", text, breaks=relaxed or other_times)


def _promised_age(spec: FreshnessSpec | None) -> tuple[int, str, str] | None:
    """The promised age, without `request_run`, which does not concern consumers."""
    return None if spec is None else (spec.max_age_s, spec.cron, spec.timezone)


def age_text(spec: FreshnessSpec | None) -> str:
    if spec is None:
        return ""
    at = f" at {spec.cron} ({spec.timezone})" if spec.cron else ""
    return f"{duration_text(spec.max_age_s)}{at}"


def _retention_changes(old: Retention, new: Retention) -> Iterator[ContractChange]:
    for measure in ("days", "versions"):
        before, after = getattr(old, measure), getattr(new, measure)
        if before != after:
            text = f"{after} {measure} of versions are kept, and {before} were"
            yield ContractChange("retention", measure, text, breaks=after < before)


def version_problem(
    old: ContractStatement, new: ContractStatement, changes: Sequence[ContractChange]
) -> tuple[str, str] | None:
    """Why the new contract needs another version, and what to do; None if it does not."""
    before, after = ContractVersion.parse(old.version), ContractVersion.parse(new.version)
    promises = [each for each in changes if each.is_promise]
    breaks = [each for each in promises if each.breaks]
    readers = f" ({consumer_names(old.consumers)} rely on it)" if old.consumers else ""
    if after < before:
        return (
            f"the contract of {new.name} has version {after}, and {before} is in effect",
            f'give it a higher version, as version="{before.next_minor}"',
        )
    if breaks and after.major <= before.major:
        listed = "; ".join(map(str, breaks))
        return (
            f"the contract of {new.name} breaks what version {before} promises: {listed}{readers}",
            f'keep the promise, or declare version="{before.next_major}"',
        )
    if promises and after == before:
        listed = "; ".join(map(str, promises))
        return (
            f"the contract of {new.name} promises something else under version {before}: {listed}",
            f'declare version="{before.next_minor}"',
        )
    return None
