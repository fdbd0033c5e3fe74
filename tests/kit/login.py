"""A browser that logs in at the provider of `tests/kit/servers.py`, and its cookies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urljoin

import httpx


def authorized(url: str, subject: str, redirect_uri: str) -> str:
    """Where the provider sends the browser of somebody who says that he is this subject."""
    with httpx.Client(timeout=30) as browser:
        answer = browser.get(url)
        for _ in range(10):
            if answer.is_redirect:
                target = urljoin(str(answer.url), answer.headers["location"])
                if target.startswith(redirect_uri):
                    return target
                answer = browser.get(target)
                continue
            assert answer.status_code == 200, answer.text
            form = re.search(r'action="([^"]+)"', answer.text)
            prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
            assert form is not None and prompt is not None, answer.text
            fields = {"prompt": prompt[1], "login": subject, "password": "any"}
            answer = browser.post(urljoin(str(answer.url), form[1]), data=fields)
    raise AssertionError("the provider does not come to an end")


def cookies_of(response: httpx.Response) -> dict[str, str]:
    """Those that an answer sets, with their values."""
    values = {}
    for line in response.headers.get_list("set-cookie"):
        name, _, value = line.partition(";")[0].partition("=")
        values[name] = value.strip('"')
    return values


def cookie_header(cookies: Mapping[str, str]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items() if value)}
