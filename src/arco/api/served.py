"""A workspace in a server: the newest snapshot, what is derived from it, and commands.

Servers have no state of their own: all of this can be computed again from the store. The newest
generation is read when a request comes and the last read is older than `head_age_s`; commits of
this server are visible at once.
"""

from __future__ import annotations

import functools
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

from arco.api.api_settings import ApiSettings
from arco.api.file_urls import url_signer
from arco.api.page_tokens import PageTokens
from arco.api.problems import ApiError
from arco.api.reads.files import ChangeFiles
from arco.api.reads.objects import ShownObjects
from arco.api.routes import AtParameters
from arco.api.security_log import SecurityLog
from arco.api.views import DerivedState, View
from arco.api.webhook_refs import WebhookRefs
from arco.app import Workspace
from arco.app.commands import Commands
from arco.app.remote_work import RemoteWork
from arco.errors import Invalid, Unavailable
from arco.orchestration.reader import OrchestrationReader, as_of_run
from arco.security.caller import Caller
from arco.security.directory import Directory
from arco.state.snapshot import AsOf, At, Generation, Snapshot
from arco.state.sql import SqlEngine
from arco.storage.signing import Signer
from arco.times import parse_time
from arco.transport.task_keys import task_keys
from servo.contract.manifest import SecretRef

KEPT_GENERATIONS = 16
KEPT_RUNS = 100_000
KEPT_RUN_ROWS = 4_000
"""Of runs that callers of some namespaces have listed; a row takes about 2 KiB."""
KEYS_WAIT_S = 1.0
"""How long requests for other workspaces wait for the keys of one whose store hangs."""


class _HeadRead(NamedTuple):
    """One read of the newest generation."""

    commits: int
    """The number of commits here when it began."""
    began: float
    future: Future[Snapshot]


