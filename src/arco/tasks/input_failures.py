"""Inputs that cannot be read."""

from __future__ import annotations

from arco.tasks.failure import TaskFailed, failed
from servo.contract.task import InputRef, MaterializationRef


def versions_differ(ref: InputRef, why: str) -> TaskFailed:
    return failed(
        "input",
        "input.schema",
        f"the versions of {ref.asset} have incompatible columns: {why}",
        "run the older partitions again",
    )


def input_damaged(
    ref: InputRef, version: MaterializationRef, why: str, *, corrupt: bool = False
) -> TaskFailed:
    """The files of a planned version are missing or, if `corrupt`, cannot be read."""
    return failed(
        "input",
        "input.corrupt" if corrupt else "input.missing",
        f"{damage(ref.asset, version.partition, version.materialization_id)}: {why}",
        f"run it again with `{rerun_command(ref.asset, version.partition)}`",
    )


def damage(asset: str, partition: str, id: str) -> str:
    text = partition_text(partition)
    return f"version {id} of {asset}{f'[{text}]' if text else ''} is damaged"


def rerun_command(asset: str, partition: str) -> str:
    parts = [f" -p {part}" for part in partition_text(partition).split(",") if part]
    return f"servo run {asset}{''.join(parts)} --force"


def partition_text(key: str) -> str:
    """A partition key without its tags: `date=2025-01-15,region=eu`."""
    parts = (part.partition("=") for part in key.split(",") if part)
    return ",".join(f"{name}={tagged.partition(':')[2]}" for name, _, tagged in parts)


def input_missing(ref: InputRef, why: str) -> TaskFailed:
    return failed(
        "input",
        "input.missing",
        f"the input {ref.asset} cannot be read: {why}",
        "run it first; if only its order matters, name it in deps=",
    )
