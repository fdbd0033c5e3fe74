"""What goes to a worker, and what comes back.

An *envelope* is one delivery of one attempt: everything that the worker needs,
signed. A *result* is what it reports: one value with the outcome, the output, the
checks and the cost, so that all of it becomes visible in one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from servo.contract.config_values import WireValue
from servo.contract.manifest import (
    Category,
    Check,
    ColumnDef,
    Extra,
    GateAction,
    Gating,
    PersonalDataPolicy,
    Phase,
    SecretRef,
)
from servo.contract.sensing import SensorCall

CONTRACT: Final = 6
"""The greatest that this program reads. 2: an input may be listed in an object. 3: a value of the
configuration may be a list or an object. 4: it may be the evaluation of a sensor.
5: the output is compared with what is personal in its inputs. 6: it is compared with what a
contract promises."""
SENSING: Final = 4
GUARDING: Final = 5
PROMISING: Final = 6
NOT_PERSONAL: Final = "none"
"""Used as a kind of personal data: the column holds none, whatever its sources are."""

TaskOutcome = Literal["succeeded", "failed", "cancelled"]


class ObjectRef(Struct, frozen=True, omit_defaults=True):
    """An object of the workspace, with what proves that it is the right one."""

    path: str
    sha256: str
    bytes: int


class MaterializationRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of one partition of an input."""

    partition: str
    """The partition key's text."""
    materialization_id: str
    path: str = ""
    """The folder of its files, in the workspace; a result leaves it out."""
    rows: int = 0
    """As its writer counted them; 0 also where that is not known."""
    bytes: int = 0


class InputRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    asset: str
    asset_id: str = ""
    """Who that is, whatever it is called later. Older requests and results do not say it."""
    parameter: str = ""
    materializations: tuple[MaterializationRef, ...] = ()
    pii: tuple[str, ...] = ()
    """Its columns whose values are never shown, in lower case."""
    count: int = 0
    """How many versions there are where the list holds only the first; 0 where it holds all."""
    rows: int = 0
    """Of all of them; this and the next three are given with `count` alone."""
    bytes: int = 0
    last: str = ""
    """The partition of the last one."""
    fingerprint: str = ""
    """SHA-256 of the sorted ids of all of them, one to a line."""
    listed_in: ObjectRef | None = None
    """Where all of them are, if they are many: Parquet, with the fields of a
    `MaterializationRef` as columns, in the order of partitions."""


def needed_contract(refs: Iterable[InputRef], config: Mapping[str, WireValue]) -> int:
    """The lowest contract of a request that has these inputs and this configuration."""
    if any(isinstance(value, list | dict) for value in config.values()):
        return 3
    return 2 if any(ref.listed_in is not None for ref in refs) else 1


def personal(columns: Iterable[ColumnDef]) -> tuple[str, ...]:
    """The columns whose values are never shown, in lower case: Spark ignores case."""
    hidden = (
        c.name.lower()
        for c in columns
        if c.pii not in ("", NOT_PERSONAL) or c.sensitivity == "restricted"
    )
    return tuple(sorted(set(hidden)))


class CodeRef(Struct, frozen=True, kw_only=True, omit_defaults=True):
    artifact: str
    """SHA-256 of the zip under `artifacts/`."""
    module: str
    name: str
    root: str = ""
    file: str = ""
    """Where it was declared, for people."""
    line: int = 0


class PersonalInput(Struct, frozen=True, omit_defaults=True):
    """A column of an input that holds personal data, its own or what flowed into it."""

    column: str
    pii: tuple[str, ...]


class PersonalRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    policy: PersonalDataPolicy
    inputs: dict[str, tuple[PersonalInput, ...]] = {}
    """By the key of the asset."""
    classified: tuple[str, ...] = ()
    """Columns of the output of which the catalog says whether they are personal."""


class SchemaRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an output's schema is compared with, if it is not the current one."""

    schema_hash: str
    """Of the current version: an output with the same needs no comparison."""
    packed: str = ""
    """`arco.columns.schema_rules.KnownSchema`, as base64 of deflated JSON."""
    stored_in: ObjectRef | None = None
    """Where that is, not in base64, if it is long."""


class ContractRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a contract promises of the output's columns; its checks are among the others."""

    version: str
    consumers: tuple[str, ...] = ()
    """The first few."""
    more_consumers: int = 0
    packed: str = ""
    """`arco.columns.promises.PromisedColumns`, as base64 of deflated JSON."""
    stored_in: ObjectRef | None = None
    """Where that is, not in base64, if it is long."""


class TaskRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The signed part of an envelope."""

    contract: int = 1
    """The lowest contract that reads it correctly: an older worker would ignore a part of it."""
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
    engine: str = ""
    """`spark`: its session is there before the code runs, for what asks for it by no name."""
    code: CodeRef
    sql: str = ""
    inputs: tuple[InputRef, ...] = ()
    output: str = ""
    """The folder of the partition's versions: `data/{namespace}/{asset}/{partition}`."""
    fingerprint: str = ""
    """Of the inputs: what makes a later plan reuse this output."""
    checks: tuple[Check, ...] = ()
    gating: Gating = Gating()
    references: tuple[InputRef, ...] = ()
    """What the checks of kind `references` look values up in."""
    previous: MaterializationRef | None = None
    """The partition's good version when this was sent."""
    columns: tuple[ColumnDef, ...] = ()
    """As declared: types, personal data, and lineage, which replaces traced lineage."""
    extra: Extra = "allow"
    """What happens with columns that are not declared, if others are."""
    personal: PersonalRule | None = None
    schema: SchemaRule | None = None
    """What the output's schema is compared with; None where there is nothing yet."""
    promise: ContractRule | None = None
    """Of the contract of the asset, if it has one."""
    io: dict[str, str] = {}
    cpu: int = 1
    """Slots of a worker that it takes."""
    memory_mib: int = 0
    timeout_s: int = 0
    config: dict[str, WireValue] = {}
    secrets: dict[str, SecretRef] = {}
    traceparent: str = ""
    sensor: SensorCall | None = None
    """This is no task, but the evaluation of a sensor."""


class Auth(Struct, frozen=True, kw_only=True):
    key_id: str
    expires_at: int
    """Seconds since 1970."""
    signature: str
    """HMAC-SHA-256 over the canonical JSON of the request, the key's id and the expiry."""


class ErrorInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    category: Category
    code: str
    """Stable, for programs: `user_code.ValueError`, `input.missing`, `timeout.task`."""
    message: str
    hint: str = ""
    retriable: bool = False
    """The worker's classification; the asset's retry policy decides."""
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
    field_id: int | None = None
    """Of the Parquet file, where its writer gave one."""
    shape: str = ""
    """JSON of a nested type whose text does not say all: what inside of it is not null."""


