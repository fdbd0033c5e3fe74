"""A client of the HTTP API.

    with Client("https://arco.example.com", token, tenant="acme", workspace="prod") as client:
        for run in client.list_runs(state=["FAILED"]):
            print(run["run_id"])
        client.trigger_run({"selection": ["sales.orders"]})

Methods are those of `Operations`; refusals of the server are raised as errors of `arco.errors`.
Transient failures are retried for a while: reads, and writes too, because each has an idempotency
key, which its retries keep.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec
import pyarrow as pa

from arco.clock import Clock, SystemClock
from arco.errors import Unauthenticated, Unavailable
from arco.remote.error_answers import error_of
from arco.remote.methods import Operations
from arco.storage.http_client import checked_api_url
from servo.contract.ulid import system_ulids

TIMEOUT_S: Final = 60.0
"""A server answers a request, possibly with an error, within half of this."""
ATTEMPTS: Final = 6
WAIT_S: Final = 0.25
"""Before the second attempt; before each further one, twice as long."""
MAX_WAIT_S: Final = 15.0
_PASSING: Final = frozenset({429, 502, 503, 504})
_ARROW: Final = "application/vnd.apache.arrow.stream"


class Client(Operations):
    """Of one workspace. Safe for threads."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        tenant: str = "default",
        workspace: str = "main",
        ca_file: str | None = None,
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
        clock: Clock | None = None,
    ) -> None:
        """`ca_file`: certificates to trust instead of the usual ones, in PEM."""
        self.url = checked_api_url(url)
        if not token:
            raise Unauthenticated(
                "there is no token for the API", hint="run `servo auth login`, or set ARCO_TOKEN"
            )
        self.tenant = tenant
        self.workspace = workspace
        self._base = f"/api/v1/workspaces/{quote(tenant, safe='')}/{quote(workspace, safe='')}"
        self._attempts = max(1, attempts)
        self.clock = clock or SystemClock()
        self.new_key = system_ulids()
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}", "User-Agent": "arco-client"},
            timeout=timeout_s,
            verify=ca_file or True,
            follow_redirects=False,
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the base of operations ----------------------------------------------------------

    def _read(self, path: str, query: Mapping[str, Any]) -> Any:
        return msgspec.json.decode(self.send("GET", path, query=query).content)

    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Any]:
        token = ""
        while True:
            page = self._read(path, {**query, "page_token": token or None})
            yield from page["items"]
            token = page.get("next_page_token", "")
            if not token:
                return
            # The token names the generation of the first page.
            query = {**query, "generation": None, "as_of": None, "as_of_run": None}

    def _write(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any,
        idempotency_key: str,
        if_match: str = "",
    ) -> Any:
        headers = {"Idempotency-Key": idempotency_key or self.new_key()}
        if if_match:
            headers["If-Match"] = if_match
        content = None
        if body is not None:
            content = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        answer = self.send(method, path, query=query, headers=headers, content=content)
        return msgspec.json.decode(answer.content)

    # -- special requests ----------------------------------------------------------------

    def me(self) -> dict[str, Any]:
        """Who the caller is, and what was granted to it."""
        answer: dict[str, Any] = msgspec.json.decode(self.send("GET", "/api/v1/me").content)
        return answer

    def query(self, sql: str, *, max_rows: int = 1_000, **at: Any) -> dict[str, Any]:
        """Run one SELECT over a snapshot; `generation`, `as_of` or `as_of_run` choose it."""
        content = msgspec.json.encode({"sql": sql, "max_rows": max_rows})
        headers = {"Content-Type": "application/json"}
        answer = self.send("POST", "/query", query=at, headers=headers, content=content)
        document: dict[str, Any] = msgspec.json.decode(answer.content)
        return document

    def query_arrow(self, sql: str, *, max_rows: int = 10_000, **at: Any) -> pa.Table:
        """The same as Arrow."""
        content = msgspec.json.encode({"sql": sql, "max_rows": max_rows})
        headers = {"Content-Type": "application/json", "Accept": _ARROW}
        answer = self.send("POST", "/query", query=at, headers=headers, content=content)
        return pa.ipc.open_stream(answer.content).read_all()

    def read_rows(self, body: Mapping[str, Any], **at: Any) -> pa.Table:
        """Rows of a table as the caller sees them; the metadata of the schema have `arco`."""
        headers = {"Content-Type": "application/json", "Accept": _ARROW}
        content = msgspec.json.encode(body)
        answer = self.send("POST", "/rows", query=at, headers=headers, content=content)
        return pa.ipc.open_stream(answer.content).read_all()

    def events(self, after: int | None = None, **chosen: Any) -> Iterator[dict[str, Any]]:
        """Events of the log as they are committed, without end; `position` is each one's place.

        `type`, `run_id` and `asset` are filters. A broken stream is resumed, also after a restart
        of the server; refusals are raised.
        """
        position, failed = after, 0
        while True:
            query = _query({**chosen, "after": position})
            failed += 1
            try:
                with self._http.stream("GET", f"{self._base}/events", params=query) as answer:
                    if answer.status_code != 200:
                        self._check_passing(answer, failed)
                    else:
                        failed = 0
                        for event in _events(answer.iter_lines()):
                            position = event["position"]
                            if "data" in event:
                                yield {"position": position, **event["data"]}
            except httpx.TransportError as error:
                if failed >= self._attempts:
                    raise self._unreachable(error) from None
            self.clock.sleep(min(MAX_WAIT_S, WAIT_S * 2**failed))

    def _check_passing(self, answer: httpx.Response, failed: int) -> None:
        """Raise the error of a stream, unless it is transient."""
        body = answer.read()
        if answer.status_code not in _PASSING or failed >= self._attempts:
            raise error_of(answer.status_code, body)

    def file(self, url: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """A file by its `url` in `list_files`. The signed URL is not given the token."""
        answer = self.send("GET", url, headers=headers)
        if answer.status_code != 307:
            return answer
        location = httpx.URL(self.url).join(answer.headers["location"])
        with httpx.Client(timeout=TIMEOUT_S) as plain:
            return self._checked_answer(plain.get(location, headers=dict(headers or {})))

    # -- requests ------------------------------------------------------------------------

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """A successful answer. Raises errors of `arco.errors`; retries transient failures."""
        url = path if path.startswith(("/api/", "/auth/")) else f"{self._base}{path}"
        attempt = 0
        while True:
            attempt += 1
            wait_s = min(MAX_WAIT_S, WAIT_S * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
            try:
                answer = self._http.request(
                    method, url, params=_query(query), headers=headers, content=content
                )
            except httpx.TransportError as error:
                if attempt >= self._attempts:
                    raise self._unreachable(error) from None
            else:
                if answer.status_code not in _PASSING or attempt >= self._attempts:
                    return self._checked_answer(answer)
                wait_s = max(wait_s, _retry_after(answer))
            self.clock.sleep(wait_s)

    def _unreachable(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"{self.url} cannot be reached: {error}",
            hint="check ARCO_API, and that the server runs",
        )

    def _checked_answer(self, answer: httpx.Response) -> httpx.Response:
        if answer.status_code >= 400:
            raise error_of(answer.status_code, answer.content)
        return answer


def _query(query: Mapping[str, Any] | None) -> httpx.QueryParams:
    pairs: list[tuple[str, Any]] = []
    for name, value in (query or {}).items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(name, _text(each)) for each in values if each is not None]
    return httpx.QueryParams(pairs)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _retry_after(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(MAX_WAIT_S, float(text)) if text.isdecimal() else 0.0


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Server-sent events: those with an id."""
    event: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if not line:
            if "position" in event:
                yield event
            event = {}
        elif name == "id":
            event["position"] = int(value.strip())
        elif name == "data":
            event["data"] = msgspec.json.decode(value.strip())
