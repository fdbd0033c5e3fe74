"""An API in memory behind a real port, and `servo` through it, in this process."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
import uvicorn

from arco.cli.app import run
from tests.kit.api import ApiClient, ApiWorld
from tests.kit.workspace import NAME, TENANT


class Printed(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class ServedApi:
    def __init__(self, world: ApiWorld) -> None:
        self.world = world
        self.rows_answered: list[int] = []
        """How many rows each answer of `POST …/rows` had."""
        config = uvicorn.Config(
            self._counted, port=0, log_level="error", lifespan="off", interface="asgi3"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._server.serve()), daemon=True
        )
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
        (port,) = [s.getsockname()[1] for each in self._server.servers for s in each.sockets]
        self.url = f"http://127.0.0.1:{port}"

    async def _counted(self, scope: Any, receive: Any, send: Any) -> None:
        async def counted(message: Any) -> None:
            if scope["type"] == "http" and scope["path"].endswith("/rows"):
                body = message.get("body", b"")
                if body.startswith(b"\xff\xff\xff\xff"):  # an Arrow stream
                    self.rows_answered.append(pa.ipc.open_stream(body).read_all().num_rows)
            await send(message)

        await self.world.app(scope, receive, counted)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)

    def servo(self, client: ApiClient, *arguments: str) -> Printed:
        """What a command prints."""
        env = {
            "ARCO_API": self.url,
            "ARCO_TOKEN": client.token,
            "ARCO_TENANT": TENANT,
            "ARCO_WORKSPACE": NAME,
            "COLUMNS": "120",
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
        }
        out, err = io.StringIO(), io.StringIO()
        patched = mock.patch.dict(os.environ, env, clear=True)
        with patched, redirect_stdout(out), redirect_stderr(err):
            code = run(list(arguments))
        return Printed(code, out.getvalue(), err.getvalue())

    def json(self, client: ApiClient, *arguments: str) -> Any:
        printed = self.servo(client, *arguments, "--json")
        assert printed.code == 0, printed
        return json.loads(printed.out)
