"""`servo auth login`, `whoami` and `logout`: access through an API instead of the store."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, flag

if deferral.LOADED:
    import getpass
    import sys
    import webbrowser

    from arco.cli import render
    from arco.cli.api_login import ApiAccess, browser_login
    from arco.cli.session import Session
    from arco.clock import SystemClock
    from arco.errors import Invalid, Unauthenticated
    from arco.security.stored_tokens import StoredToken, TokenFile, api_url

ApiUrl = Annotated[str, argument("URL", "The API; default: ARCO_API.")]


def register(app: typer.Typer) -> None:
    example = (
        "servo auth login https://arco.example.com\n"
        "servo auth login https://arco.example.com --paste"
    )
    command(app, "login", example=example)(login)
    command(app, "whoami", example="servo auth whoami --json")(whoami)
    command(app, "logout", example="servo auth logout")(logout)


def login(
    session: Session,
    url: ApiUrl = "",
    paste: Annotated[bool, flag("--paste", "Read an API key from the terminal instead.")] = False,
    no_browser: Annotated[
        bool, flag("--no-browser", "Print the link and do not open a browser.")
    ] = False,
) -> None:
    """Log in to an API, and store the token for `servo` on this machine.

    A browser opens for the login. The token is stored in a file that only you can read,
    `~/.config/servo/tokens.json`, until the session ends. It is used if ARCO_API is this API and
    ARCO_TOKEN is not set.
    """
    at = _url(url)
    if paste:
        text = getpass.getpass("API key: ") if sys.stdin.isatty() else sys.stdin.readline()
        stored = StoredToken(text.strip())
    else:
        stored = browser_login(at, render.note, None if no_browser else webbrowser.open)
    login_session = ApiAccess(at, stored.token).session()
    if login_session["caller"] is None:
        raise Unauthenticated(f"{at} does not accept the token", hint="log in again")
    TokenFile.of_user(os.environ).put(at, stored)
    name = (
        login_session["caller"]["email"]
        or login_session["caller"]["name"]
        or login_session["caller"]["id"]
    )
    if session.json:
        render.document(
            {"api": at, "caller": login_session["caller"], "ends_at": stored.ends_at or None}
        )
    else:
        render.say(f"logged in at {at} as {name}")


def whoami(session: Session, url: ApiUrl = "") -> None:
    """Show your identity at an API, and your permissions in its workspaces.

    With direct access to the store you have all permissions.
    """
    if not url and not os.environ.get("ARCO_API"):
        name = session.who()
        if session.json:
            render.document({"api": None, "caller": {"kind": "local", "id": name}})
        else:
            render.say(f"{name}, with direct access to the store")
        return
    at = _url(url)
    login_session = ApiAccess(at, _token(at)).session()
    if login_session["caller"] is None:
        raise Unauthenticated(f"{at} does not accept your token", hint=f"servo auth login {at}")
    if session.json:
        render.document({"api": at, **login_session})
        return
    caller = login_session["caller"]
    render.say(f"{caller['kind']} {caller['email'] or caller['name'] or caller['id']} at {at}")
    lines = []
    for each in login_session["workspaces"]:
        place = f"{each['tenant']}/{each['workspace']}"
        if each["permissions"]:
            lines.append((place, "all", ", ".join(each["permissions"])))
        lines += [
            (place, namespace, ", ".join(permissions))
            for namespace, permissions in each["namespaces"].items()
        ]
    render.show_table(("workspace", "namespace", "permissions"), lines)


def logout(session: Session, url: ApiUrl = "") -> None:
    """End the session at an API, and delete its token. An API key is deleted here but stays
    valid."""
    at = _url(url)
    file = TokenFile.of_user(os.environ)
    token = file.token_for(at, SystemClock().now())
    if token:
        ApiAccess(at, token).end_session()
    is_removed = file.remove(at)
    if session.json:
        render.document({"api": at, "logged_out": is_removed})
    else:
        render.say(f"logged out of {at}" if is_removed else f"there is no token for {at}")


def _url(given: str) -> str:
    text = given or os.environ.get("ARCO_API", "")
    if not text:
        raise Invalid("no API URL is set", hint="give the URL, or set ARCO_API")
    return api_url(text)


def _token(at: str) -> str:
    token = os.environ.get("ARCO_TOKEN") or TokenFile.of_user(os.environ).token_for(
        at, SystemClock().now()
    )
    if not token:
        raise Unauthenticated(f"there is no token for {at}", hint=f"servo auth login {at}")
    return token
