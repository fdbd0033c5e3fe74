"""Login at an API through a browser: a port of this machine waits for the code."""

from __future__ import annotations

import http.server
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from arco.errors import Denied, NotFound, Unauthenticated, Unavailable
from arco.security.oidc import open_url
from arco.security.oidc_login import challenge_of
from arco.security.stored_tokens import StoredToken

WAIT_S: Final = 300.0
TIMEOUT_S: Final = 30.0


class ApiAccess:
    """The routes of an API that are about its caller."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url
        self._token = token

    def session(self) -> Mapping[str, Any]:
        return self._call("GET", "/auth/session")

    def end_session(self) -> None:
        """Also if it has ended already."""
        try:
            self._call("POST", "/auth/logout")
        except Unauthenticated:
            return

    def exchange(self, code: str, verifier: str) -> StoredToken:
        answer = self._call("POST", "/auth/token", {"code": code, "verifier": verifier})
        return StoredToken(answer["token"], answer["ends_at"])

    def _call(self, method: str, path: str, body: object = None) -> Mapping[str, Any]:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            headers["Content-Type"], data = "application/json", json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self._url}{path}", data=data, headers=headers, method=method
        )
        try:
            with open_url(request, TIMEOUT_S) as answer:
                document = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise _refusal(self._url, error) from None
        except (OSError, ValueError) as error:
            raise Unavailable(f"{self._url} did not respond: {error}") from None
        if not isinstance(document, dict):
            raise Unavailable(f"{self._url} is not an API of Arco")
        return document


def _refusal(url: str, error: urllib.error.HTTPError) -> Exception:
    try:
        detail = str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"{url} responded with {error.code}"
    match error.code:
        case 401:
            return Unauthenticated(detail, hint=f"servo auth login {url}")
        case 403:
            return Denied(detail)
        case 404:
            return NotFound(detail, hint="use --paste with an API key, or set [auth] client_id")
    return Unavailable(detail)


def browser_login(
    url: str, tell: Callable[[str], object], open_browser: Callable[[str], object] | None
) -> StoredToken:
    """The token of a session that the user allowed in a browser. Raises Unauthenticated."""
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    parameters: dict[str, str] = {}

    class LoginHandler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = dict(parse_qsl(urlsplit(self.path).query))
            is_ours = secrets.compare_digest(query.get("state", "").encode(), state.encode())
            if is_ours and "code" in query:
                parameters.update(query)
            text = (
                "You are logged in. Close this page."
                if is_ours
                else "This login has ended. Run `servo auth login` again."
            )
            self.send_response(200 if is_ours else 404)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), LoginHandler) as waiting:
        query = {
            "port": waiting.server_port,
            "state": state,
            "code_challenge": challenge_of(verifier),
        }
        link = f"{url}/auth/cli?{urlencode(query)}"
        tell(f"open {link}")
        if open_browser is not None:
            open_browser(link)
        waiting.timeout = WAIT_S
        for _ in range(100):  # requests for icons, and from others
            waiting.handle_request()
            if parameters:
                break
    if not parameters:
        raise Unauthenticated(
            "nobody logged in before the timeout",
            hint="try again, or use --paste",
        )
    return ApiAccess(url).exchange(parameters["code"], verifier)
