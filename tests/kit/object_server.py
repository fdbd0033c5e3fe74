"""The objects of a store behind a real server, for all who ask: what a worker's store talks to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from litestar import Request

from arco.api.api_settings import ApiSettings
from arco.api.application import make_app
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.api.serving import Binding, serve
from arco.api.work_objects import ObjectAccess, Objects
from arco.app import Workspace
from arco.storage.port import Store
from arco.transport.work_grants import ObjectRules


class AllRules(ObjectRules, frozen=True):
    """Everything may be done with all objects."""

    def may_read(self, path: str) -> bool:
        return True

    def may_list(self, prefix: str) -> bool:
        return True

    def is_own(self, path: str) -> bool:
        return True


class _OpenObjects(Objects):
    def __init__(self, server: ApiServer, store: Store) -> None:
        super().__init__(server)
        self._served = server.workspaces.values()
        self._store = store

    async def access(
        self, request: Request[Any, Any, Any], operation: str, route: str
    ) -> ObjectAccess:
        (served,) = self._served
        return ObjectAccess(served, self._store, AllRules())


@contextlib.contextmanager
def serving_objects(folder: Path, store: Store | None = None) -> Iterator[str]:
    """The URL of an empty store in this folder, or of another one.

    The server has a workspace of its own, because it writes its keys when it starts.
    """
    workspace = Workspace.open(f"file://{folder}/store", "acme", "dev")
    settings = ApiSettings(threads=32)
    server = ApiServer([ServedWorkspace(workspace, settings)], [], settings, workspace.clock)
    empty = Workspace.open(f"file://{folder}/objects", "acme", "dev").store
    objects = _OpenObjects(server, store or empty)
    app = make_app(server, [], workspace.ids, objects=objects)
    binding = Binding(port=0)
    listening: socket.socket = binding.listen()
    stop = threading.Event()
    thread = threading.Thread(target=serve, args=(server, app, binding, listening, stop))
    thread.start()
    try:
        yield f"{binding.url(listening)}/api/v1/workspaces/acme/dev/work"
    finally:
        stop.set()
        thread.join()
