"""Ids that two processes, or two languages, compute without asking each other.

Two derivations, and no others:

* `task_`, `edge_` and the fingerprints: SHA-256 of the canonical JSON of an
  object with one member for each part, and `kind`, so that neither two ways of
  cutting a text nor two sorts of id can share a hash.
* Attempts and their names in queues: SHA-256 of a readable text,
  `dispatch:{run}:{task}:{attempt}`, whose parts are checked to hold no `:`. The id of
  a timer is such a text itself.

Prefixed ids keep the first 16 hex digits (64 bits: they are unique within a
workspace's assets), attempts 32; fingerprints keep all 64.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re

from servo.contract.canonical import fingerprint
from servo.contract.keys import AssetId, AttemptId, EdgeId, TaskId, asset_id
from servo.contract.partition import PartitionKey
from servo.errors import Invalid

_PART = re.compile(r"[A-Za-z0-9_-]{1,128}")
_QUEUE_NAME_DIGITS = 26  # of 5 bits each: 130 bits


def task_id(asset: AssetId, key: PartitionKey, code_version: str) -> TaskId:
    """A task of a plan: this code, for this partition of this asset."""
    parts = {
        "kind": "task",
        "asset": asset_id(asset),
        "partition": str(key),
        "code_version": code_version,
    }
    return TaskId(f"task_{fingerprint(parts)[:16]}")


def transform_fingerprint(language: str, source: str, config: object = None) -> str:
    """What a transformation does: `source` is the code's text or its digest."""
    return fingerprint(
        {"kind": "transform", "language": language, "source": source, "config": config}
    )


def edge_id(source: str, target: str, parameter: str) -> EdgeId:
    """An edge of the lineage graph: that the asset `target` reads `source` as `parameter`.

    Assets go by their keys, as in the tables of lineage. What the code does with the input
    does not count: the edge is a place in the graph.
    """
    parts = {"kind": "edge", "source": source, "target": target, "parameter": parameter}
    return EdgeId(f"edge_{fingerprint(parts)[:16]}")


def dispatch_key(run: str, task: str, attempt: int) -> str:
    """The readable name of an attempt, as stored: `dispatch:{run}:{task}:{attempt}`."""
    return f"dispatch:{_part(run, 'run')}:{_part(task, 'task')}:{_count(attempt, 'attempt', 1)}"


def timer_key(kind: str, run: str, task: str, attempt: int, due_s: int) -> str:
    """The readable name of a timer, as stored; `due_s` is in seconds since 1970."""
    return (
        f"timer:{_part(kind, 'timer kind')}:{_part(run, 'run')}:{_part(task, 'task')}"
        f":{_count(attempt, 'attempt', 1)}:{_count(due_s, 'due time', 0)}"
    )


@functools.lru_cache(maxsize=1024)
def attempt_id(run: str, task: str, attempt: int) -> AttemptId:
    """The same for every dispatcher and every redelivery of an attempt (from 1)."""
    return AttemptId(f"att_{_sha256(dispatch_key(run, task, attempt)).hex()[:32]}")


def dispatch_name(run: str, task: str, attempt: int, *, redelivery: int = 0) -> str:
    """The queue's name for one delivery of an attempt.

    A queue forgets a name only after hours, so sending an attempt again takes the
    next `redelivery` number: under the old name it would be dropped in silence.
    """
    return "d_" + _queue_digits(dispatch_key(run, task, attempt), redelivery)


def version_label(number: int) -> str:
    """`v_00042`: what people call a partition's 42nd version. At least five digits."""
    return f"v_{_count(number, 'version', 1):05d}"


@functools.lru_cache(maxsize=1024)
def _queue_digits(key: str, redelivery: int) -> str:
    """Lower-case RFC 4648 base32 of SHA-256(`{key}:{redelivery}`), its first 26 digits."""
    digest = _sha256(f"{key}:{_count(redelivery, 'redelivery', 0)}")
    return base64.b32encode(digest).decode("ascii")[:_QUEUE_NAME_DIGITS].lower()


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8")).digest()


def _part(text: str, what: str) -> str:
    if _PART.fullmatch(text) is None:
        raise Invalid(
            f"{text!r} cannot name a {what}", hint="1 to 128 characters of A-Z a-z 0-9 _ -"
        )
    return text


def _count(number: int, what: str, least: int) -> int:
    if type(number) is not int or number < least:
        raise Invalid(f"{number!r} is not a valid {what}", hint=f"an integer from {least}")
    return number
