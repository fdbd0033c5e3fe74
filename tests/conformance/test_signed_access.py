"""What workers without access to the store are handed by a cloud: one object each, and no more.

And the policies of docs/guides/security.md, on a server that has permissions of its own.
"""

from __future__ import annotations

import itertools
import json
import re
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from arco.errors import Denied, NotFound
from arco.storage import paths
from arco.storage.http import DIRECT_BYTES, HttpStore
from arco.storage.http_client import HttpAnswer, HttpClient
from arco.storage.open import open_store
from arco.storage.port import Mode
from arco.storage.scoped import ScopedStore
from tests.kit.backends import CLOUDS, Servers
from tests.kit.object_server import serving_objects
from tests.kit.servers import BUCKET, limited_seaweedfs

FOLDER = "data/sales/orders/date=d:2026-01-01/01JD"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"


class CountingClient(HttpClient):
    """Remembers which hosts were sent bodies, and asked for objects."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, str]] = []

    def send(self, method: str, url: str, **options: Any) -> HttpAnswer:
        self.sent.append((method, "api" if "/api/v1/" in url else "cloud"))
        return super().send(method, url, **options)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_large_data_goes_to_the_cloud_and_not_through_the_server(
    cloud: str, servers: Servers, tmp_path: Path
) -> None:
    backend = servers.get(cloud)
    root = open_store(f"{backend.url}/{tmp_path.name}", **backend.options)
    store = ScopedStore(root, "acme", "dev")
    client = CountingClient()
    with serving_objects(tmp_path, store) as url:
        behind = HttpStore(url, client=client)
        large = bytes(DIRECT_BYTES + 10)
        behind.put(f"{FOLDER}/part-0.parquet", large, Mode.FRESH)
        behind.put(f"{FOLDER}/part-1.parquet", b"0123456789", Mode.FRESH)
        assert behind.get(f"{FOLDER}/part-0.parquet").data == large
        assert behind.get_range(f"{FOLDER}/part-1.parquet", 2, 3) == b"234"
        listed = [(meta.path, meta.size) for meta in behind.list(f"{FOLDER}/")]
        assert listed == [
            (f"{FOLDER}/part-0.parquet", len(large)),
            (f"{FOLDER}/part-1.parquet", 10),
        ]
        with pytest.raises(NotFound):
            behind.get(f"{FOLDER}/part-2.parquet")
        # A name that Azure's URLs cannot have goes through the server.
        behind.put("data/a/b/region=s:us%20east/01JD/part-0.parquet", large, Mode.FRESH)
        assert behind.get("data/a/b/region=s:us%20east/01JD/part-0.parquet").data == large
    to_cloud = [method for method, host in client.sent if host == "cloud"]
    if cloud != "gcs":  # whose stand-in checks no signatures, so that nothing is signed
        assert to_cloud[:3] == ["PUT", "GET", "GET"]


def _status(method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> int:
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("cloud", [each for each in CLOUDS if each.values != ("gcs",)])
def test_a_url_to_put_one_object_lets_do_nothing_else(
    cloud: str, servers: Servers, tmp_path: Path
) -> None:
    backend = servers.get(cloud)
    root = open_store(f"{backend.url}/{tmp_path.name}", **backend.options)
    store = ScopedStore(root, "acme", "dev")
    store.put("ledger/inbox/x.json", b"{}")
    own = "data/sales/orders/all/01JD/part-0.parquet"  # which a URL need not encode
    signed = store.sign_put(own, timedelta(minutes=5))
    assert signed is not None
    assert _status("PUT", signed.url, signed.headers, b"rows") in (200, 201)
    assert store.get(own).data == b"rows"
    for other in ("ledger/inbox/x.json", "ledger/inbox/y.json", own.replace("0.p", "1.p")):
        url = signed.url.replace(own, other)
        assert url != signed.url
        assert _status("PUT", url, signed.headers, b"x") == 403
    assert _status("PUT", signed.url.partition("?")[0], signed.headers, b"x") in (401, 403, 404)
    assert _status("GET", signed.url, {}) == 403
    assert _status("DELETE", signed.url, {}) == 403
    assert store.get("ledger/inbox/x.json").data == b"{}"


# -- the policies of the guide -------------------------------------------------------------

PLACES = {
    "inbox": paths.inbox("01JD"),
    "segment": paths.segment(1, 2, "n"),
    "manifest": paths.root(1),
    "state": "state/catalog/assets/base/x.parquet",
    "key": paths.TASK_KEYS,
    "queue": "queue/claims/5000-m.000001.json",
    "liveness": paths.liveness("w"),
    "artifact": paths.artifact("a" * 64),
    "plan": paths.plan("p"),
    "log": "logs/r/t/1.n.000000.log",
    "commit": paths.output_commit("r", "t"),
    "data": f"{FOLDER}/part-0.parquet",
}
ALL = frozenset(PLACES)
READS = {
    "server": ALL,
    "worker": ALL - {"segment", "plan"},
    "data": frozenset({"data"}),
}
WRITES = {
    "server": ALL,
    "worker": frozenset({"inbox", "queue", "liveness", "log", "commit", "data"}),
    "data": frozenset({"data"}),
}
_ACTIONS = {
    "s3:GetObject": "Read",
    "s3:PutObject": "Write",
    "s3:DeleteObject": "Write",
    "s3:AbortMultipartUpload": "Write",
}


def policy(role: str) -> dict[str, Any]:
    """The policy for S3 that the guide has for a role."""
    text = GUIDE.read_text("utf-8")
    match = re.search(rf"<!-- s3 policy: {role} -->\n```json\n(.*?)```", text, re.DOTALL)
    assert match, f"the guide has no policy for {role}"
    body = match[1].replace("BUCKET", BUCKET)
    found: dict[str, Any] = json.loads(body.replace("TENANT", "acme").replace("WORKSPACE", "prod"))
    return found


def seaweed_actions(document: dict[str, Any]) -> list[str]:
    """The same policy, as SeaweedFS writes it."""
    actions = []
    for statement in document["Statement"]:
        resources = statement["Resource"]
        places = [resources] if isinstance(resources, str) else resources
        names = statement["Action"]
        for name in [names] if isinstance(names, str) else names:
            if name == "s3:ListBucket":
                prefixes = statement["Condition"]["StringLike"]["s3:prefix"]
                listed = [prefixes] if isinstance(prefixes, str) else prefixes
                actions += [f"List:{BUCKET}/{prefix}" for prefix in listed]
            else:
                actions += [
                    f"{_ACTIONS[name]}:{place.removeprefix('arn:aws:s3:::')}" for place in places
                ]
    return sorted(set(actions))


@pytest.mark.cloud
@pytest.mark.xdist_group("s3")
def test_the_policies_of_the_guide_let_each_role_do_its_part_and_no_more() -> None:
    roles = {role: seaweed_actions(policy(role)) for role in READS}
    with limited_seaweedfs(roles) as (owner, limited):
        whole = ScopedStore(open_store(owner.url, **owner.options), "acme", "prod")
        other = ScopedStore(open_store(owner.url, **owner.options), "acme", "test")
        for path in PLACES.values():
            whole.put(path, b"x")
            other.put(path, b"x")
        allowed: dict[str, dict[str, set[str]]] = {}
        for role, (name, path) in itertools.product(roles, PLACES.items()):
            store = open_store(limited[role].url, **limited[role].options)
            own = ScopedStore(store, "acme", "prod")
            can = allowed.setdefault(role, {"read": set(), "write": set()})
            if _may(lambda own=own, path=path: own.get(path)):
                can["read"].add(name)
            if _may(lambda own=own, path=path: own.put(path, b"x", Mode.OVERWRITE)):
                can["write"].add(name)
            foreign = ScopedStore(store, "acme", "test")
            assert not _may(lambda foreign=foreign, path=path: foreign.get(path)), (role, path)
        for role, can in allowed.items():
            assert can["read"] == READS[role], role
            assert can["write"] == WRITES[role], role


def _may(act: Any) -> bool:
    try:
        act()
    except Denied:
        return False
    return True
