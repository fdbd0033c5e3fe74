"""What goes to a worker, and what comes back.

An *envelope* is one delivery of one attempt: everything that the worker needs,
signed. A *result* is what it reports: one value with the outcome, the output, the
checks and the cost, so that all of it becomes visible in one commit.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from servo.contract.manifest import Category, Check, SecretRef

CONTRACT: Final = 1

Outcome = Literal["succeeded", "failed", "cancelled"]


class MaterializationRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of one partition of an input."""

    partition: str
    """The partition key's text."""
    materialization_id: str
    path: str
    """The folder of its files, in the workspace."""


class InputRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    asset: str
    parameter: str = ""
    materializations: tuple[MaterializationRef, ...] = ()


class CodeRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    artifact: str
    """SHA-256 of the zip under `artifacts/`."""
    module: str
    name: str
    root: str = ""


class TaskRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The signed part of an envelope."""

    contract: int = CONTRACT
    tenant_id: str
    workspace_id: str
    run_id: str
    task_id: str
    plan_id: str
    attempt: int
    attempt_id: str
    max_attempts: int = 1
    redelivery: int = 0
    asset: str
    asset_id: str
    partition: str = ""
    kind: str = "python"
    code: CodeRef
    sql: str = ""
    inputs: tuple[InputRef, ...] = ()
    output: str = ""
    """The folder of the partition's versions: `data/{namespace}/{asset}/{partition}`."""
    fingerprint: str = ""
    """Of the inputs: what makes a later plan reuse this output."""
    checks: tuple[Check, ...] = ()
    gating: str = "strict"
    timeout_s: int = 0
    config: dict[str, str | int | bool | None] = {}
    secrets: dict[str, SecretRef] = {}
    traceparent: str = ""


class Auth(Struct, frozen=True, kw_only=True):
    key_id: str
    expires_at: int
    """Seconds since 1970."""
    signature: str
    """HMAC-SHA-256 over the canonical JSON of the request, the key's id and the expiry."""


class TaskEnvelope(Struct, frozen=True, kw_only=True):
    request: TaskRequest
    auth: Auth


class ErrorInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    category: Category
    code: str
    """Stable, for programs: `user_code.ValueError`, `input.missing`, `timeout.task`."""
    message: str
    hint: str = ""
    retriable: bool = False
    """As the worker sees it; the asset's policy has the last word."""
    exception: str = ""
    """The exception's class, for `retry_on`."""
    file: str = ""
    line: int = 0
    traceback: str = ""


class ColumnInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type: str
    nullable: bool = True
    nulls: int | None = None
    min: str | None = None
    max: str | None = None


class Materialization(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version of a partition, as its writer saw it; the body of a commit marker."""

    materialization_id: str
    asset: str
    asset_id: str
    partition: str
    run_id: str
    task_id: str
    attempt_id: str
    path: str
    files: tuple[str, ...] = ()
    rows: int = 0
    bytes: int = 0
    schema: tuple[ColumnInfo, ...] = ()
    schema_hash: str = ""
    fingerprint: str = ""
    metadata: dict[str, str | int | bool | None] = {}


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    wall_ms: int = 0
    cpu_ms: int = 0
    peak_memory_kib: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class CheckResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    passed: bool
    severity: str = "error"
    message: str = ""


class TaskResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    run_id: str
    task_id: str
    attempt: int
    attempt_id: str
    outcome: Outcome
    worker_id: str
    materialization: Materialization | None = None
    adopted: bool = False
    """Whether another attempt had won, and this is its output."""
    checks: tuple[CheckResult, ...] = ()
    error: ErrorInfo | None = None
    usage: Usage = Usage()
