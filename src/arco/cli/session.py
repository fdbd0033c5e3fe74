"""What every command is given: the chosen workspace and the output format."""

from __future__ import annotations

import dataclasses
import getpass
import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arco.app import Workspace
from arco.clock import Clock, MovedClock, SystemClock
from arco.config import Config, ConfigSource, resolve, resolve_running
from arco.errors import Invalid, NotFound
from arco.orchestration.reader import as_of_run
from arco.state.snapshot import AsOf, At, Generation
from arco.storage.open import open_store
from arco.storage.scoped import ScopedStore
from arco.times import parse_time
from arco.worker.pricing import Pricing


@dataclass(frozen=True)
class Session:
    store: str | None = None
    tenant: str | None = None
    workspace: str | None = None
    json: bool = False
    wide: bool = False
    debug: bool = False
    actor: str | None = None
    idempotency_key: str = ""
    generation: int | None = None
    as_of: str | None = None
    as_of_run: str | None = None

    @property
    def api(self) -> str:
        """The URL of the API, if this command is to go through one."""
        return "" if self.store else os.environ.get("ARCO_API", "")

    def config(self) -> Config:
        options = ConfigSource(self.store or self.api or None, self.tenant, self.workspace)
        return resolve(options, os.environ, Path.cwd())

    def require_store(self) -> None:
        """Raise for a command that does not work through the API."""
        if self.api:
            raise _needs_store()

    def open(self, *, create: bool = False, **settings: Any) -> Workspace:
        """The workspace, with settings of its own. A local store must exist, unless `create`."""
        config = self.config()
        if self.api:
            return self._open_remote(config, create=create)
        if not create:
            require_directory(config)
        running = resolve_running(os.environ, Path.cwd())
        workspace = Workspace.open(
            config.store,
            config.tenant,
            config.workspace,
            clock=self.clock(),
            source="servo",
            actor=self.who(),
            spark=running.spark,
            pricing=None if running.pricing is None else Pricing.read(running.pricing),
            **settings,
        )
        workspace.writer.publisher.cleanup.start()
        _opened.append(workspace)
        return workspace

    def _open_remote(self, config: Config, *, create: bool) -> Workspace:
        if create:
            raise _needs_store()
        # An HTTP client takes a while to import.
        remote = importlib.import_module("arco.remote.workspace")
        workspace: Workspace = remote.connected(
            config, os.environ, clock=self.clock(), actor=self.who(), source="servo"
        )
        return workspace

    def open_other(self, tenant: str, workspace: str) -> Workspace:
        """Another workspace of the same store."""
        return dataclasses.replace(self, tenant=tenant, workspace=workspace).open()

    def clock(self) -> Clock:
        """The system's clock, or one that a file shifts, for experiments on a local store."""
        file = os.environ.get("ARCO_CLOCK")
        if not file:
            return SystemClock()
        if self.config().directory is None:
            raise Invalid(
                f"ARCO_CLOCK moves the clock of a local store, not that of {self.config().store}",
                hint="unset ARCO_CLOCK, or give a local store",
            )
        return MovedClock(Path(file))

    def beside(self, url: str) -> ScopedStore:
        """The path of the same workspace in another store."""
        config = self.config()
        return ScopedStore(open_store(url), config.tenant, config.workspace)

    def who(self) -> str:
        """The actor that events name: the option, the environment, or the OS user."""
        return self.actor or os.environ.get("ARCO_ACTOR") or _os_user()

    def at(self) -> At | None:
        """The generation that a read asks for; None for the newest."""
        options = {
            "--generation": self.generation,
            "--as-of": self.as_of,
            "--as-of-run": self.as_of_run,
        }
        several = [name for name, value in options.items() if value is not None]
        if len(several) > 1:
            raise Invalid(
                f"{' and '.join(several)} are mutually exclusive", hint="give one of them"
            )
        if self.generation is not None:
            return Generation(self.generation)
        if self.as_of is not None:
            return AsOf(parse_time(self.as_of, self.clock().now()))
        if self.as_of_run is not None:
            workspace = _opened[-1] if _opened else self.open()
            return as_of_run(workspace.read.orchestration().find_run(self.as_of_run).run_id)
        return None


def _needs_store() -> Invalid:
    return Invalid(
        "this command needs the store itself: it does not work through the API",
        hint="unset ARCO_API, and give --store",
    )


_opened: list[Workspace] = []


def close() -> None:
    """Wait for background work before the process ends."""
    while _opened:
        _opened.pop().writer.publisher.cleanup.finish()


def require_directory(config: Config) -> None:
    """Refuse a path that does not exist; a mistyped one would create a new local store."""
    directory = config.directory
    if directory is not None and not directory.is_dir():
        raise NotFound(
            f"there is no store at {directory}",
            hint=f"check the path, or create the store: servo admin init --store {config.store}",
        )


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
