"""Login with a browser, and of the command line through a browser.

    GET  /auth/login      to the issuer, with a sealed cookie that knows the way back
    GET  /auth/callback   from the issuer: the session's cookie
    GET  /auth/session    the caller and its permissions
    POST /auth/logout     ends the session, on all servers
    GET  /auth/cli        asks whether `servo` on this machine may act for the user
    POST /auth/cli        yes: a code for a port of the browser's own machine
    POST /auth/token      the code, with the verifier of its challenge, for a session's token: once

Redirects go to this server, to the issuer, and to 127.0.0.1 with a code that only the requesting
program can use. A form of another site cannot confirm: the grant in our form is sealed for the
session.
"""

from __future__ import annotations

import hmac
import html
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from litestar import Request
from litestar.datastructures import Cookie

from arco.api.authentication import cookie_of, login_cookie, session_cookie, unauthenticated
from arco.api.development import PATH as DEVELOPMENT
from arco.api.exchange import Answer, RequestHeaders, exchange_of
from arco.api.problems import ApiError, invalid_body, invalid_field
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.api.session_bodies import (
    LoginState,
    LoginToken,
    SessionBody,
    SessionCaller,
    SessionWorkspace,
    TokenRequest,
)
from arco.errors import AlreadyExists, NotFound, Unauthenticated
from arco.plain_json import plain
from arco.security.caller import Caller
from arco.security.oidc_login import LoginAttempt, OidcLogin, challenge_of
from arco.security.sessions import LoginSession, Sessions
from arco.security.settings import AuthSettings
from arco.storage import paths
from arco.storage.port import Mode, Store

ATTEMPT_S: Final = 600
CODE_S: Final = 60
_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
AnyRequest = Request[Any, Any, Any]


class CliGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A command line that waits on a port of the browser's machine."""

    port: int
    state: str
    challenge: str
    session_id: str
    asked_at: float


class CliCode(msgspec.Struct, frozen=True, kw_only=True):
    session: LoginSession
    challenge: str
    made_at: float


class Login:
    """What `[auth]` with a client_id adds to a server."""

    def __init__(
        self,
        oidc: OidcLogin,
        sessions: Sessions,
        settings: AuthSettings,
        home: ServedWorkspace,
    ) -> None:
        self.oidc = oidc
        self.sessions = sessions
        self.settings = settings
        self.home = home


