from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from arco.app import Workspace
from arco.errors import Corrupt, Invalid, Unavailable
from arco.storage.cloud import CloudStore, Option
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.storage.open import open_store, options_of, probe
from arco.storage.port import Mode
from arco.storage.scoped import ScopedStore
from tests.kit.stores import ManualClock

S3: dict[str, Option] = {
    "region": "us-east-1",
    "access_key_id": "id",
    "secret_access_key": "planted-secret",
}


def test_path_and_file_url_open_the_same_store(tmp_path: Path) -> None:
    folder = tmp_path / "with space & 100%"
    store = open_store(str(folder))
    store.put("a", b"x")
    assert open_store(f"file://{folder}").get("a").data == b"x"
    assert open_store(store.url).get("a").data == b"x"
    assert isinstance(store, LocalStore)


def test_relative_path_opens_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("here").url == f"file://{tmp_path}/here"


def test_memory_store_is_new_each_time() -> None:
    open_store("memory://").put("a", b"x")
    assert list(open_store("memory://").list("")) == []


def test_cloud_urls_keep_their_prefix_and_options() -> None:
    store = open_store("s3://bucket/some/prefix/", **S3)
    assert store.url == "s3://bucket/some/prefix"
    scoped = ScopedStore(store, "acme", "dev")
    assert scoped.url == "s3://bucket/some/prefix/acme/dev"
    assert options_of(store) == options_of(scoped) == S3
    azure = open_store("az://container", account_name="a", account_key="a2V5")
    assert azure.url == "az://container"


def test_secret_is_not_shown() -> None:
    store = open_store("s3://bucket", **S3)
    assert isinstance(store, CloudStore)
    assert "planted-secret" not in f"{store!r} {store} {store.url}"


@pytest.mark.parametrize("url", ["", "ftp://host/x", "file://"])
def test_unknown_url_says_what_is_known(url: str) -> None:
    with pytest.raises(Invalid, match="s3://"):
        open_store(url)


def test_a_server_is_no_store_of_a_workspace() -> None:
    with pytest.raises(Invalid, match="is a server, not a store"):
        Workspace.open("https://host", "default", "main")


def test_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="regoin"):
        open_store("s3://bucket", regoin="eu")
    with pytest.raises(Invalid, match="takes no options"):
        open_store(str(tmp_path), region="eu")


def test_probe_refuses_a_store_that_ignores_the_condition() -> None:
    class Careless(MemoryStore):
        def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
            super().put(path, data, Mode.OVERWRITE)

    store = Careless(ManualClock())
    with pytest.raises(Invalid, match="ignores the condition"):
        probe(store, "nonce")
    assert list(store.list("")) == []


def test_probe_refuses_a_store_that_says_no_and_writes_all_the_same() -> None:
    class Lying(MemoryStore):
        def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
            try:
                super().put(path, data, mode)
            finally:
                super().put(path, data, Mode.OVERWRITE)

    with pytest.raises(Corrupt):
        probe(Lying(ManualClock()), "nonce")


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(server.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        for each in accepted:
            each.close()


def test_server_that_never_answers_is_unavailable_within_bounds() -> None:
    with silent_server() as endpoint:
        options: dict[str, Option] = {
            **S3,
            "endpoint": endpoint,
            "timeout": "300ms",
            "allow_http": True,
        }
        store = open_store("s3://bucket", **options)
        began = time.monotonic()
        with pytest.raises(Unavailable):
            store.put("a", b"x")
        with pytest.raises(Unavailable):
            store.get("a")
        assert time.monotonic() - began < 20


def test_unreachable_server_is_unavailable_and_its_error_shows_no_secret() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    options: dict[str, Option] = {**S3, "endpoint": endpoint, "allow_http": True}
    with pytest.raises(Unavailable) as caught:
        list(open_store("s3://bucket", **options).list("a/"))
    assert "planted-secret" not in str(caught.value)


def test_only_servers_that_promise_the_order_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def streamed(url: str, **options: Option) -> bool:
        store = open_store(url, **options)
        assert isinstance(store, CloudStore)
        return store.in_order

    assert streamed("s3://bucket", **S3)
    assert not streamed("s3://bucket", **S3, endpoint="https://minio.test")
    assert not streamed("az://container", account_name="a", account_key="a2V5")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio.test")
    assert not streamed("s3://bucket", **S3)
