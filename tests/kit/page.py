"""The web page in a real browser: a workspace in memory, a real server, Debian's Chromium."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from arco.api.serving import Binding, serve
from tests.kit.api import ApiClient, ApiWorld

CHROMIUM = Path("/usr/bin/chromium")
SIZE: ViewportSize = {"width": 1280, "height": 800}
expect.set_options(timeout=20_000)


@contextmanager
def browser() -> Iterator[Browser]:
    assert CHROMIUM.exists(), "there is no browser: make chromium"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


class ServedPage:
    """A server for a world, on a port of this machine."""

    def __init__(self, world: ApiWorld, port: int = 0) -> None:
        self.world = world
        self._at = world.workspace
        self._binding = Binding(port=port)
        self._listening = self._binding.listen()
        self.port: int = self._listening.getsockname()[1]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        serve(self.world.server, self.world.app, self._binding, self._listening, self._stop)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base(self) -> str:
        return f"{self.origin}/w/{self._at.tenant}/{self._at.name}"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)


class Visit:
    """One person's window: what it was told, asked for, and complained of."""

    def __init__(
        self, browser: Browser, served: ServedPage, who: ApiClient | None, **options: Any
    ) -> None:
        self._served = served
        self._who = who
        self._context = browser.new_context(viewport=SIZE, **options)
        self._context.set_default_timeout(20_000)
        self._sign_in()
        self.requests: list[str] = []
        self.refused: list[str] = []
        self.complaints: list[str] = []
        self._context.add_init_script(
            "addEventListener('securitypolicyviolation', e => "
            "console.error('CSP', e.violatedDirective, e.blockedURI))"
        )
        self.page = self.tab()

    def _sign_in(self) -> None:
        if self._who is not None:
            cookie = {"name": "arco_local", "value": self._who.token, "url": self._served.origin}
            self._context.add_cookies([cookie])  # type: ignore[list-item]

    def begin_again(self, who: ApiClient | None) -> None:
        """An empty window of somebody; files of the page stay in the browser's cache."""
        self._who = who
        for page in self._context.pages:
            if page is not self.page:
                page.close()
        self.page.unroute_all()
        if self.page.url.startswith("http"):
            self.page.evaluate("localStorage.clear()")
        self.page.goto("about:blank")
        self.page.set_viewport_size(SIZE)
        self._context.clear_cookies()
        self._sign_in()
        for heard in (self.requests, self.refused, self.complaints):
            heard.clear()

    def tab(self) -> Page:
        page = self._context.new_page()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on(
            "response",
            lambda answer: (
                self.refused.append(f"{answer.status} {answer.url}")
                if answer.status >= 400
                else None
            ),
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        return page

    def _hear(self, message: Any) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)

    def go(self, path: str) -> Page:
        self.page.goto(f"{self._served.base}{path}")
        return self.page

    def move(self, path: str) -> Page:
        """Go there as a link of the page would: its code and the browser's engine stay loaded.

        First to a page that there is not, so that nothing of the page before is taken for it.
        """
        if not self.page.url.startswith(self._served.base):
            return self.go(path)
        for each in ("/nothing", path):
            self.page.evaluate(
                "url => { history.pushState(null, '', url);"
                " dispatchEvent(new PopStateEvent('popstate', { state: null })) }",
                f"{self._served.base}{each}",
            )
            if each == "/nothing":
                nothing = self.page.get_by_role("heading", name="There is no such page")
                expect(nothing).to_be_visible()
        return self.page

    def close(self) -> None:
        self._context.close()
