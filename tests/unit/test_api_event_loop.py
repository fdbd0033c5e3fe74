"""What has changed in keys and roles is read by threads, never by the event loop."""

from __future__ import annotations

import threading
from typing import Any

from arco.api.served import KeySource
from arco.app import Workspace
from arco.security.authentication import Directories, KeyAuthenticator
from arco.security.permissions import Role
from arco.storage.memory import MemoryStore
from arco.storage.port import Object
from tests.kit.api import ApiClient, ApiWorld
from tests.kit.clocks import SimClock
from tests.kit.workspace import NAME, TENANT


class WatchedStore(MemoryStore):
    """Notes which threads read."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.readers: set[int] = set()

    def get(self, path: str) -> Object:
        self.readers.add(threading.get_ident())
        return super().get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        self.readers.add(threading.get_ident())
        return super().get_range(path, start, length)


def test_a_change_of_roles_is_read_in_a_thread() -> None:
    clock = SimClock()
    store = WatchedStore(clock)
    writer = Workspace(store, TENANT, NAME, clock=clock)
    key = str(writer.commands.security.create_key("own", Role.VIEWER).text)
    world = ApiWorld(Workspace(store, TENANT, NAME, clock=clock), head_age_s=1_000.0)
    world.add_authenticator(KeyAuthenticator(Directories([KeySource(world.served)]), clock.now))
    client = ApiClient(world, key)
    assert client.send("GET", "/api/v1/me").status_code == 200
    writer.commands.security.create_key("another", Role.VIEWER)
    world.served.invalidate()
    store.readers.clear()
    assert client.send("GET", "/api/v1/me").status_code == 200
    assert store.readers and threading.get_ident() not in store.readers
    store.readers.clear()
    assert client.send("GET", "/api/v1/me").status_code == 200
    assert not store.readers
    world.close()