class LoginRoutes:
    def __init__(
        self, server: ApiServer, login: Login | None, *, is_development: bool = False
    ) -> None:
        self._server = server
        self._login = login
        self._is_development = is_development
        self._is_secure = server.settings.secure

    # -- with a browser ------------------------------------------------------------------

    async def begin(self, request: AnyRequest) -> Answer:
        exchange_of(request.scope).route = "/auth/login"
        login = self._require()
        after = _own_path(_query(request).get("next", "/"))
        uri = f"{self._own_url(request)}/auth/callback"
        attempt, url = await self._server.in_thread(lambda: login.oidc.begin(uri, after))
        sealed = login.sessions.sealer.seal("login", attempt)
        cookie = self._cookie(login_cookie(secure=self._is_secure), sealed, ATTEMPT_S)
        return Answer(303, b"", headers={"Location": url}, cookies=(cookie,))

    async def come_back(self, request: AnyRequest) -> Answer:
        exchange = exchange_of(request.scope)
        exchange.route = "/auth/callback"
        login = self._require()
        query = _query(request)
        attempt = self._attempt(request, login, query.get("state", ""))
        if "error" in query or not query.get("code"):
            raise unauthenticated("the issuer refused the login")
        self._server.check_address(exchange.address)
        try:
            identity = await self._server.in_thread(
                lambda: login.oidc.finish(attempt, query["code"], query.get("iss"))
            )
        except Unauthenticated:
            self._server.failed_login(exchange.address)
            raise
        hours = timedelta(hours=login.settings.session_hours)
        ends_at = self._server.clock.now() + hours
        token = login.sessions.begin(identity, self._new_id(), ends_at)
        name = session_cookie(secure=self._is_secure)
        cookies = (
            self._cookie(name, token, round(hours.total_seconds())),
            self._cookie(login_cookie(secure=self._is_secure), "", 0),
        )
        return Answer(303, b"", headers={"Location": attempt.next}, cookies=cookies)

    def _attempt(self, request: AnyRequest, login: Login, state: str) -> LoginAttempt:
        text = cookie_of(RequestHeaders(request.scope), login_cookie(secure=self._is_secure))
        attempt = login.sessions.sealer.unseal("login", text, LoginAttempt)
        now = self._server.clock.now().timestamp()
        if attempt is None or not 0 <= now - attempt.began_at <= ATTEMPT_S:
            raise unauthenticated(
                "this login was not started in this browser, or has timed out; log in again"
            )
        if not hmac.compare_digest(attempt.state.encode(), state.encode("utf-8", "replace")):
            raise unauthenticated("the response belongs to another login; log in again")
        return attempt

    async def end(self, request: AnyRequest) -> Answer:
        exchange_of(request.scope).route = "/auth/logout"
        caller = await self._server.authenticate(request, is_read=False)
        session = self._session(request)
        if session is not None and self._login is not None:
            home = self._login.home
            commands = home.commands(caller.at(home.tenant, home.name))
            ended = session
            await self._server.in_thread(
                lambda: commands.security.end_session(ended.session_id, ended.ends_at)
            )
            home.invalidate()
        names = (session_cookie(secure=self._is_secure), "arco_local")
        cookies = tuple(self._cookie(name, "", 0) for name in names)
        body = msgspec.json.encode(LoginState(state="logged_out"))
        return Answer(200, body, cookies=cookies)

    async def who(self, request: AnyRequest) -> Answer:
        """Never a 401: a page asks this first."""
        exchange_of(request.scope).route = "/auth/session"
        at = "/auth/login" if self._login is not None else None
        anonymous = SessionBody(caller=None, login=at)
        try:
            caller = await self._server.authenticate(request, is_read=True)
        except Unauthenticated:
            return Answer(200, msgspec.json.encode(anonymous))
        except ApiError as error:
            if error.api_kind != "unauthenticated":
                raise
            return Answer(200, msgspec.json.encode(anonymous))
        document = SessionBody(
            caller=SessionCaller(
                kind=caller.kind,
                id=caller.id,
                name=caller.name,
                email=caller.email,
                until=caller.until,
            ),
            login=at,
            workspaces=[
                _permissions(caller.at(tenant, name))
                for tenant, name in sorted(self._server.workspaces)
                if not caller.visible(tenant, name).nothing
            ],
            development=DEVELOPMENT if self._is_development and caller.kind == "local" else "",
        )
        return Answer(200, msgspec.json.encode(plain(document)))

    # -- with the command line -----------------------------------------------------------

    async def ask(self, request: AnyRequest) -> Answer:
        exchange_of(request.scope).route = "/auth/cli"
        login = self._require()
        given = _query(request)
        port, state, challenge = _cli_fields(given)
        session = await self._browser_session(request)
        if session is None:
            query = urlencode({"port": port, "state": state, "code_challenge": challenge})
            after = quote(f"/auth/cli?{query}", safe="")
            return Answer(303, b"", headers={"Location": f"/auth/login?next={after}"})
        grant = CliGrant(
            port=port,
            state=state,
            challenge=challenge,
            session_id=session.session_id,
            asked_at=self._server.clock.now().timestamp(),
        )
        sealed = login.sessions.sealer.seal("cli", grant)
        page = _PAGE.format(
            name=html.escape(session.identity.email or session.identity.subject),
            grant=html.escape(sealed),
        )
        policy = (
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; "
            "form-action 'self' http://127.0.0.1:*"
        )
        return Answer(
            200,
            page.encode(),
            media_type="text/html; charset=utf-8",
            headers={"Content-Security-Policy": policy},
        )

    async def allow(self, request: AnyRequest) -> Answer:
        exchange_of(request.scope).route = "/auth/cli"
        login = self._require()
        session = await self._browser_session(request)
        raw = await self._server.body(request)
        given = dict(parse_qsl(raw.decode("utf-8", "replace"), max_num_fields=10))
        grant = login.sessions.sealer.unseal("cli", given.get("grant", ""), CliGrant)
        now = self._server.clock.now().timestamp()
        if session is None or grant is None or grant.session_id != session.session_id:
            raise unauthenticated(
                "this confirmation was not requested in this browser; log in again"
            )
        if not 0 <= now - grant.asked_at <= ATTEMPT_S:
            raise unauthenticated("the confirmation timed out; log in again")
        own = msgspec.structs.replace(session, session_id=self._new_id())
        code = CliCode(session=own, challenge=grant.challenge, made_at=now)
        query = urlencode({"code": login.sessions.sealer.seal("code", code), "state": grant.state})
        return Answer(303, b"", headers={"Location": f"http://127.0.0.1:{grant.port}/?{query}"})

    async def exchange(self, request: AnyRequest) -> Answer:
        exchange = exchange_of(request.scope)
        exchange.route = "/auth/token"
        login = self._require()
        self._server.check_address(exchange.address)
        raw = await self._server.body(request)
        try:
            request_body = msgspec.json.decode(raw, type=TokenRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError):
                raise invalid_field("body", "is not JSON in UTF-8") from None
            raise invalid_body(error, "body") from None
        code = login.sessions.sealer.unseal("code", request_body.code, CliCode)
        now = self._server.clock.now().timestamp()
        is_right = code is not None and hmac.compare_digest(
            challenge_of(request_body.verifier).encode(), code.challenge.encode()
        )
        if code is None or not is_right or not 0 <= now - code.made_at <= CODE_S:
            self._server.failed_login(exchange.address)
            raise unauthenticated("the code is invalid or has expired")
        session = code.session
        store = login.home.workspace.store
        await self._server.in_thread(lambda: _use(store, session.session_id), login.home)
        token = login.sessions.begin(session.identity, session.session_id, session.ends_at)
        answer = LoginToken(token=token, ends_at=session.ends_at)
        return Answer(200, msgspec.json.encode(plain(answer)))

    # -- what they share -----------------------------------------------------------------

    def _require(self) -> Login:
        if self._login is None:
            raise NotFound(
                "this server has no login", hint="set issuer and client_id in [auth] of arco.toml"
            )
        return self._login

    async def _browser_session(self, request: AnyRequest) -> LoginSession | None:
        """The session of the cookie, if it holds."""
        session = self._session(request)
        if session is not None:
            try:
                await self._server.authenticate(request, is_read=True)
            except Unauthenticated:
                return None
        return session

    def _session(self, request: AnyRequest) -> LoginSession | None:
        if self._login is None:
            return None
        headers = RequestHeaders(request.scope)
        scheme, _, bearer = (headers.get("authorization") or "").partition(" ")
        name = session_cookie(secure=self._is_secure)
        token = bearer.strip() if scheme.lower() == "bearer" else cookie_of(headers, name)
        return self._login.sessions.read(token)

    def _own_url(self, request: AnyRequest) -> str:
        assert self._login is not None
        if self._login.settings.public_url:
            return self._login.settings.public_url.rstrip("/")
        host = RequestHeaders(request.scope).get("host") or ""  # one of ours: Edge has checked it
        return f"{'https' if self._is_secure else 'http'}://{host}"

    def _new_id(self) -> str:
        assert self._login is not None
        return self._login.home.workspace.ids()

    def _cookie(self, name: str, value: str, seconds: int) -> Cookie:
        return Cookie(
            key=name,
            value=value,
            max_age=seconds,
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="lax",
        )


