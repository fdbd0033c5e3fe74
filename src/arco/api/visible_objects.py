"""Objects of the store for callers with a role on some namespaces: the visible part of each.

Table rows come from `POST …/rows`. This module has the other objects: root manifests without tables
(they list the generations), plans and project manifests without hidden assets, input lists and logs
of visible tasks, and liveness records without hidden work. Hidden objects are treated as missing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from arco.api.hidden_names import Scrubbing, hidden_namespaces
from arco.api.row_visibility import RowVisibility
from arco.api.visible_plans import visible_manifest, visible_spec
from arco.automation.sensor_tables import SENSORS
from arco.dispatch.sensor_sender import message_name, task_of
from arco.errors import NotFound
from arco.log.manifest import RootManifest, encode_sealed
from arco.orchestration.input_lists import decode as decode_inputs
from arco.orchestration.plan import decode_plan, encode_plan
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.tables import TASKS
from arco.storage import paths
from arco.storage.port import ObjectMeta
from arco.storage.seal import unseal
from arco.transport.liveness import LivenessRecord, OrchestratorRecord
from arco.transport.queues.objectstore import name_of_message
from servo.contract.identity import dispatch_name
from servo.contract.manifest import decode_manifest, encode_manifest

PLANS: Final = "plans/"
ARTIFACTS: Final = "artifacts/"
_LISTED: Final = (paths.MANIFESTS, paths.LOGS, paths.LIVENESS, paths.QUEUE)
_LOG: Final = re.compile(rf"{paths.LOGS}([^/]+)/([^/]+)/[^/]+\.log")
_SENSOR_LOG: Final = re.compile(r"logs/sensors/([^/]+)/.+\.log")


class VisibleObjects:
    """Of one caller, at the newest generation."""

    def __init__(self, visibility: RowVisibility) -> None:
        self._seen = visibility
        self._view = visibility.view
        self._store = visibility.view.store

    def get(self, path: str) -> bytes:
        """Raises NotFound for what the caller does not see, as for what is not there."""
        make = self._maker(path)
        if make is None:
            raise NotFound(f"{path} does not exist")
        data: bytes | None = make(self._store.get(path).data, path)
        if data is None:
            raise NotFound(f"{path} does not exist")
        return data

    def list(self, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
        if not prefix.startswith(_LISTED):
            raise NotFound(f"objects that begin with {prefix} are not available")
        for meta in self._store.list(prefix, start_after):
            if self._is_listed(meta.path):
                yield meta

    def _is_listed(self, path: str) -> bool:
        if path.startswith(paths.QUEUE):
            return name_of_message(path) in self._messages
        return self._maker(path) is not None

    def _maker(self, path: str) -> Callable[[bytes, str], bytes | None] | None:
        """The function that computes the visible part of an object; None if it is hidden."""
        if paths.root_generation(path) is not None:
            return _bare_root
        if path == paths.HINT or paths.floor_number(path) is not None:
            return _as_it_is
        if path.startswith(PLANS):
            return self._plan
        if path.startswith(ARTIFACTS) and path.endswith(".json"):
            return self._manifest
        if path.startswith(paths.INPUTS) and path.endswith(".parquet"):
            return self._inputs
        if path.startswith(paths.LOGS):
            return self._log if self._sees_log(path) else None
        if path.startswith(paths.LIVENESS):
            return self._liveness(path)
        return None

    # -- plans, declared code, inputs ----------------------------------------------------

    def _plan(self, raw: bytes, path: str) -> bytes | None:
        plan = decode_plan(raw)
        if not self._seen.run(plan.run_id):
            return None
        spec = visible_spec(plan.spec, self._seen)
        return self._scrubbed(encode_plan(msgspec.structs.replace(plan, spec=spec)))

    def _manifest(self, raw: bytes, path: str) -> bytes | None:
        manifest = visible_manifest(decode_manifest(raw), self._seen)
        return None if manifest is None else self._scrubbed(encode_manifest(manifest))

    def _inputs(self, raw: bytes, path: str) -> bytes | None:
        """The versions of one asset: the paths of their files name it."""
        namespaces = {each.path.split("/")[1] for each in decode_inputs(raw) if "/" in each.path}
        return raw if namespaces and all(map(self._seen.namespace, namespaces)) else None

    def _scrubbed(self, raw: bytes) -> bytes:
        document = msgspec.json.decode(raw)
        hidden = hidden_namespaces(self._view, self._seen.visible)
        return msgspec.json.encode(Scrubbing(hidden).value(document) if hidden else document)

    # -- logs ----------------------------------------------------------------------------

    def _sees_log(self, path: str) -> bool:
        if match := _SENSOR_LOG.fullmatch(path):
            return match[1] in self._sensors
        match = _LOG.fullmatch(path)
        return match is not None and self._sees_task(match[1], match[2])

    @functools.cache  # noqa: B019 - of one request
    def _sees_task(self, run_id: str, task_id: str) -> bool:
        row = self._view.snapshot.get(TASKS, run_id, task_id)
        return row is not None and self._seen.asset(row.asset_key)

    def _log(self, raw: bytes, path: str) -> bytes:
        """Parts of logs are whole lines: no name is cut in two."""
        hidden = hidden_namespaces(self._view, self._seen.visible)
        text = raw.decode("utf-8", "replace")
        return raw if not hidden else str(Scrubbing(hidden).value(text)).encode()

    @functools.cached_property
    def _sensors(self) -> dict[str, str]:
        """By what stands for them in names of objects: the sensors that the caller sees."""
        rows = self._view.snapshot.all(SENSORS)
        return {
            task_of(row.sensor_id): row.sensor_id for row in rows if self._seen.project(row.project)
        }

    # -- liveness records, the queue -----------------------------------------------------

    def _liveness(self, path: str) -> Callable[[bytes, str], bytes | None] | None:
        name = path.rpartition("/")[2].removesuffix(".json")
        if path.startswith(paths.ORCHESTRATORS):
            return self._orchestrator
        if path.startswith(paths.CANCELLED):
            return _as_it_is if self._seen.run(name) else None
        if path.startswith(paths.SENSOR_TURNS):
            return _as_it_is if name in self._sensors else None
        return None if path.startswith(paths.LOGIN_CODES) else self._worker

    def _worker(self, raw: bytes, path: str) -> bytes | None:
        """With as many tasks as it has, and what it says of those that the caller sees."""
        record = _decoded(raw, LivenessRecord)
        if record is None:
            return None
        own = {
            id: each
            for id, each in record.attempts.items()
            if self._sees_task(each.run_id, each.task_id)
        }
        busy = record.busy or len(record.attempts)
        return msgspec.json.encode(msgspec.structs.replace(record, attempts=own, busy=busy))

    def _orchestrator(self, raw: bytes, path: str) -> bytes | None:
        record = _decoded(raw, OrchestratorRecord)
        if record is None:
            return None
        adopted = tuple([run for run in record.adopted if self._seen.run(run)])
        return msgspec.json.encode(msgspec.structs.replace(record, adopted=adopted, runs=0))

    @functools.cached_property
    def _messages(self) -> frozenset[str]:
        """Names of messages of the queue about what the caller sees."""
        tasks = OrchestrationReader(self._view.snapshot).tasks_in_flight()
        names = {
            dispatch_name(t.run_id, t.task_id, t.attempt, redelivery=t.redelivery)
            for t in tasks
            if self._seen.asset(t.asset_key)
        }
        return frozenset(names | {message_name(sensor) for sensor in self._sensors.values()})


def _as_it_is(raw: bytes, path: str) -> bytes:
    return raw


def _bare_root(raw: bytes, path: str) -> bytes:
    """Which generation it is, and of when; sealed again."""
    root = msgspec.json.decode(unseal(raw, path), type=RootManifest)
    bare = RootManifest(
        format=root.format,
        requires=root.requires,
        tenant_id=root.tenant_id,
        workspace_id=root.workspace_id,
        generation=root.generation,
        kind=root.kind,
        commit_id=root.commit_id,
        parent_sha256=root.parent_sha256,
        published_at=root.published_at,
        log_time=root.log_time,
        position=root.position,
        rewritten_at=root.rewritten_at,
        domains={},
    )
    return encode_sealed(bare)


def _decoded(raw: bytes, kind: type[Any]) -> Any:
    """A record; None if a stranger's file is in its place."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        return None
