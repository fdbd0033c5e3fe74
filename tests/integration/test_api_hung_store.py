"""A store that hangs under a server: what is still answered, with what, and what comes after."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from arco.api.api_settings import ApiSettings
from arco.api.application import make_app
from arco.api.authentication import LocalAccess
from arco.api.served import KeySource, ServedWorkspace
from arco.api.server import ApiServer
from arco.api.serving import Binding, serve
from arco.api.table import ROUTES
from arco.app import Workspace
from arco.clock import SystemClock
from arco.security.authentication import Directories, KeyAuthenticator
from arco.security.permissions import Role
from arco.storage.memory import MemoryStore
from tests.kit.clocks import SimClock
from tests.kit.hanging import HangingStore

SETTINGS = ApiSettings(
    head_age_s=0.05,
    look_wait_s=0.4,
    request_timeout_s=1.0,
    threads=4,
    waiting=12,
    drain_s=1.0,
    rate_burst=100_000,
)
DEADLINE_S = 60.0


class Answered:
    def __init__(self, status: int, headers: dict[str, str], body: Any) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Site:
    """A server with two tenants, whose stores hang apart from each other."""

    def __init__(self) -> None:
        self.stores = {
            tenant: HangingStore(MemoryStore(SystemClock())) for tenant in ("acme", "rival")
        }
        self.workspaces = [Workspace(store, t, "prod") for t, store in self.stores.items()]
        self.keys: dict[str, str] = {}
        for workspace in self.workspaces:
            workspace.commands.catalog.create_namespace("sales")
            workspace.commands.catalog.create_asset("sales.orders")
            made = workspace.commands.security.create_key("ci", Role.OWNER)
            self.keys[workspace.tenant] = str(made.text)
        served = [ServedWorkspace(each, SETTINGS) for each in self.workspaces]
        clock = self.workspaces[0].clock
        keys = KeyAuthenticator(Directories([KeySource(each) for each in served]), clock.now)
        self.local = LocalAccess([(each.tenant, each.name) for each in self.workspaces], "ana")
        self.server = ApiServer(served, [keys, self.local], SETTINGS, clock, served)
        app = make_app(self.server, ROUTES, self.workspaces[0].ids, self.local)
        binding = Binding(port=0)
        listening = binding.listen()
        self.port = listening.getsockname()[1]
        self.stop = threading.Event()
        self.thread = threading.Thread(
            target=serve, args=(self.server, app, binding, listening, self.stop)
        )
        self.thread.start()

    def end(self) -> None:
        self.stop.set()
        for store in self.stores.values():
            store.recover()
        self.thread.join(30)
        assert not self.thread.is_alive()

    def send(
        self,
        tenant: str,
        path: str = "/assets",
        *,
        token: str = "",
        body: object = None,
        key: str = "",
    ) -> Answered:
        headers = {"Authorization": f"Bearer {token or self.keys.get(tenant, '')}"}
        base = f"/api/v1/workspaces/{tenant}/prod" if tenant else ""
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request("POST" if content else "GET", f"{base}{path}", content, headers)
            answer = connection.getresponse()
            given = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, given, json.loads(answer.read()))
        finally:
            connection.close()

    def until_answered(self, tenant: str) -> Answered:
        end = time.monotonic() + DEADLINE_S
        while True:
            answered = self.send(tenant)
            if answered.status == 200:
                return answered
            assert time.monotonic() < end, answered.body
            time.sleep(0.05)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.end()


def check_problem(answered: Answered) -> None:
    assert answered.status in (503, 504), answered.body
    assert answered.headers["content-type"] == "application/problem+json"
    assert int(answered.headers["retry-after"]) >= 1
    assert answered.body["code"] in ("unavailable", "busy", "timeout")
    assert answered.body["detail"] and answered.body["request_id"]


def test_a_hung_store_is_told_within_bounds_and_the_others_go_on(site: Site) -> None:
    assert site.send("acme").status == site.send("rival").status == 200
    threads = threading.active_count()
    site.stores["acme"].hang()
    time.sleep(2 * SETTINGS.head_age_s)  # so far a read may be behind the store
    with ThreadPoolExecutor(40) as clients:
        hung = [clients.submit(site.send, "acme") for _ in range(80)]
        pages = [clients.submit(site.send, "acme", f"/runs?page_size={n}") for n in range(1, 20)]
        others = [clients.submit(site.send, "rival") for _ in range(10)]
        for each in (*hung, *pages):
            check_problem(each.result(DEADLINE_S))
        assert {each.result(DEADLINE_S).status for each in others} == {200}
        assert site.send("", "/healthz").status == 200
        check_problem(site.send("", "/readyz"))
    # One look for all, and no more threads than there are for a workspace and for callers.
    assert site.stores["acme"].most_waiting <= 1 + 2 * SETTINGS.threads
    assert threading.active_count() - threads <= 3 * SETTINGS.threads + 4
    site.stores["acme"].recover()
    site.until_answered("acme")


def test_a_key_of_a_workspace_that_answers_counts_whatever_hangs(site: Site) -> None:
    """Also one that was never seen before, and one that nobody has is not called wrong."""
    site.stores["acme"].hang()
    assert site.send("rival").status == 200
    check_problem(site.send("acme"))
    elsewhere = Workspace(MemoryStore(SystemClock()), "none", "prod").commands.security
    unknown = str(elsewhere.create_key("ci", Role.OWNER).text)
    check_problem(site.send("rival", token=unknown))
    site.stores["acme"].recover()
    site.until_answered("acme")
    assert site.send("rival", token=unknown).status == 401


def test_a_write_that_was_not_answered_has_effect_once(site: Site) -> None:
    body = {"asset": "sales.late"}
    assert site.send("acme").status == 200
    site.stores["acme"].hang()
    with ThreadPoolExecutor(8) as clients:
        sent = [
            clients.submit(site.send, "acme", body=body, key="one", token=site.local.token)
            for _ in range(8)
        ]
        for each in sent:
            check_problem(each.result(DEADLINE_S))
    site.stores["acme"].recover()
    site.until_answered("acme")
    answers = [site.send("acme", body=body, key="one", token=site.local.token) for _ in range(2)]
    assert [each.status for each in answers] == [201, 201]
    assert answers[1].body["replayed"]
    listed = [item["name"] for item in site.send("acme").body["items"]]
    assert sorted(listed) == ["late", "orders"]


def test_a_workspace_whose_store_hangs_is_as_absent_as_one_that_is_not_there(site: Site) -> None:
    """For a caller of another tenant, and for one with a wrong key: also when the threads of that
    workspace are all taken."""
    assert site.send("acme").status == site.send("rival").status == 200
    site.stores["rival"].hang()
    time.sleep(2 * SETTINGS.head_age_s)
    wrong = f"{site.keys['acme'][:-4]}0000"
    with ThreadPoolExecutor(60) as clients:
        own = [clients.submit(site.send, "rival", f"/runs?page_size={n}") for n in range(1, 40)]
        while not site.stores["rival"].waiting:
            time.sleep(0.005)
        for token, expected in ((site.keys["acme"], 404), (wrong, 401)):
            sent = [
                clients.submit(site.send, tenant, token=token) for tenant in ("rival", "none") * 5
            ]
            answers = {each.result(DEADLINE_S).status for each in sent}
            assert answers == {expected}
        for each in own:
            check_problem(each.result(DEADLINE_S))


def unsigned(site: Site, tenant: str) -> list[tuple[int, str]]:
    """What is answered to a signed URL, a task token and a webhook event that are not good."""
    base = f"/api/v1/workspaces/{tenant}/prod"
    sent = [
        ("GET", f"{base}/signed/state/x?expires=99999999999&key=w1&signature={'0' * 64}", {}),
        ("GET", f"{base}/work/objects/data/x", {"Authorization": "Bearer arco_task_AAAA"}),
        (
            "POST",
            f"{base}/sensors/main/hook/events",
            {
                "webhook-id": "one",
                "webhook-timestamp": str(int(time.time())),
                "webhook-signature": "v1,AAAA",
            },
        ),
    ]
    answers = []
    for method, path, headers in sent:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=DEADLINE_S)
        connection.request(method, path, b"" if method == "POST" else None, headers)
        answer = connection.getresponse()
        text = re.sub(r'"request_id":"[^"]*"', "", answer.read().decode())
        answers.append((answer.status, text))
        connection.close()
    return answers


@pytest.mark.parametrize("was_asked", [True, False], ids=["asked before", "never asked"])
def test_a_bad_signature_does_not_tell_that_a_workspace_is_there_while_its_store_hangs(
    site: Site, was_asked: bool
) -> None:
    if was_asked:
        assert unsigned(site, "rival") == unsigned(site, "none")
    site.stores["rival"].hang()
    time.sleep(2 * SETTINGS.head_age_s)
    with ThreadPoolExecutor(60) as clients:
        own = [clients.submit(site.send, "rival", f"/runs?page_size={n}") for n in range(1, 40)]
        while not site.stores["rival"].waiting:
            time.sleep(0.005)
        absent = unsigned(site, "none")
        assert [status for status, _ in absent] == [403, 401, 404]
        assert unsigned(site, "rival") == absent
        for each in own:
            check_problem(each.result(DEADLINE_S))


def test_a_server_ends_although_its_store_hangs(site: Site) -> None:
    denied = site.workspaces[0].commands.security.create_key("low", Role.VIEWER)
    assert site.send("acme", body={"asset": "sales.x"}, key="k", token=str(denied.text)).status
    for store in site.stores.values():
        store.hang()
    site.stop.set()
    site.thread.join(DEADLINE_S)
    assert not site.thread.is_alive()


def test_what_a_slow_store_gives_is_given_to_all_who_wait(site: Site) -> None:
    """One look answers all who came together; none is refused while it is within the time."""
    site.send("acme")
    time.sleep(2 * SETTINGS.head_age_s)
    store = site.stores["acme"]
    store.calls.clear()
    store.hang()
    with ThreadPoolExecutor(4) as clients:
        sent = [clients.submit(site.send, "acme") for _ in range(4)]
        while not store.waiting:
            time.sleep(0.005)
        store.recover()
        assert [each.result(DEADLINE_S).status for each in sent] == [200] * 4


def test_a_look_from_before_a_commit_does_not_hide_it() -> None:
    inner = MemoryStore(SystemClock())
    store = HangingStore(inner)
    Workspace(inner, "acme", "prod").commands.catalog.create_namespace("sales")
    served = ServedWorkspace(Workspace(store, "acme", "prod"), ApiSettings(head_age_s=1_000.0))
    before = served.newest()
    served.invalidate()
    store.hang(with_answer=True)
    with ThreadPoolExecutor(2) as threads:
        early = threads.submit(served.newest)
        while not store.waiting:
            time.sleep(0.005)
        done = Workspace(inner, "acme", "prod").commands.catalog.create_asset("sales.orders")
        served.invalidate()  # as a write of this server does after its commit
        late = threads.submit(served.newest)
        time.sleep(0.05)
        store.recover()
        assert early.result(DEADLINE_S).generation >= before.generation
        assert late.result(DEADLINE_S).generation == done.generation
    assert served.newest().generation == done.generation
    served.close()


def test_the_next_look_begins_before_the_last_is_too_old() -> None:
    """So that no request waits for it, while requests keep coming."""
    clock = SimClock()
    store = HangingStore(MemoryStore(clock))
    workspace = Workspace(store, "acme", "prod", clock=clock)
    workspace.commands.catalog.create_namespace("sales")
    served = ServedWorkspace(workspace, ApiSettings(head_age_s=10.0))
    before = served.newest()
    done = workspace.commands.catalog.create_asset("sales.orders")
    store.calls.clear()
    clock.advance(timedelta(seconds=4))
    assert served.newest() is before and not store.calls
    store.hang()
    clock.advance(timedelta(seconds=2))
    assert served.newest() is before  # which has begun a look, and waits for nothing
    while not store.waiting:
        time.sleep(0.005)
    store.recover()
    end = time.monotonic() + DEADLINE_S
    while served.newest().generation < done.generation:
        assert time.monotonic() < end
        time.sleep(0.005)
    served.close()