def _use(store: Store, session_id: str) -> None:
    """A code is exchanged once, at any server. GC removes the object, like liveness records."""
    try:
        store.put(paths.login_code(session_id), b"{}", Mode.CREATE)
    except AlreadyExists:
        raise unauthenticated("the code was already used; log in again") from None


def _permissions(caller: Caller) -> SessionWorkspace:
    """What a caller may do in a workspace: everywhere in it, and in namespaces."""
    in_workspace = caller.permissions()
    visible = caller.visible(caller.tenant, caller.workspace)
    namespaces = {
        name: sorted(more)
        for name in sorted(visible.namespaces or ())
        if (more := caller.permissions(name) - in_workspace)
    }
    return SessionWorkspace(
        tenant=caller.tenant,
        workspace=caller.workspace,
        permissions=sorted(in_workspace),
        namespaces=namespaces,
    )


def _query(request: AnyRequest) -> dict[str, str]:
    raw = request.scope["query_string"].decode("latin-1")
    try:
        return dict(parse_qsl(raw, max_num_fields=50))
    except ValueError:
        raise ApiError("invalid", "the query cannot be read", code="invalid_query") from None


def _own_path(text: str) -> str:
    """Where to go next: a path of this server, or the first page."""
    is_own = _PATH.fullmatch(text) is not None and len(text) <= 2_000
    return text if is_own and not text.startswith("/auth/log") else "/"


def _cli_fields(given: Mapping[str, str]) -> tuple[int, str, str]:
    port, state = given.get("port", ""), given.get("state", "")
    challenge = given.get("code_challenge", "")
    if not port.isascii() or not port.isdecimal() or not 1024 <= int(port[:6]) <= 65_535:
        raise invalid_field("port", "is not a port from 1024 to 65535")
    if not _CHALLENGE.fullmatch(state) or not _CHALLENGE.fullmatch(challenge):
        raise invalid_field("code_challenge", "state and code_challenge have 43 characters")
    return int(port), state, challenge


_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Log in the command line</title>
<h1>Log in the command line</h1>
<p>A program on this computer asks to act as <b>{name}</b>.</p>
<p>Allow it only if you have just run <code>servo auth login</code> yourself.</p>
<form method="post" action="/auth/cli"><input type="hidden" name="grant" value="{grant}">
<button type="submit">Allow</button></form></html>
"""
