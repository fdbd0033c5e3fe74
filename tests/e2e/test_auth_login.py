"""`servo auth login|whoami|logout` at a server whose people log in at a real provider."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest

from tests.e2e.conftest import Servo, populate
from tests.kit.login import authorized
from tests.kit.servers import oidc_provider

pytestmark = pytest.mark.xdist_group("oidc")


@contextmanager
def serving(servo: Servo, port: int) -> Iterator[str]:
    process = servo.start("serve", "--port", str(port), "--json")
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def say_yes(link: str, subject: str) -> None:
    """A browser that follows the link of the command line, logs in, and allows it."""
    with httpx.Client(timeout=60) as browser:
        answer = browser.get(link)
        while answer.is_redirect:
            target = urljoin(str(answer.url), answer.headers["location"])
            query = parse_qs(urlsplit(target).query)
            if "redirect_uri" in query:
                target = authorized(target, subject, query["redirect_uri"][0])
            answer = browser.get(target)
        assert answer.status_code == 200, answer.text
        grant = re.search(r'name="grant" value="([^"]+)"', answer.text)
        assert grant is not None
        answer = browser.post(str(answer.url).partition("?")[0], data={"grant": grant[1]})
        assert "logged in" in browser.get(answer.headers["location"]).text


def test_somebody_logs_in_by_a_browser_and_out_again(servo: Servo) -> None:
    populate(servo.open())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    callback = f"http://127.0.0.1:{port}/auth/callback"
    client = {"client_id": "arco", "client_secret": "of-tests", "redirect_uris": [callback]}
    users = {"ann": {"email": "ann@example.com", "email_verified": True}}
    with oidc_provider(users, [client]) as issuer:
        (servo.directory / "arco.toml").write_text(
            f'[auth]\nissuer = "{issuer}"\naudience = "arco"\nclient_id = "arco"\n'
            'client_secret = "env:CLIENT_SECRET"\n'
        )
        config = servo.directory / "config"
        servo.env |= {"CLIENT_SECRET": "of-tests", "XDG_CONFIG_HOME": str(config)}
        servo.json("roles", "grant", "user:ann@example.com", "viewer", "--namespace", "sales")
        with serving(servo, port) as url:
            servo.env["ARCO_API"] = url
            assert servo.error("auth", "whoami", code=4)["hint"] == f"servo auth login {url}"
            asking = servo.start("auth", "login", "--no-browser", "--json")
            link = asking.stderr.readline().split()[-1]
            say_yes(link, "ann")
            out, err = asking.communicate(timeout=60)
            assert asking.returncode == 0, err
            assert json.loads(out)["caller"]["email"] == "ann@example.com"
            kept = config / "servo" / "tokens.json"
            assert stat.S_IMODE(kept.stat().st_mode) == 0o600
            who = servo.json("auth", "whoami")
            assert list(who["workspaces"][0]["namespaces"]) == ["sales"]
            del servo.env["ARCO_API"]
            servo.json("roles", "grant", "user:ann@example.com", "viewer")
            servo.env["ARCO_API"] = url
            servo.json("catalog", "asset", "list")  # with the token that was kept
            assert servo.json("auth", "logout")["logged_out"] is True
            assert kept.read_text() == "{}"
