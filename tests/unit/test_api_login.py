"""Logging in with a browser at a real provider, and with the command line by way of it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from litestar.types import ASGIApp

from arco.api.application import make_app
from arco.api.login import Login
from arco.api.served import KeySource
from arco.api.table import ROUTES
from arco.clock import SystemClock
from arco.security.authentication import Directories, OidcAuthenticator
from arco.security.oidc import TokenVerifier
from arco.security.oidc_login import LoginAttempt, OidcLogin
from arco.security.permissions import Role
from arco.security.sessions import Sealer, Sessions, session_key
from arco.security.settings import AuthSettings, parse_auth
from tests.kit.api import ApiClient, ApiWorld, Company
from tests.kit.login import authorized, cookie_header, cookies_of
from tests.kit.servers import oidc_provider

pytestmark = pytest.mark.xdist_group("oidc")

CALLBACK = "http://arco/auth/callback"
USERS = {
    "ann": {"email": "Ann@example.com", "email_verified": True, "name": "Ann", "groups": ["ops"]},
    "bob": {"email": "ann@example.com", "email_verified": False},
}
CLIENTS = [
    {
        "client_id": "arco",
        "client_secret": "of-tests",
        "redirect_uris": [CALLBACK, "https://arco.example/auth/callback"],
    }
]


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_provider(USERS, CLIENTS) as url:
        yield url


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


def settings_of(issuer: str, **more: Any) -> AuthSettings:
    return parse_auth({"issuer": issuer, "audience": "arco", "client_id": "arco", **more})


class LoginWorld(ApiWorld):
    """A server with a login, as `servo serve` makes it."""

    def __init__(self, company: Company, auth: AuthSettings, **settings: Any) -> None:
        self._auth = auth
        super().__init__(company.town.fresh(), **settings)

    def make_app(self) -> ASGIApp:
        auth = self._auth
        clock = _RealNow(self.workspace.clock)
        directories = Directories([KeySource(self.served)])
        verifier = TokenVerifier(auth, clock)
        oidc = OidcAuthenticator(verifier, auth, directories)
        sealer = Sealer(session_key(self.workspace.store))
        home = KeySource(self.served)
        sessions = Sessions(sealer, oidc, home, self.workspace.clock.now)
        self.add_authenticator(sessions)
        login = OidcLogin(auth, verifier, self.workspace.clock, "of-tests")
        self.login = Login(login, sessions, auth, self.served)
        return make_app(self.server, ROUTES, self.workspace.ids, self.local, login=self.login)

    @property
    def browser(self) -> ApiClient:
        return self.without_token()

    def get(self, path: str, cookies: dict[str, str] | None = None) -> httpx.Response:
        return self.browser.send("GET", path, headers=cookie_header(cookies or {}))

    def begin(self, path: str = "/auth/login") -> tuple[str, dict[str, str]]:
        """The URL at the issuer, and the cookies."""
        response = self.get(path)
        assert response.status_code == 303, response.text
        return response.headers["location"], cookies_of(response)

    def log_in(self, subject: str, path: str = "/auth/login") -> tuple[dict[str, str], str]:
        """The cookies of somebody who has logged in, and where he is sent."""
        url, cookies = self.begin(path)
        redirect = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        back = urlsplit(authorized(url, subject, redirect))
        response = self.get(f"{back.path}?{back.query}", cookies)
        assert response.status_code == 303, response.text
        return cookies_of(response), response.headers["location"]


class _RealNow:
    """The issuer's tokens have the time of this machine; all else has that of the test."""

    def __init__(self, clock: Any) -> None:
        self.now = SystemClock().now
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep


@pytest.fixture
def world(company: Company, issuer: str) -> Iterator[LoginWorld]:
    world = LoginWorld(company, settings_of(issuer))
    yield world
    world.close()


def grant(world: ApiWorld, subject: str, role: Role, namespace: str = "") -> None:
    world.workspace.commands.security.grant(subject, role, namespace=namespace)


def test_a_browser_logs_in_and_sees_what_was_granted(world: LoginWorld) -> None:
    grant(world, "user:ann@example.com", Role.VIEWER, "sales")
    cookies, after = world.log_in("ann", "/auth/login?next=/w/acme/prod/runs%3Fa=1")
    assert after == "/w/acme/prod/runs?a=1"
    assert set(cookies) == {"arco_session", "arco_login"} and not cookies["arco_login"]
    rows = world.get("/assets", cookies).json()["items"]
    assert {row["namespace"] for row in rows} == {"sales"}
    session = world.get("/auth/session", cookies).json()
    assert session["caller"]["email"] == "ann@example.com"
    (at,) = session["workspaces"]
    assert at["permissions"] == []
    assert set(at["namespaces"]) == {"sales"}
    assert "assets.read" in at["namespaces"]["sales"]
    assert "runs.trigger" not in at["namespaces"]["sales"]


