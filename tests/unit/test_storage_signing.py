from __future__ import annotations

import http.client
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.errors import Denied, Invalid
from arco.storage.memory import MemoryStore
from arco.storage.signing import Response, Signer, SigningKey, preflight, respond
from tests.kit.stores import Address, ManualClock, serving

KEY = SigningKey("k1", b"1" * 32)
MINUTE = timedelta(minutes=1)
NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\"), min_size=1
).filter(lambda name: name.strip("./") == name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def signer(clock: ManualClock) -> Signer:
    return Signer("http://here/", [KEY], clock)


@pytest.fixture
def store(clock: ManualClock, signer: Signer) -> MemoryStore:
    made = MemoryStore(clock, signer)
    made.put("a/b", b"0123456789")
    return made


def changed(url: str, **changes: str) -> str:
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return parts._replace(query=urlencode(query | changes)).geturl()


@given(NAMES)
def test_any_name_survives_the_url(path: str) -> None:
    clock = ManualClock()
    signer = Signer("http://here", [KEY], clock)
    assert signer.verify(signer.sign(path, MINUTE), clock.now()) == path


def test_url_without_host_is_verified(signer: Signer, clock: ManualClock) -> None:
    url = signer.sign("a/b", MINUTE)
    assert signer.verify(url.removeprefix("http://here"), clock.now()) == "a/b"


def test_url_is_denied_from_the_moment_it_expires(signer: Signer, clock: ManualClock) -> None:
    url = signer.sign("a/b", MINUTE)
    clock.sleep(59)
    signer.verify(url, clock.now())
    clock.sleep(1)
    with pytest.raises(Denied, match="expired"):
        signer.verify(url, clock.now())


@pytest.mark.parametrize(
    "changes",
    [{"expires": "99999999999"}, {"key_id": "k2"}, {"signature": ""}, {"signature": "é"},
     {"expires": "soon"}],
)  # fmt: skip
def test_tampered_url_is_denied(
    signer: Signer, clock: ManualClock, changes: dict[str, str]
) -> None:
    with pytest.raises(Denied):
        signer.verify(changed(signer.sign("a/b", MINUTE), **changes), clock.now())


@pytest.mark.parametrize("url", ["/signed/a/b", "/other/a", "/signed/%ff?expires=1", ""])
def test_what_is_no_signed_url_is_denied(signer: Signer, clock: ManualClock, url: str) -> None:
    with pytest.raises(Denied):
        signer.verify(url, clock.now())


def test_repeated_parameter_is_denied(signer: Signer, clock: ManualClock) -> None:
    with pytest.raises(Denied):
        signer.verify(signer.sign("a/b", MINUTE) + "&expires=99999999999", clock.now())


def test_rotated_keys_verify_until_they_are_dropped(clock: ManualClock) -> None:
    new = SigningKey("k2", b"2" * 32)
    url = Signer("http://here", [KEY], clock).sign("a", MINUTE)
    both = Signer("http://here", [new, KEY], clock)
    assert both.verify(url, clock.now()) == "a"
    assert "key_id=k2" in both.sign("a", MINUTE)
    with pytest.raises(Denied, match="not in use"):
        Signer("http://here", [new], clock).verify(url, clock.now())


def test_weak_or_missing_keys_and_endless_urls_are_refused(
    signer: Signer, clock: ManualClock
) -> None:
    with pytest.raises(Invalid):
        Signer("http://here", [], clock)
    with pytest.raises(Invalid):
        Signer("http://here", [SigningKey("k", b"short")], clock)
    for expiry in (timedelta(0), timedelta(days=8)):
        with pytest.raises(Invalid):
            signer.sign("a", expiry)


def test_secret_is_not_shown() -> None:
    assert "1111" not in f"{KEY!r} {KEY}"


def test_store_without_signer_says_so(clock: ManualClock) -> None:
    with pytest.raises(Invalid, match="cannot sign"):
        MemoryStore(clock).sign("a", MINUTE)


def ask(
    store: MemoryStore, signer: Signer, clock: ManualClock, range_header: str | None
) -> Response:
    url = store.sign("a/b", MINUTE)
    return respond(
        store, signer, url, range_header=range_header, origin="http://ui", now=clock.now()
    )


@pytest.mark.parametrize(
    ("range_header", "status", "body", "content_range"),
    [
        (None, 200, b"0123456789", None),
        ("bytes=0-", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=9-9", 206, b"9", "bytes 9-9/10"),
        ("bytes=10-12", 416, b"", "bytes */10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-0", 416, b"", "bytes */10"),
        ("bytes=4-2", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("lines=0-1", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
    ],
)
def test_range_is_honoured_as_rfc_9110_says(
    store: MemoryStore,
    signer: Signer,
    clock: ManualClock,
    range_header: str | None,
    status: int,
    body: bytes,
    content_range: str | None,
) -> None:
    answer = ask(store, signer, clock, range_header)
    assert (answer.status, answer.body) == (status, body)
    assert answer.headers.get("Content-Range") == content_range
    assert answer.headers["Content-Length"] == str(len(body))


def test_errors_are_answers_and_readable_by_the_browser(
    store: MemoryStore, signer: Signer, clock: ManualClock
) -> None:
    url = store.sign("a/b", MINUTE)
    missing = store.sign("missing", MINUTE)
    now = clock.now()
    for target, moment, status in (
        (changed(url, signature="x"), now, 403),
        (url, now + MINUTE, 403),
        (missing, now, 404),
    ):
        answer = respond(store, signer, target, range_header=None, origin="http://ui", now=moment)
        assert answer.status == status
        assert answer.headers["Access-Control-Allow-Origin"] == "http://ui"


def test_only_allowed_origins_get_cors_headers(
    store: MemoryStore, signer: Signer, clock: ManualClock
) -> None:
    url = store.sign("a/b", MINUTE)
    for origin, allowed in (("http://ui", True), ("http://evil", False), (None, False)):
        answer = respond(
            store, signer, url, range_header=None, origin=origin, now=clock.now(),
            origins=["http://ui"],
        )  # fmt: skip
        assert ("Access-Control-Allow-Origin" in answer.headers) is allowed
        asked = preflight(origin, ["http://ui"]).headers
        assert ("Access-Control-Allow-Methods" in asked) is allowed


def test_served_bytes_are_never_run_by_a_browser(
    store: MemoryStore, signer: Signer, clock: ManualClock
) -> None:
    headers = ask(store, signer, clock, None).headers
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_http_server_only_forwards(tmp_path: Path) -> None:
    clock = ManualClock()
    with serving(Address("scoped", f"file://{tmp_path}", {}), clock) as store:
        store.put("a b/c%20d", b"0123456789")
        parts = urlsplit(store.sign("a b/c%20d", MINUTE))
        connection = http.client.HTTPConnection(parts.netloc, timeout=10)
        target = f"{parts.path}?{parts.query}"
        connection.request("OPTIONS", target, headers={"Origin": "http://ui"})
        answer = connection.getresponse()
        answer.read()
        assert (answer.status, answer.headers["Access-Control-Allow-Headers"]) == (204, "Range")
        headers = {"Origin": "http://ui", "Range": "bytes=0-3"}
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (206, b"0123")
        assert answer.headers["Access-Control-Allow-Origin"] == "http://ui"
        assert "Content-Range" in answer.headers["Access-Control-Expose-Headers"]
        clock.sleep(61)
        connection.request("GET", target)
        assert connection.getresponse().status == 403
        connection.close()
