"""The messages between a worker and a server of the API, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from arco.transport.liveness import LivenessRecord

MAX_WAIT_S: Final = 25.0
"""How long a server waits for tasks before it answers without any."""
MAX_CLAIMS: Final = 1_000
MAX_BATCH_EVENTS: Final = 1_000

Token = Annotated[str, Meta(min_length=1, max_length=8_000)]
Tokens = Annotated[list[Token], Meta(max_length=MAX_CLAIMS)]
_Count = Annotated[int, Meta(ge=0, le=1 << 31)]


class WorkSettings(Struct, frozen=True, kw_only=True):
    """What a worker needs to know before it begins."""

    tenant: str
    workspace: str
    worker_id: str
    """Its name, with that of its key; unique."""
    claim_s: float
    """A claim that is not renewed for this long expires."""
    secret_variables: list[str]
    """Variables of the environment that deployed code names as secrets."""
    needs_spark: bool
    """Whether deployed assets seem to use Spark."""
    store: str
    """The URL of the workspace, for people and for Spark; without credentials."""


class ClaimRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: Annotated[str, Meta(min_length=1, max_length=64)]
    """Of the worker's choice: the same request again has the same token, and gets the same
    answer."""
    limit: Annotated[int, Meta(ge=1, le=64)] = 1
    slots: Annotated[int, Meta(ge=1, le=1 << 20)]
    memory_mib: _Count = 0
    free_slots: _Count
    free_memory_mib: _Count = 0
    wait_s: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] = 0.0


class ClaimedTask(Struct, frozen=True, kw_only=True):
    name: str
    priority: int
    slots: int
    memory_mib: int
    number: int
    lost: int
    envelope: str
    """JSON; the server has verified its signature."""
    attempt_id: str
    version: str
    """The id that the attempt gives the version that it writes."""
    claim: str
    """The claim token."""
    access: str
    """The task token."""


class ClaimAnswer(Struct, frozen=True, kw_only=True):
    tasks: list[ClaimedTask]


class HeartbeatRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    claims: Tokens = []
    """Of all attempts that the worker works on."""
    renew: bool = False
    """Whether these claims are to be renewed."""
    record: LivenessRecord | None = None
    """None: the liveness record stays as it is."""
    idle: bool = False
    """Whether the liveness record is to be deleted."""


class HeartbeatAnswer(Struct, frozen=True, kw_only=True):
    cancelled_runs: list[str]
    """Of those that the worker works on: it must stop."""


class ClaimsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    claims: Tokens


class ReportedEvent(Struct, frozen=True, kw_only=True):
    id: Annotated[str, Meta(pattern="^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
    type: Annotated[str, Meta(max_length=100)]
    version: int = 1
    time: datetime
    data: msgspec.Raw


class ReportRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    batch: Annotated[str, Meta(pattern="^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
    """A name of the worker's choice. The same events again have the same name, and are in the log
    once."""
    events: Annotated[list[ReportedEvent], Meta(min_length=1, max_length=MAX_BATCH_EVENTS)]
    claims: Tokens
    """Of the attempts that the events are about."""


class WorkDone(Struct, frozen=True, kw_only=True):
    """An empty answer."""

    ok: bool = True


class WatchedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of an asset that a sensor waits for."""

    asset: str
    partition: str
    materialization_id: str
    version: int
    rows: int = 0


class NewVersions(msgspec.Struct, frozen=True, kw_only=True):
    """The versions that a sensor of an asset gets."""

    versions: list[WatchedVersion] = []
    """In the order of the log."""
    cursor: str | None = None
    """A position; null: as it was."""
    more: bool = False