def test_an_address_that_is_not_verified_gives_nothing(world: LoginWorld) -> None:
    grant(world, "user:ann@example.com", Role.VIEWER, "sales")
    cookies, _ = world.log_in("bob")
    assert world.get("/assets", cookies).status_code == 404
    assert world.get("/auth/session", cookies).json()["caller"]["email"] == ""


def test_a_role_counts_at_once_and_a_group_of_the_settings_too(
    company: Company, issuer: str
) -> None:
    group = {"group": "ops", "role": "viewer", "tenant": "other"}
    world = LoginWorld(company, settings_of(issuer, groups=[group]))
    try:
        cookies, _ = world.log_in("ann")
        grant(world, "group:ops", Role.OPERATOR, "hr")
        rows = world.get("/assets", cookies).json()["items"]
        assert "hr" in {row["namespace"] for row in rows}
        world.workspace.commands.security.revoke("group:ops", namespace="hr")
    finally:
        world.close()


def test_without_a_session_the_page_learns_where_to_log_in(world: LoginWorld) -> None:
    nobody: dict[str, Any] = {
        "caller": None,
        "login": "/auth/login",
        "workspaces": [],
        "development": "",
    }
    assert world.get("/auth/session").json() == nobody
    stale = {"arco_session": "arco_session_AAAA"}
    assert world.get("/auth/session", stale).json()["caller"] is None


def test_a_write_with_the_cookie_needs_the_header(world: LoginWorld) -> None:
    grant(world, "user:ann@example.com", Role.OWNER)
    cookies, _ = world.log_in("ann")
    body = {"asset": "sales.from_browser"}
    sent = cookie_header(cookies)
    refused = world.browser.send("POST", "/assets", json=body, headers=sent)
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf")
    headers = {**sent, "X-Arco-Csrf": "1"}
    assert world.browser.send("POST", "/assets", json=body, headers=headers).status_code == 201


def test_logging_out_ends_the_session_on_every_server(
    company: Company, issuer: str, world: LoginWorld
) -> None:
    other = LoginWorld(company, settings_of(issuer))
    cookies, _ = world.log_in("ann")
    assert other.get("/auth/session", cookies).json()["caller"] is not None
    assert world.browser.post("/auth/logout", **cookie_header(cookies)).status_code == 403
    sent = {**cookie_header(cookies), "X-Arco-Csrf": "1"}
    done = world.browser.send("POST", "/auth/logout", headers=sent)
    assert done.status_code == 200
    assert cookies_of(done) == {"arco_session": "", "arco_local": ""}
    for server in (world, other):
        assert server.get("/auth/session", cookies).json()["caller"] is None
        assert server.get("/assets", cookies).status_code == 401
    other.close()


def test_a_session_ends_by_itself(world: LoginWorld) -> None:
    cookies, _ = world.log_in("ann")
    world.workspace.clock.sleep(12 * 3600 + 1)
    assert world.get("/auth/session", cookies).json()["caller"] is None


def test_behind_tls_cookies_belong_to_the_host(company: Company, issuer: str) -> None:
    auth = settings_of(issuer, public_url="https://arco.example/")
    world = LoginWorld(company, auth, secure=True)
    try:
        url, cookies = world.begin()
        query = parse_qs(urlsplit(url).query)
        assert query["redirect_uri"] == ["https://arco.example/auth/callback"]
        assert query["code_challenge_method"] == ["S256"]
        assert set(cookies) == {"__Host-arco_login"}
        response = world.get("/auth/login")
        (line,) = response.headers.get_list("set-cookie")
        attributes = {part.strip().lower() for part in line.split(";")[1:]}
        assert {"httponly", "secure", "samesite=lax", "path=/"} <= attributes
        session, _ = world.log_in("ann")
        plain = {"arco_session": session["__Host-arco_session"]}
        assert world.get("/auth/session", session).json()["caller"] is not None
        assert world.get("/auth/session", plain).json()["caller"] is None
    finally:
        world.close()


@pytest.mark.parametrize(
    "path",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "/auth/login", "", "x", "/a\nb"],
)
def test_redirects_stay_with_us(world: LoginWorld, path: str) -> None:
    response = world.browser.send("GET", "/auth/login", params={"next": path})
    sealed = cookies_of(response)["arco_login"]
    attempt = world.login.sessions.sealer.unseal("login", sealed, LoginAttempt)
    assert attempt is not None and attempt.next == "/"


