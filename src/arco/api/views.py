"""One generation of a workspace, as a request reads it. A view has nothing that writes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from arco.api.command_keys import id_of_key, stored_key
from arco.clock import Clock
from arco.errors import NotFound
from arco.log.envelope import EventTypes
from arco.log.head import Manifests
from arco.orchestration.reader import Library
from arco.orchestration.tables import RunRow
from arco.security.caller import Caller
from arco.security.permissions import Permission
from arco.security.visibility import NOTHING, Visible
from arco.state.snapshot import Generation, Snapshot
from arco.state.table import Table
from arco.storage.port import Store

T = TypeVar("T")

KEPT = 32


class DerivedState:
    """A bounded cache of values derived from whole tables, by generation: sorted keys, indexes.

    Values are shared by requests, and must not be changed.
    """

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return cast(T, self._values[key])
        value = make()  # two requests may both compute it; the values are equal
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._limit:
                self._values.popitem(last=False)
        return value

    def get_many(
        self, keys: Sequence[Hashable], make: Callable[[list[Hashable]], Mapping[Hashable, T]]
    ) -> dict[Hashable, T]:
        """The same for many; missing ones are computed together."""
        with self._lock:
            values = {key: self._values[key] for key in keys if key in self._values}
            for key in values:
                self._values.move_to_end(key)
        missing = [key for key in keys if key not in values]
        if missing:
            added = make(missing)
            values |= added
            with self._lock:
                self._values |= added
                while len(self._values) > self._limit:
                    self._values.popitem(last=False)
        return values


class View:
    def __init__(
        self,
        *,
        tenant: str,
        workspace: str,
        snapshot: Snapshot,
        manifests: Manifests,
        library: Library,
        store: Store,
        now: datetime,
        clock: Clock,
        types: EventTypes,
        is_current: bool,
        derived: DerivedState,
        lasting: DerivedState,
        run_rows: DerivedState,
        tables: Mapping[str, Table[Any]] | None = None,
        caller: Caller | None = None,
    ) -> None:
        self.tenant = tenant
        self.workspace = workspace
        self.snapshot = snapshot
        self._manifests = manifests
        self.library = library
        self.store = store
        """For logs, plans and liveness, which are not in tables."""
        self.now = now
        """The time that answers are about: of an older generation, when that was published."""
        self.clock = clock
        self.types = types
        """Of events of the log."""
        self.is_current = is_current
        """Whether it was the newest: then answers include the state outside of tables."""
        self._derived = derived
        self._lasting = lasting
        self._run_rows = run_rows
        self.tables = tables or {}
        """All tables that this program knows, by their names."""
        self._caller = caller

    @property
    def generation(self) -> int:
        return self.snapshot.generation

    @property
    def manifests(self) -> Manifests:
        return self._manifests

    def earlier(self, generation: int) -> Snapshot:
        """The snapshot of another generation."""
        return Snapshot.open(self._manifests, self.snapshot.files, Generation(generation))

    def stored_key(self, key: str) -> str:
        """An idempotency key of the caller as the log has it."""
        assert self._caller is not None
        return stored_key(self._caller, key)

    def id_of_key(self, key: str) -> str:
        """The id of what was created under an idempotency key of the caller."""
        return id_of_key(self.stored_key(key))

    @property
    def sees_security(self) -> bool:
        """Whether the caller may read all of keys, roles and the audit log."""
        needed = (Permission.KEYS_MANAGE, Permission.ROLES_MANAGE, Permission.AUDIT_READ)
        return self._caller is not None and all(map(self._caller.may, needed))

    @property
    def sees_objects(self) -> bool:
        """Whether the caller may read the tables' own files, with all rows of all namespaces."""
        needed = (Permission.METADATA_READ_ALL, Permission.RUNS_READ)
        return self._caller is not None and all(map(self._caller.may, needed))

    @property
    def sees_runs_of(self) -> Visible:
        """Where the caller may read runs: their plans, logs and inputs."""
        return NOTHING if self._caller is None else self._caller.where(Permission.RUNS_READ)

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """Made once for a generation."""
        return self._derived.get((self.tenant, self.workspace, self.generation, name), make)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Made once for all generations: of what never changes."""
        return self._lasting.get((self.tenant, self.workspace, key), make)

    def kept_run(self, name: Hashable, read: Callable[[], RunRow]) -> RunRow:
        """A run of a history file, by a name that tells the file too."""
        return self._run_rows.get(name, read)

    def once_many(
        self, kind: str, ids: Sequence[str], make: Callable[[list[str]], Mapping[str, T]]
    ) -> dict[str, T]:
        """The same for `(kind, id)` of many ids."""
        at = {(self.tenant, self.workspace, (kind, id)): id for id in ids}

        def make_missing(keys: list[Hashable]) -> dict[Hashable, T]:
            values = make([at[key] for key in keys])  # type: ignore[index]
            return {key: values[at[key]] for key in keys}  # type: ignore[index]

        values = self._lasting.get_many(list(at), make_missing)
        return {id: values[key] for key, id in at.items()}


def require_namespace(visible: Visible, namespace: str) -> None:
    """Raise NotFound for a namespace that the caller does not see, as for one that is not there."""
    if not visible.sees(namespace):
        raise NotFound(f"there is no namespace {namespace}")


def require_asset(visible: Visible, key: str) -> None:
    if not visible.sees_asset(key):
        raise NotFound(f"there is no asset {key}")
