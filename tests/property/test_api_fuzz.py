"""Hostile requests: paths, headers, cursors, filters, keys of partitions, SQL.

Whatever is sent, the server answers without a failure of its own (no 5xx), and shows nothing of
what the caller does not see: no name, no id, no file of the machine, no path of the store that is
not the workspace's.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from arco.api.routes import NoBody, Route
from arco.api.table import ROUTES
from arco.security.permissions import Role
from tests.kit.api import BASE, ApiWorld, Company
from tests.kit.depth import DEEP, scaled
from tests.kit.hanging import HangingStore
from tests.kit.workspace import make_workspace

EXAMPLES = scaled(400, 10_000)
SQL_EXAMPLES = scaled(10, 400)
HIDDEN_WORDS = ("salaries", "payday", "badge", "payroll", "root:x:", "BEGIN RSA", "Traceback")


class Hostile(NamedTuple):
    company: Company
    world: ApiWorld
    store: HangingStore
    hidden: tuple[str, ...]
    cursors: tuple[str, ...]


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    company = Company()
    store = HangingStore(company.town.crowd.store)
    workspace = make_workspace(store, 77, clock=company.town.crowd.clock)
    world = ApiWorld(workspace)
    ids = (company.hr_run, company.hr_held, company.hr_key)
    pages = [world.owner.get(path, page_size=1) for path in ("/assets", "/runs", "/deployments")]
    cursors = tuple(page["next_page_token"] for page in pages if "next_page_token" in page)
    yield Hostile(company, world, store, (*HIDDEN_WORDS, *ids), cursors)
    world.close()


class Sent(NamedTuple):
    """What a client sends: bytes, as they come from a socket."""

    method: str
    raw_path: bytes
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def text(self) -> str:
        parts = [self.raw_path, self.query, self.body, *(v for _, v in self.headers)]
        return b" ".join(parts).decode("latin-1")


class Got(NamedTuple):
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def text(self) -> str:
        parts = [*(name + b": " + value for name, value in self.headers), self.body]
        return b"\n".join(parts).decode("utf-8", "replace")


async def _answer(world: ApiWorld, sent: Sent, address: str) -> Got:
    started: list[Any] = []
    parts: list[bytes] = []
    incoming = [{"type": "http.request", "body": sent.body, "more_body": False}]

    async def receive() -> Any:
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            started.append(message)
        else:
            parts.append(message.get("body", b""))

    scope: Any = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": "http",
        "path": unquote(sent.raw_path.decode("ascii")),
        "raw_path": sent.raw_path,
        "query_string": sent.query,
        "root_path": "",
        "headers": list(sent.headers),
        "client": (address, 1),
        "server": ("arco", 80),
        "state": {},
    }
    await asyncio.wait_for(world.app(scope, receive, send), 60)
    return Got(started[0]["status"], tuple(started[0]["headers"]), b"".join(parts))


# -- what is sent ----------------------------------------------------------------------------

TEXTS = (
    *("", ".", "..", "../..", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "//", "\\..\\..", "~", "*"),
    *("%00", "\x00", "a\r\nSet-Cookie: x=y", "\u202e", "İ", "ﬀ", "𝒳" * 30, "é" * 400, "a" * 5000),
    *("null", "None", "-1", "0", "9" * 40, "1e999", "NaN", "true", "[]", "{}", "'", '"', "`"),
    *("' OR 1=1 --", "'; DROP TABLE catalog.assets; --", "%' OR '1'='1", "_%", "${jndi:ldap://x}"),
    *("{{7*7}}", "<script>alert(1)</script>", "=cmd|' /C calc'!A0", "file:///etc/passwd"),
    *("http://169.254.169.254/latest/meta-data/", "s3://other/bucket", "acme/prod", "rival/prod"),
    *(
        "hr.salaries",
        "hr",
        "sales.orders",
        "sales.total",
        "sales",
        "hr.*",
        "namespace:hr",
        "+hr.report+",
    ),
    *("date=2026-01-01", "date=..", "date=2026-01-01..2026-01-03", "date='x'", "date=a|date=b"),
    *(
        "date=2026-13-99",
        "shop=../x",
        "=",
        "a=b=c",
        "date=" + "9" * 500,
        "key\tvalue",
        "a/b",
        "a|b",
    ),
    *(
        "tables/../../../x",
        "state/catalog/assets/l0/x.parquet",
        "ledger/inbox/x.json",
        "keys/x.json",
    ),
    *(
        "manifests/head.json",
        "../rival/prod/manifests/head.json",
        "2026-01-01T00:00:00Z",
        "7d",
        "1h",
    ),
)
values = st.one_of(st.sampled_from(TEXTS), st.text(max_size=30), st.integers().map(str))
jsons: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), values),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(values, inner, max_size=4)
    ),
    max_leaves=12,
)
EXTRA_PATHS = (
    *("/files/{}", "/signed/{}", "/objects/{}", "/work/objects/{}", "/work/metadata/{}"),
    *("/work/uploads/{}", "/work/{}/claims", "/work/{}/heartbeat", "/events", "/query"),
    *("/sensors/{}/{}/events", "/nothing/{}"),
)
HEADER_NAMES = (
    *("if-match", "if-none-match", "idempotency-key", "range", "last-event-id", "accept", "cookie"),
    *("content-type", "content-length", "x-forwarded-for", "host", "origin", "x-arco-csrf"),
    *("arco-claim", "arco-worker", "webhook-id", "webhook-timestamp", "webhook-signature", "x-x"),
)


def _segment(draw: st.DrawFn, text: str) -> str:
    """In a path: as it is where a URL can have it, or encoded, once or twice."""
    encoded = quote(text, safe=draw(st.sampled_from(("", "/", "/:=|%"))))
    return quote(encoded) if draw(st.integers(0, 9)) == 0 else encoded


def _header_value(text: str) -> bytes:
    """What a client can send: HTTP has no line breaks in a value."""
    return text.encode("utf-8", "replace").translate(None, b"\r\n\x00")[:4000]


@functools.cache
def _parameter_names(route: Route[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(route.parameters))


@st.composite
def requests(draw: st.DrawFn, cursors: tuple[str, ...], token: str) -> Sent:
    chosen: list[Route[Any] | str] = [*ROUTES, *EXTRA_PATHS]
    route = draw(st.sampled_from(chosen))
    names: tuple[str, ...] = ()
    if isinstance(route, str):
        path = route.format(*(_segment(draw, draw(values)) for _ in range(route.count("{}"))))
        method = draw(st.sampled_from(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS")))
    else:
        path, method, names = route.path, route.method, _parameter_names(route)
        for part in [part for part in path.split("/") if part.startswith("{")]:
            path = path.replace(part, _segment(draw, draw(values)), 1)
    base = BASE if draw(st.integers(0, 9)) else f"/api/v1/workspaces/{_segment(draw, draw(values))}"
    pairs = draw(st.lists(st.tuples(st.sampled_from((*names, "x")), _filter(cursors)), max_size=3))
    query = "&".join(f"{name}={quote(value)}" for name, value in pairs)
    headers = draw(st.lists(st.tuples(st.sampled_from(HEADER_NAMES), values), max_size=3))
    kept = [(name.encode(), _header_value(value)) for name, value in headers]
    body = b""
    if method not in ("GET", "HEAD"):
        kept.append((b"content-type", b"application/json"))
        body = draw(_bodies(route))
    if token:
        kept.append((b"authorization", f"Bearer {token}".encode()))
    return Sent(method, f"{base}{path}".encode("ascii"), query.encode(), tuple(kept), body)


def _filter(cursors: tuple[str, ...]) -> st.SearchStrategy[str]:
    broken = st.builds(
        lambda text, at, by: text[: at % len(text)] + by + text[at % len(text) + 1 :],
        st.sampled_from(cursors),
        st.integers(0, 10_000),
        st.sampled_from(("A", "_", "-", "%", "", "==")),
    )
    return st.one_of(values, st.sampled_from(cursors), broken)


def _bodies(route: Route[Any] | str) -> st.SearchStrategy[bytes]:
    garbage = st.one_of(st.binary(max_size=60), st.just(b"[" * 20_000), st.just(b"\xff\xfe{}"))
    plain: st.SearchStrategy[Any] = jsons
    if isinstance(route, Route) and route.body not in (None, NoBody):
        fields = [field.name for field in msgspec.structs.fields(route.body)]
        if fields:
            plain = st.dictionaries(st.sampled_from(fields), jsons, min_size=1)
    return st.one_of(plain.map(_encoded), plain.map(_encoded), garbage)


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "replace")


# -- what comes back -------------------------------------------------------------------------


def check(hostile: Hostile, sent: Sent, got: Got, *, sees_all: bool) -> None:
    assert got.status < 500, (sent, got.text[:2000])
    if not sees_all:
        shown = [word for word in hostile.hidden if word in got.text and word not in sent.text]
        assert shown == [], (sent, got.text[:2000])
    assert b"\n" not in b"".join(value for _, value in got.headers)
    outside = [
        path for _, path in hostile.store.calls if ".." in path.split("/") or path[:1] == "/"
    ]
    assert outside == [], sent
    assert hostile.store.by_loop == [], "the event loop waited for the store"
    hostile.store.calls.clear()


def callers(hostile: Hostile) -> dict[str, str]:
    world = hostile.world
    return {
        "editor": world.client(Role.EDITOR, "sales").token,
        "viewer": world.client(Role.VIEWER, "sales").token,
        "stranger": world.client(Role.OWNER, tenant="rival").token,
        "owner": world.owner.token,
        "nobody": "arco_made_up",
        "none": "",
    }


def attack(examples: int) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=not DEEP,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )


def test_no_hostile_request_escapes(hostile: Hostile) -> None:
    tokens = callers(hostile)

    @attack(EXAMPLES)
    @hypothesis.given(data=st.data(), who=st.sampled_from(sorted(tokens)), number=st.integers(0))
    def send(data: st.DataObject, who: str, number: int) -> None:
        sent = data.draw(requests(hostile.cursors, tokens[who]))
        address = f"10.{number % 251}.{number // 251 % 251}.{number // 63_001 % 251}"
        got = hostile.world.runner.run(_answer(hostile.world, sent, address))
        check(hostile, sent, got, sees_all=who == "owner")
        if who in ("nobody", "none", "stranger"):
            assert got.status != 200 or got.body == b'{"items":[]}', (sent, got.text[:500])

    send()


# -- SQL -------------------------------------------------------------------------------------

SQL = (
    *("SELECT * FROM {}", "SELECT count(*) FROM {}", "SELECT * FROM {} WHERE {} = {}"),
    *("SELECT * FROM read_parquet('{}')", "SELECT * FROM read_csv('{}')", "SELECT * FROM '{}'"),
    *(
        "SELECT * FROM read_text('{}')",
        "SELECT * FROM glob('{}')",
        "COPY {} TO '{}'",
        "ATTACH '{}'",
    ),
    *("INSTALL httpfs; LOAD httpfs", "PRAGMA database_list", "SET enable_external_access = true"),
    *(
        "SELECT * FROM {} AS a, {} AS b",
        "WITH x AS (SELECT * FROM {}) SELECT * FROM x",
        "SHOW TABLES",
    ),
    *(
        "SELECT * FROM duckdb_tables()",
        "SELECT * FROM information_schema.tables",
        "{}",
        "SELECT {}",
    ),
    *(
        "SELECT getenv('{}')",
        "SELECT * FROM arco_seen",
        "SELECT * FROM duckdb_views()",
        "EXPLAIN {}",
    ),
    *("SELECT sql FROM duckdb_views()", "CREATE TABLE x AS SELECT * FROM {}", "FROM {} SELECT *"),
    *("SELECT * FROM query('SELECT * FROM {}')", "SELECT * FROM query_table('{}')", "DESCRIBE {}"),
)
TABLES = (
    *("catalog.assets", "catalog.asset_names", "catalog.namespaces", "orchestration.runs"),
    *("orchestration.tasks", "security.api_keys", "security.audit", "execution.materializations"),
    *("lineage.asset_edges", "search.documents", "orchestration.run_requests", "main.assets"),
    *("/etc/passwd", "../../etc/passwd", "HOME", "arco_seen", '"catalog"."assets"', "log.outcomes"),
)


def test_no_sql_escapes(hostile: Hostile) -> None:
    tokens = callers(hostile)
    names = st.one_of(st.sampled_from(TABLES), values)

    @attack(SQL_EXAMPLES)
    @hypothesis.given(
        who=st.sampled_from(("viewer", "editor", "owner")),
        text=st.sampled_from(SQL),
        chosen=st.lists(names, min_size=3, max_size=3),
    )
    def send(who: str, text: str, chosen: list[str]) -> None:
        body = _encoded({"sql": text.format(*chosen)})
        headers = [(b"content-type", b"application/json")]
        headers.append((b"authorization", f"Bearer {tokens[who]}".encode()))
        sent = Sent("POST", f"{BASE}/query".encode(), b"", tuple(headers), body)
        got = hostile.world.runner.run(_answer(hostile.world, sent, "10.0.0.1"))
        check(hostile, sent, got, sees_all=who == "owner")
        assert "root:x:" not in got.text

    send()