def test_an_answer_of_the_issuer_counts_for_its_own_login_alone(world: LoginWorld) -> None:
    url, cookies = world.begin()
    back = urlsplit(authorized(url, "ann", CALLBACK))
    _, others = world.begin()
    target = f"{back.path}?{back.query}"
    assert world.get(target).status_code == 401  # without the cookie
    assert world.get(target, others).status_code == 401  # of another login
    wrong = target.replace("iss=", "iss=x")
    assert world.get(wrong, cookies).status_code == 401
    assert world.get(target, cookies).status_code == 303
    assert world.get(target, cookies).status_code == 401  # a code counts once
    assert world.get("/auth/callback?error=access_denied&state=x", cookies).status_code == 401


def test_a_sealed_text_of_another_kind_is_no_session(world: LoginWorld) -> None:
    _, cookies = world.begin()
    forged = {"arco_session": f"arco_session_{cookies['arco_login']}"}
    assert world.get("/assets", forged).status_code == 401
    session, _ = world.log_in("ann")
    text = session["arco_session"]
    for changed in (text[:-2], text[:-2] + "AA", text[: len(text) // 2], text + "A"):
        assert world.get("/assets", {"arco_session": changed}).status_code == 401


# -- the command line ------------------------------------------------------------------------

VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=")
ASK = f"/auth/cli?port=50123&state={'s' * 43}&code_challenge={CHALLENGE.decode()}"


def allowed(world: LoginWorld, cookies: dict[str, str]) -> httpx.Response:
    page = world.get(ASK, cookies)
    assert page.status_code == 200
    grant_text = page.text.partition('name="grant" value="')[2].partition('"')[0]
    return world.browser.send(
        "POST", "/auth/cli", content=f"grant={grant_text}".encode(), headers=cookie_header(cookies)
    )


def test_the_command_line_gets_a_session_of_its_own(world: LoginWorld) -> None:
    grant(world, "user:ann@example.com", Role.VIEWER, "sales")
    first = world.get(ASK)
    assert first.status_code == 303
    cookies, after = world.log_in("ann", first.headers["location"])
    assert after == ASK
    back = urlsplit(allowed(world, cookies).headers["location"])
    assert (back.hostname, back.port) == ("127.0.0.1", 50123)
    given = parse_qs(back.query)
    assert given["state"] == ["s" * 43]
    body = {"code": given["code"][0], "verifier": VERIFIER}
    wrong = {**body, "verifier": "w" * 43}
    assert world.browser.send("POST", "/auth/token", json=wrong).status_code == 401
    token = world.browser.send("POST", "/auth/token", json=body).json()["token"]
    assert world.browser.send("POST", "/auth/token", json=body).status_code == 401  # once
    client = ApiClient(world, token)
    assert "sales" in {row["namespace"] for row in client.get("/assets")["items"]}
    sent = {**cookie_header(cookies), "X-Arco-Csrf": "1"}
    assert world.browser.send("POST", "/auth/logout", headers=sent).status_code == 200
    assert client.send("GET", "/assets").status_code == 200
    assert client.send("POST", "/auth/logout").status_code == 200
    assert client.send("GET", "/assets").status_code == 401


def test_nobody_else_says_yes_for_who_is_logged_in(world: LoginWorld) -> None:
    ann, _ = world.log_in("ann")
    bob, _ = world.log_in("bob")
    page = world.get(ASK, bob)
    text = page.text.partition('name="grant" value="')[2].partition('"')[0]
    forged = world.browser.send(
        "POST", "/auth/cli", content=f"grant={text}".encode(), headers=cookie_header(ann)
    )
    assert forged.status_code == 401
    assert world.browser.send("POST", "/auth/cli", content=b"grant=x").status_code == 401
    assert "form-action 'self'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("change", ["port=80&", "port=x&", "port=99999999999&"])
def test_only_ports_of_programs_are_asked_for(world: LoginWorld, change: str) -> None:
    assert world.get(ASK.replace("port=50123&", change)).status_code == 400


def test_a_code_of_the_command_line_ends_in_a_minute(world: LoginWorld) -> None:
    cookies, _ = world.log_in("ann")
    code = parse_qs(urlsplit(allowed(world, cookies).headers["location"]).query)["code"][0]
    world.workspace.clock.sleep(61)
    body = {"code": code, "verifier": VERIFIER}
    assert world.browser.send("POST", "/auth/token", json=body).status_code == 401
