"""Event streams: from a position, for a caller, until the client leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from litestar.types import Message

from arco.security.permissions import Role
from tests.kit.api import BASE, ApiClient, ApiWorld, Company


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


@pytest.fixture
def world(company: Company) -> Iterator[ApiWorld]:
    world = ApiWorld(company.town.fresh(), streams_per_caller=2, ping_s=0.05)
    yield world
    world.close()


class _Connection:
    """A client of the application that reads a stream and leaves."""

    def __init__(self, world: ApiWorld, token: str, query: str = "", last: str = "") -> None:
        self._app = world.app
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._leave = asyncio.Event()
        headers = [(b"authorization", f"Bearer {token}".encode())]
        headers += [(b"last-event-id", last.encode())] if last else []
        path = f"{BASE}/events"
        self._scope: Any = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("arco", 80),
            "state": {},
        }

    async def _receive(self) -> Any:
        await self._leave.wait()
        return {"type": "http.disconnect"}

    async def __aenter__(self) -> _Connection:
        self._task: asyncio.Task[Any] = asyncio.create_task(
            self._app(self._scope, self._receive, self._messages.put)  # type: ignore[arg-type]
        )
        self.start: Any = await self._messages.get()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave.set()
        await asyncio.wait_for(self._task, 10)

    async def events(self, count: int) -> list[dict[str, Any]]:
        """The next so many events, without pings."""
        found: list[dict[str, Any]] = []
        async for text in self._texts():
            for block in text.decode().split("\n\n"):
                lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
                if "data" in lines:
                    found.append(json.loads(lines["data"]) | {"id": lines["id"]})
            if len(found) >= count:
                return found[:count]
        return found

    async def ends(self) -> None:
        await asyncio.wait_for(self._task, 10)

    async def _texts(self) -> AsyncIterator[bytes]:
        while True:
            message = await asyncio.wait_for(self._messages.get(), 20)
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            yield body


def token(client: ApiClient) -> str:
    return client.token


def test_a_stream_resumes_by_position_without_loss_or_repetition(world: ApiWorld) -> None:
    async def read() -> tuple[list[str], list[str]]:
        owner = token(world.owner)
        async with _Connection(world, owner, "after=0") as whole:
            everything = [event["id"] for event in await whole.events(30)]
        parts: list[str] = []
        while len(parts) < 30:
            last = parts[-1] if parts else "0"
            async with _Connection(world, owner, last=last) as part:
                parts += [event["id"] for event in await part.events(7)]
        return everything, parts[:30]

    everything, parts = world.runner.run(read())
    assert everything == parts
    assert len(set(everything)) == 30


def test_new_events_arrive_and_leaving_cleans_up(world: ApiWorld) -> None:
    async def read() -> list[dict[str, Any]]:
        async with _Connection(world, token(world.owner), "type=catalog.") as listener:
            await asyncio.to_thread(world.workspace.commands.catalog.create_asset, "sales.streamed")
            return await listener.events(1)

    (event,) = world.runner.run(read())
    assert (event["type"], event["asset"]) == ("catalog.asset_created", "sales.streamed")


def test_a_caller_hears_of_what_he_sees(world: ApiWorld, company: Company) -> None:
    async def read(of: str) -> list[dict[str, Any]]:
        async with _Connection(world, of, "after=0") as listener:
            return await listener.events(8)

    events = world.runner.run(read(token(world.client(Role.VIEWER, "sales"))))
    assert all(event.get("namespace", "sales") == "sales" for event in events)
    assert company.hr_run not in {event.get("run_id") for event in events}


def test_streams_of_a_caller_are_bounded(world: ApiWorld) -> None:
    async def open_three() -> list[int]:
        owner = token(world.owner)
        async with _Connection(world, owner) as one, _Connection(world, owner) as two:
            await one.events(0)
            await two.events(0)
            async with _Connection(world, owner) as three:
                return [int(each.start["status"]) for each in (one, two, three)]

    assert world.runner.run(open_three()) == [200, 200, 429]


def test_a_stream_ends_when_the_server_drains(world: ApiWorld) -> None:
    async def drain() -> bool:
        connection = _Connection(world, token(world.owner))
        async with connection:
            world.server.draining.set()
            await asyncio.sleep(0.2)
        return True

    assert world.runner.run(drain())
    world.server.draining.clear()


@pytest.mark.parametrize("now", [(), ("hr",)])
def test_a_stream_ends_when_the_key_or_the_role_is_revoked(
    world: ApiWorld, now: tuple[str, ...]
) -> None:
    token = world.client(Role.VIEWER, "sales").token

    async def revoke() -> None:
        async with _Connection(world, token, "type=catalog.") as listener:
            assert listener.start["status"] == 200
            await listener.events(0)
            if now:
                world.tokens.callers[token] = world.tokens.callers[
                    world.client(Role.VIEWER, *now).token
                ]
            else:
                del world.tokens.callers[token]
            await listener.ends()

    world.runner.run(revoke())


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 30])
def test_a_strange_position_is_refused(world: ApiWorld, last: str) -> None:
    response = world.owner.send("GET", "/events", headers={"Last-Event-ID": last})
    assert response.status_code == 400


def test_streams_that_are_opened_at_once_do_not_pass_the_cap(world: ApiWorld) -> None:
    token = world.client(Role.VIEWER).token

    async def open_many() -> tuple[list[int], int]:
        connections = [_Connection(world, token) for _ in range(8)]
        await asyncio.gather(*(each.__aenter__() for each in connections))
        statuses = sorted(each.start["status"] for each in connections)
        await asyncio.gather(*(each.__aexit__() for each in connections))
        async with _Connection(world, token) as again:  # all places are free again
            return statuses, again.start["status"]

    assert world.runner.run(open_many()) == ([200, 200, 429, 429, 429, 429, 429, 429], 200)