class Materialization(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version of a partition, as its writer saw it."""

    materialization_id: str
    asset: str
    asset_id: str
    partition: str
    run_id: str
    task_id: str
    attempt_id: str
    path: str
    files: tuple[str, ...] = ()
    file_count: int = 0
    """How many files there are where the list holds only the first; 0 where it holds all."""
    rows: int = 0
    bytes: int = 0
    schema: tuple[ColumnInfo, ...] = ()
    schema_hash: str = ""
    fingerprint: str = ""
    metadata: dict[str, str | int | bool | None] = {}
    details: ObjectRef | None = None
    """Where all of its result is, if that was truncated: the whole `OutputCommit` as JSON, in
    the folder of the files, which lives as long as they do."""


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt consumed. `cpu_ms` is the time of this process for this task."""

    wall_ms: int = 0
    cpu_ms: int = 0
    peak_memory_kib: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    executor_cpu_ms: int = 0
    executor_run_ms: int = 0
    """Time that Spark's tasks held a core."""
    shuffle_bytes: int = 0
    spilled_bytes: int = 0
    spark_jobs: int = 0
    spark_stages: int = 0
    spark_tasks: int = 0


class Cost(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The usage in money, at the worker's prices, in 10⁻⁹ of a unit."""

    currency: str = "USD"
    cpu: int = 0
    memory: int = 0
    storage: int = 0
    prices: str = ""
    """Which prices: the first 16 hex digits of the file's SHA-256."""

    @property
    def total(self) -> int:
        return self.cpu + self.memory + self.storage


# -- checks -------------------------------------------------------------------------------

CheckStatus = Literal["passed", "failed", "error"]
"""`error`: it could not be evaluated, which counts as if it had failed."""
CheckMethod = Literal["", "footer", "duckdb", "spark", "python", "catalog"]


class CheckResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    passed: bool
    severity: str = "error"
    """A `Severity`; logs also have what reports of other tools said."""
    message: str = ""
    kind: str = ""
    phase: Phase = "after"
    input: str = ""
    """The key of the asset that was checked, if that was an input."""
    parameter: str = ""
    """Which input that was: an asset may be more than one."""
    columns: tuple[str, ...] = ()
    status: CheckStatus = "passed"
    action: GateAction = "continue"
    """What the asset's gating makes of it."""
    expected: str = ""
    actual: str = ""
    rows: int = 0
    failing: int | None = None
    """Rows that do not fit; null where rows are not what it counts."""
    method: CheckMethod = ""
    sample: tuple[str, ...] = ()
    """A few failing rows, each as JSON; personal columns are masked."""
    wall_ms: int = 0
    contract: str = ""
    """The version of the contract that promises it: if it failed, the contract is broken."""


# -- lineage ------------------------------------------------------------------------------

Influence = Literal[
    "identity",
    "transformation",
    "aggregation",
    "join",
    "group_by",
    "filter",
    "sort",
    "window",
    "conditional",
]
DIRECT: Final[tuple[Influence, ...]] = ("identity", "transformation", "aggregation")
"""Values of the source flow into the column; the other kinds only decide about them."""
LineageMethod = Literal[
    "plan", "sql", "annotation", "schema", "mixed", "none", "manual", "dbt", "openlineage"
]
"""`manual`: a person has said it; `dbt`: it was imported from there; `openlineage`: others have
reported it. No output replaces them."""
Confidence = Literal["high", "medium", "low"]


class ColumnSource(Struct, frozen=True, order=True, omit_defaults=True):
    """A column of an input, and how it affects a column or the rows of the output."""

    asset: str
    column: str
    kind: Influence = "identity"
    masked: bool = False
    """Whether the value itself cannot be seen any more: hashed, or counted."""


class ColumnLineage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    column: str
    sources: tuple[ColumnSource, ...] = ()
    method: LineageMethod = "plan"
    confidence: Confidence = "high"


class Lineage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sources of an output, as far as they are known."""

    read: tuple[InputRef, ...] = ()
    """What was really read."""
    columns: tuple[ColumnLineage, ...] = ()
    influences: tuple[ColumnSource, ...] = ()
    """Indirect, on the rows as a whole: filters, join keys, group keys, sort keys."""
    method: LineageMethod = "none"
    confidence: Confidence = "low"
    reason: str = ""
    """Why that confidence: a sentence."""
    coverage_percent: int = 0
    """Of the output's columns, those whose sources are known with at least medium confidence."""
    unmapped: tuple[str, ...] = ()


# -- results ------------------------------------------------------------------------------


class Truncated(Struct, frozen=True, omit_defaults=True):
    """A part of a result that was too large for one event, and holds only its beginning."""

    part: str
    kept: int
    total: int


class OutputCommit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a commit marker: all that an attempt which adopts the output must report."""

    materialization: Materialization
    checks: tuple[CheckResult, ...] = ()
    gate: GateAction = "continue"
    instead: MaterializationRef | None = None
    lineage: Lineage | None = None
    truncated: tuple[Truncated, ...] = ()


class TaskResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    run_id: str
    task_id: str
    attempt: int
    attempt_id: str
    outcome: TaskOutcome
    worker_id: str
    materialization: Materialization | None = None
    adopted: bool = False
    """Whether this is the output of another attempt, which had created the commit marker."""
    checks: tuple[CheckResult, ...] = ()
    gate: GateAction = "continue"
    """The strongest action of the checks. It decides what happens with the output."""
    instead: MaterializationRef | None = None
    """The version that downstream tasks read while the output is in quarantine."""
    lineage: Lineage | None = None
    error: ErrorInfo | None = None
    usage: Usage = Usage()
    cost: Cost | None = None
    truncated: tuple[Truncated, ...] = ()
    """What of it is not here in full."""
