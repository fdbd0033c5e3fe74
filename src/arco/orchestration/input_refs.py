"""References to the inputs of tasks, shortened and complete, and their part in fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from servo.contract.task import InputRef

INLINE: Final = 200
"""Maximum of an input's versions in a request."""
SHOWN: Final = 10
"""How many versions of a longer list are in the request, for people."""

replace = msgspec.structs.replace


def fingerprint(ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


def fingerprint_part(ids: Sequence[str]) -> list[str]:
    """The part of versions in the fingerprint of a task's inputs."""
    return sorted(ids) if len(ids) <= INLINE else _many(len(ids), fingerprint(ids))


def fingerprint_part_of(ref: InputRef) -> list[str]:
    """The same for an input of a request."""
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
    """The reference for a result, without paths."""
    if ref.listed_in is not None:
        ref = shortened(ref)
    return replace(
        ref, materializations=tuple([replace(each, path="") for each in ref.materializations])
    )