class ServedWorkspace:
    def __init__(self, workspace: Workspace, settings: ApiSettings) -> None:
        self.workspace = workspace
        self.tenant = workspace.tenant
        self.name = workspace.name
        self.path = f"{workspace.tenant}/{workspace.name}"
        self._settings = settings
        self._derived = DerivedState()
        self._lasting = DerivedState(KEPT_RUNS)
        self._run_rows = DerivedState(KEPT_RUN_ROWS)
        self.tables = {str(table): table for table in workspace.tables}
        self.change_files = ChangeFiles()
        self.objects = ShownObjects(workspace.store)
        self._lock = threading.Lock()
        self._newest: Snapshot | None = None
        self._directory: Directory | None = None
        """Keys and roles of the newest snapshot."""
        self._webhooks = WebhookRefs()
        self._looked_at = self._seen_at = float("-inf")
        self._commits = 0
        """How often something was committed here."""
        self._looker = ThreadPoolExecutor(1, thread_name_prefix="head")
        self._looking: _HeadRead | None = None
        self.security_log = SecurityLog(workspace)
        self._numbered = functools.lru_cache(maxsize=KEPT_GENERATIONS)(self._open)

    @functools.cached_property
    def tokens(self) -> PageTokens:
        return PageTokens(task_keys(self.workspace.store)[0].secret)

    @functools.cached_property
    def work(self) -> RemoteWork:
        """What is done for workers that have no access to the store."""
        return self.workspace.runtime.remote_work()

    @functools.cached_property
    def signer(self) -> Signer:
        """Signs URLs of files that this server sends itself."""
        return url_signer(self.tenant, self.name, self.workspace.store, self.workspace.clock)

    def load_keys(self) -> None:
        """Read what signatures are verified with."""
        assert self.signer and self.work

    @property
    def has_keys(self) -> bool:
        """Whether signatures can be verified without a look at the store."""
        return "signer" in self.__dict__ and "work" in self.__dict__

    def webhook_secret(self, sensor_id: str) -> SecretRef | None:
        """What events for a sensor are signed with, as it was seen last; None if it takes none."""
        return None if self._recent() is None else self._webhooks.secrets.get(sensor_id)

    @functools.cached_property
    def sql(self) -> SqlEngine:
        return self.workspace.read.sql()

    def close(self) -> None:
        self._looker.shutdown(wait=False, cancel_futures=True)
        if "sql" in self.__dict__:
            self.sql.close()

    # -- which generation ----------------------------------------------------------------

    def recent(self) -> Snapshot | None:
        """The newest snapshot without a read of the store; None if the last read is too old.

        The next read starts in the background before that, so that frequent requests do not wait.
        """
        age = self.workspace.clock.monotonic() - self._looked_at
        if age > self._settings.head_age_s:
            return None
        if age > self._settings.head_age_s / 2:
            self._head_read()
        return self._newest

    def newest(self, wait_s: float | None = None) -> Snapshot:
        """The newest snapshot. Concurrent requests share one read of the store, with a timeout."""
        wait_s = self._settings.look_wait_s if wait_s is None else wait_s
        commits = self._commits
        while True:
            recent = self.recent()
            if recent is not None:
                return recent
            read = self._head_read()
            patience_s = wait_s - (time.monotonic() - read.began)
            try:
                snapshot = read.future.result(max(0.0, patience_s))
            except TimeoutError:
                raise Unavailable(
                    "the store does not respond", hint="try again in a moment"
                ) from None
            if read.commits >= commits:  # otherwise it began before a commit of this server
                return snapshot

    def newest_or_recent(self) -> Snapshot:
        """For keys and roles: while the store does not respond, the last snapshot, for a while."""
        recent = self._recent()
        if recent is None:
            return self.newest()
        try:
            return self.newest(self._keys_wait_s(recent))
        except Unavailable:
            return recent

    def directory(self) -> Directory:
        """Keys and roles of `newest_or_recent`, which were read with the generation."""
        self.newest_or_recent()
        assert self._directory is not None
        return self._directory

    def key_read(self) -> tuple[Future[Snapshot], float] | None:
        """The read that `newest_or_recent` would wait for, and how long; None if it would not."""
        if self.recent() is not None:
            return None
        read = self._head_read()
        patience_s = self._keys_wait_s(self._recent()) - (time.monotonic() - read.began)
        return read.future, max(0.0, patience_s)

    def _recent(self) -> Snapshot | None:
        age_s = self.workspace.clock.monotonic() - self._seen_at
        return self._newest if age_s <= self._settings.stale_keys_s else None

    def _keys_wait_s(self, recent: Snapshot | None) -> float:
        look_wait_s = self._settings.look_wait_s
        return look_wait_s if recent is None else min(KEYS_WAIT_S, look_wait_s)

    def _head_read(self) -> _HeadRead:
        """The read in progress, or a new one."""
        with self._lock:
            if self._looking is None or self._looking.future.done():
                commits = self._commits
                future = self._looker.submit(self._refresh, commits)
                self._looking = _HeadRead(commits, time.monotonic(), future)
            return self._looking

    def _refresh(self, commits: int) -> Snapshot:
        before, now = self._newest, self.workspace.clock.monotonic()
        snapshot = self.workspace.read.snapshot() if before is None else before.refresh()
        directory = Directory.read(snapshot, self._directory)
        webhooks = self._webhooks.refreshed(snapshot)
        with self._lock:
            self._newest, self._seen_at, self._directory = snapshot, now, directory
            self._webhooks = webhooks
            if commits == self._commits:
                self._looked_at = now
        return snapshot

    def invalidate(self) -> None:
        """After a commit: the next request reads the store."""
        with self._lock:
            self._commits += 1
            self._looked_at = float("-inf")

    def snapshot(self, at: AtParameters) -> Snapshot:
        moment = self._moment(at)
        if moment is None:
            return self.newest()
        if isinstance(moment, Generation):
            newest = self._newest
            if newest is not None and newest.generation == moment.number:
                return newest
            return self._numbered(moment.number)
        return self.workspace.read.snapshot(moment)

    def _open(self, number: int) -> Snapshot:
        return self.workspace.read.snapshot(Generation(number))

    def _moment(self, at: AtParameters) -> At | None:
        moments = [
            name for name in ("generation", "as_of", "as_of_run") if getattr(at, name) is not None
        ]
        if len(moments) > 1:
            raise ApiError(
                "invalid", f"{' and '.join(moments)} are mutually exclusive", code="two_moments"
            )
        if at.generation is not None:
            return Generation(at.generation)
        if at.as_of is not None:
            return AsOf(parse_time(at.as_of, self.workspace.clock.now()))
        if at.as_of_run is not None:
            if not at.as_of_run:
                raise Invalid("as_of_run is empty", hint="give the id of a run")
            run = OrchestrationReader(self.newest()).run(at.as_of_run)
            return as_of_run(run.run_id)
        return None

    # -- reading and writing -------------------------------------------------------------

    def view(self, at: AtParameters, caller: Caller | None = None) -> View:
        snapshot = self.snapshot(at)
        is_current = self._moment_is_now(at)
        return View(
            tenant=self.tenant,
            workspace=self.name,
            snapshot=snapshot,
            manifests=self.workspace.manifests,
            library=self.workspace.library,
            store=self.workspace.store,
            now=self._now() if is_current else snapshot.published_at,
            clock=self.workspace.clock,
            types=self.workspace.core.types,
            is_current=is_current,
            derived=self._derived,
            lasting=self._lasting,
            run_rows=self._run_rows,
            tables=self.tables,
            caller=caller,
        )

    def _moment_is_now(self, at: AtParameters) -> bool:
        return at.generation is None and at.as_of is None and at.as_of_run is None

    def _now(self) -> datetime:
        return self.workspace.clock.now()

    def commands(self, caller: Caller, idempotency_key: str = "") -> Commands:
        """Commands in a caller's name."""
        return self.workspace.acting(caller, idempotency_key=idempotency_key)


class KeySource:
    """The keys and roles of a workspace, for authentication."""

    def __init__(self, served: ServedWorkspace) -> None:
        self.served = served

    @property
    def tenant(self) -> str:
        return self.served.tenant

    @property
    def name(self) -> str:
        return self.served.name

    def directory(self) -> Directory:
        return self.served.directory()
