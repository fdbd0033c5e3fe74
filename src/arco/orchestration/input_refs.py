"""References to what tasks read, short and whole, and what stands for them in fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from servo.contract.task import InputRef

INLINE: Final = 200
"""So many versions of an input travel with the task."""
SHOWN: Final = 10
"""So many of a longer list, for people."""

replace = msgspec.structs.replace


def fingerprint(ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


def fingerprint_part(ids: Sequence[str]) -> list[str]:
    """What stands for versions in the fingerprint of what a task reads."""
    return sorted(ids) if len(ids) <= INLINE else _many(len(ids), fingerprint(ids))


def fingerprint_part_of(ref: InputRef) -> list[str]:
    """The same, of an input as it travels."""
    if ref.listed_in is not None:
        return _many(ref.count, ref.fingerprint)
    return fingerprint_part([each.materialization_id for each in ref.materializations])


def _many(count: int, fingerprint: str) -> list[str]:
    return [f"{count} versions", fingerprint]


def shortened(ref: InputRef, count: int = SHOWN) -> InputRef:
    """The reference with the first of its versions, and what is known of all."""
    versions = ref.materializations
    if len(versions) <= count:
        return ref
    if ref.count:
        return replace(ref, materializations=versions[:count])
    return replace(
        ref,
        materializations=versions[:count],
        count=len(versions),
        rows=sum([version.rows for version in versions]),
        bytes=sum([version.bytes for version in versions]),
        last=versions[-1].partition,
        fingerprint=fingerprint(version.materialization_id for version in versions),
    )


def recorded(ref: InputRef) -> InputRef:
    """The reference as a result has it: the list stays where it is, and so do the files."""
    if ref.listed_in is not None:
        ref = shortened(ref)
    return replace(
        ref, materializations=tuple([replace(each, path="") for each in ref.materializations])
    )
