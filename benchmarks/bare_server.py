"""A Litestar route that returns given bytes, on uvicorn as ours runs on it: nothing else.

python -m benchmarks.bare_server < bytes
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn
from litestar import Litestar, Request, Response, get


def main() -> None:
    body = sys.stdin.buffer.read()

    @get("/api/v1/workspaces/{tenant:str}/{workspace:str}/assets/{asset:str}")
    async def get_asset(request: Request[Any, Any, Any]) -> Response[bytes]:
        return Response(body, media_type="application/json")

    app = Litestar([get_asset], openapi_config=None, logging_config=None)
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
