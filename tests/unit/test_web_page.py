"""The web page's files: which paths they answer, with which policy, how long they are kept."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from arco.api.api_settings import ApiSettings
from arco.api.application import make_app
from arco.api.page import FOLDER, IMMUTABLE, WebPage
from arco.api.server import ApiServer
from arco.api.table import ROUTES
from arco.clock import SystemClock
from arco.errors import NotFound
from tests.architecture.source import ROOT


class Headers:
    def __init__(self, **values: str) -> None:
        self._values = {name.replace("_", "-"): value for name, value in values.items()}

    def get(self, name: str, /) -> str | None:
        return self._values.get(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "static").mkdir()
    (tmp_path / "index.html.gz").write_bytes(gzip.compress(b"<!doctype html>"))
    (tmp_path / "static" / "index-1a.js.gz").write_bytes(gzip.compress(b"1"))
    (tmp_path / "static" / "inter-2b.woff2").write_bytes(b"font")
    (tmp_path / "secret").write_bytes(b"beside the static files")
    return tmp_path


def test_files_are_sent_compressed_to_those_who_accept_it(folder: Path) -> None:
    page = WebPage(folder)
    packed = page.static("static/index-1a.js", Headers(accept_encoding="br, gzip"))
    assert gzip.decompress(packed.body) == b"1"
    assert packed.headers["Content-Encoding"] == "gzip"
    plain = page.static("static/index-1a.js", Headers())
    assert (plain.body, "Content-Encoding" in plain.headers) == (b"1", False)
    assert page.static("static/inter-2b.woff2", Headers(accept_encoding="gzip")).body == b"font"


def test_hashed_files_are_kept_for_ever_and_the_index_is_looked_at_again(folder: Path) -> None:
    page = WebPage(folder)
    assert page.index(Headers()).headers["Cache-Control"] == "no-cache"
    assert page.static("static/index-1a.js", Headers()).headers["Cache-Control"] == IMMUTABLE


@pytest.mark.parametrize(
    "name", ["static/../secret", "secret", "", "static/..", "static/index-1a.js.gz", "index.html"]
)
def test_only_files_of_the_page_are_sent(folder: Path, name: str) -> None:
    with pytest.raises(NotFound):
        WebPage(folder).static(name, Headers())


def test_policy_runs_only_scripts_of_the_page(folder: Path) -> None:
    sent = WebPage(folder, ["https://bucket.example"]).index(Headers())
    rules = dict(rule.split(" ", 1) for rule in sent.headers["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self' 'wasm-unsafe-eval'"
    assert rules["style-src"] == "'self'"
    assert rules["connect-src"] == "'self' https://bucket.example"
    inline = [name for name, value in rules.items() if "unsafe-inline" in value]
    assert inline == ["style-src-attr"]


def test_server_without_a_built_page_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refused:
        WebPage(tmp_path / "absent").index(Headers())
    assert "make ui" in refused.value.hint


def test_page_answers_its_own_paths_and_never_those_of_the_api() -> None:
    app = make_app(ApiServer([], [], ApiSettings(), SystemClock()), ROUTES, lambda: "request")
    pages = ("/", "/w/default/main", "/w/default/main/assets/a.b", "/w/a/b/runs/r")
    others = ("/api/v1/no", "/api/", "/api/v1/workspaces/a/b/no", "/local/x", "/w/", "/x", "/w/a")

    async def kinds() -> dict[str, str]:
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://arco") as client:
            answers = {path: await client.get(path) for path in (*pages, *others)}
        return {path: each.headers["content-type"] for path, each in answers.items()}

    problem, page = "application/problem+json", "text/html; charset=utf-8"
    assert asyncio.run(kinds()) == dict.fromkeys(pages, page) | dict.fromkeys(others, problem)


def test_built_page_is_of_these_sources_and_names_only_files_that_are_there() -> None:
    """`make test` builds it."""
    checked = subprocess.run([sys.executable, str(ROOT / "ui" / "build.py"), "--check"])
    assert checked.returncode == 0
    page = WebPage(FOLDER)
    html = page.index(Headers()).body.decode()
    named = [part.split('"')[0] for part in html.split('"/static/')[1:]]
    assert named
    for name in named:
        assert page.static(f"static/{name}", Headers()).body
    assert "<style" not in html and "onload=" not in html
    own = re.findall(r'<script type="module" (?:crossorigin|async) src="/static/', html)
    assert html.count("<script") == len(own)


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "ui" / "package-lock.json").read_text("utf-8"))
    assert [name for name, each in lock["packages"].items() if "resolved" in each] == []
