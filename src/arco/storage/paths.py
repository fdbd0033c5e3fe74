"""The layout of a workspace. Only this module has its paths.

Paths are relative to `{tenant}/{workspace}/`, which `ScopedStore` adds. Numbers
are padded to twenty digits, so that the order of names is the order of numbers.
"""

from __future__ import annotations

import re

INBOX = "ledger/inbox/"
SEGMENTS = "ledger/segments/"
REJECTED = "ledger/rejected/"
MANIFESTS = "manifests/"
HINT = "manifests/head.json"
FLOORS = "manifests/floor/"
PINS = "manifests/pins/"
STATE = "state/"
LEASES = "leases/"
LIVENESS = "liveness/"
ORCHESTRATORS = "liveness/orchestrators/"
CANCELLED = "liveness/cancelled/"
SENSOR_TURNS = "liveness/sensors/"
LOGIN_CODES = "liveness/logins/"
LOGS = "logs/"
QUEUE = "queue/"
INPUTS = "inputs/"
COMMITS = "commits/"
CLOCK = "clock.json"
"""Overwritten to measure the store's time."""

_ROOT = re.compile(r"manifests/(\d{20})\.json")
_FLOOR = re.compile(r"manifests/floor/(\d{20})\.json")


def inbox(name: str) -> str:
    return f"{INBOX}{name}.json"


def inbox_name(path: str) -> str:
    """The batch's name from its path in the inbox (whatever a stranger put there)."""
    return path.removeprefix(INBOX).removesuffix(".json")


def rejection(key: str) -> str:
    """Why a batch was rejected; `key` is a name of our own."""
    return f"{REJECTED}{key}.json"


def rejected_object(key: str) -> str:
    """The rejected object itself, as it was."""
    return f"{REJECTED}{key}.object"


def segment(first: int, last: int, nonce: str) -> str:
    return f"{SEGMENTS}{first:020d}-{last:020d}-{nonce}.parquet"


def segment_first(path: str) -> int:
    """The first position that a segment's path names; 0 if it names none."""
    first = path.removeprefix(SEGMENTS).partition("-")[0]
    return int(first) if first.isdecimal() else 0


def root(generation: int) -> str:
    return f"{MANIFESTS}{generation:020d}.json"


def root_generation(path: str) -> int | None:
    """The generation that a path names, or None if it is no root manifest."""
    match = _ROOT.fullmatch(path)
    return int(match[1]) if match else None


def floor(number: int) -> str:
    return f"{FLOORS}{number:020d}.json"


def marks(number: int) -> str:
    """What the thinned generations of a floor refer to."""
    return f"{FLOORS}{number:020d}.marks"


def floor_number(path: str) -> int | None:
    """The number of the floor that a path names, or None if it names none."""
    match = _FLOOR.fullmatch(path)
    return int(match[1]) if match else None


def domain(name: str, generation: int, nonce: str) -> str:
    return f"{MANIFESTS}{name}/{generation:020d}-{nonce}.json"


def history_list(domain: str, table: str, nonce: str) -> str:
    return f"{MANIFESTS}{domain}/history/{table}/{nonce}.json"


def changes(last: int, nonce: str) -> str:
    """A change file; `last` is the highest row_version in it."""
    return f"{STATE}changes/{last:020d}-{nonce}.parquet"


def state_file(domain: str, table: str, level: str, stem: str) -> str:
    return f"{STATE}{domain}/{table}/{level}/{stem}.parquet"


def pin(name: str) -> str:
    return f"{PINS}{name}.json"


def plan(plan_id: str) -> str:
    return f"plans/{plan_id}.json"


def input_list(run: str, digest: str) -> str:
    """A long list of a task's input versions; by the file's SHA-256."""
    return f"{INPUTS}{run}/{digest}.parquet"


def schema_rule(run: str, digest: str) -> str:
    """A large schema rule of a run."""
    return f"{INPUTS}{run}/{digest}.zlib"


def artifact(digest: str) -> str:
    return f"artifacts/{digest}.zip"


def manifest(digest: str) -> str:
    """A project's manifest, by the SHA-256 of its canonical JSON."""
    return f"artifacts/{digest}.json"


def attempt_log(run: str, task: str, attempt: int, nonce: str) -> str:
    """What the paths of the parts of an attempt's log begin with.

    The nonce is of one delivery of the attempt, and names of later ones sort after it.
    """
    return f"{LOGS}{run}/{task}/{attempt}.{nonce}"


def log_part(log: str, number: int) -> str:
    return f"{log}.{number:06d}.log"


def cancelled_run(run: str) -> str:
    return f"{CANCELLED}{run}.json"


def partition_folder(namespace: str, asset: str, partition: str) -> str:
    """Where the versions of a partition lie; `partition` is a `path_segment`."""
    return f"data/{namespace}/{asset}/{partition}"


def output_commit(run: str, task: str) -> str:
    """Created only if absent: of several attempts of a task, one commits its output.

    Markers of a run share a folder: creating a folder for each would cost three times as much.
    """
    return f"{COMMITS}{run}/{task}.json"


def output_details(folder: str, digest: str) -> str:
    """All of a result that was too large for its event, beside the files of its output.

    Spark and DuckDB take no notice of names that begin so; data GC takes it with the files.
    """
    return f"{folder}/_result-{digest}.json"


def liveness(worker: str) -> str:
    return f"{LIVENESS}{worker}.json"


def orchestrator(name: str) -> str:
    return f"{ORCHESTRATORS}{name}.json"


def sensor_turn(name: str) -> str:
    return f"{SENSOR_TURNS}{name}.json"


def login_code(session: str) -> str:
    """Created only if absent: a code of `servo auth login` is exchanged once."""
    return f"{LOGIN_CODES}{session}.json"


SESSION_KEYS = "keys/sessions.json"
"""The key for login sessions, if none is configured."""
TASK_KEYS = "keys/tasks.json"
"""The key for envelopes, if none is configured."""
