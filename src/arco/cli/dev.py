"""`servo dev`: everything for one project, in one process, while it is being written."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import command, flag, option
from arco.cli.slots import start_slot_host
from arco.cli.stop_signal import stop_on_signal

if deferral.LOADED:
    import socket
    import webbrowser

    from arco.api.api_settings import ApiSettings
    from arco.api.development import DevelopmentState, SaveState
    from arco.api.serving import Binding, serve
    from arco.app import Workspace
    from arco.app.project_templates import create_local_store
    from arco.cli import render
    from arco.cli.channel_courier import channel_courier
    from arco.cli.exit_codes import INTERRUPTED
    from arco.cli.folder_lock import locked
    from arco.cli.http_server import build_server
    from arco.cli.run_lines import RunLines
    from arco.cli.saved_deploys import SavedDeploys
    from arco.cli.session import Session
    from arco.config import LOCAL_STORE
    from arco.engine import LocalEngine
    from arco.errors import Error, Invalid, Unavailable
    from arco.orchestration.limits import Timing
    from arco.storage.outage import Outage

PORT = 8321
DRAIN_S = 5.0
"""How long requests and running tasks may take after Ctrl-C."""
LOOK_S = 0.5


def register(app: typer.Typer) -> None:
    example = "servo dev\nservo dev --port 9000 --no-open"
    command(app, "dev", example=example, takes=["actor"], before=start_slot_host)(dev)


def dev(
    session: Session,
    host: Annotated[str, option("ADDRESS", "A loopback address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        option("PORT", f"Default: {PORT}, or any free port.", min=0, max=65_535),
    ] = None,
    no_open: Annotated[
        bool, flag("--no-open", "Print the link and do not open a browser.")
    ] = False,
    slots: Annotated[int, option("N", "Maximum number of concurrent tasks.", min=1)] = 4,
) -> None:
    """Run a local installation for the project in this folder.

    It starts an orchestrator (with schedules, sensors and automation), a worker, the HTTP API and
    the web page, and deploys each saved change. A failed deployment is reported here and on the
    web page; runs continue with the last deployment. Tasks run in separate processes.

    The workspace is in the folder `.arco`, unless --store, ARCO_STORE or `arco.toml` set another
    store. Ctrl-C stops everything; running tasks have a few seconds to end.
    """
    folder = Path.cwd()
    binding = Binding(host=host, port=PORT if port is None else port)
    if not binding.is_loopback:
        raise Invalid(
            f"{host} is not a loopback address; servo dev can only be used on this machine",
            hint="for other machines use `servo serve`, with TLS, or forward the port with ssh -L",
        )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # also in a pipe: it is read while this runs
    with locked(folder) as lock:
        session = _with_store(session, folder)
        listening = _listen(binding, any_port=port is None)
        url = binding.url(listening)
        lock.tell(url)
        server = _DevServer(session, folder, slots)
        server.serve(binding, listening, url, opens=not no_open)
    if session.json:
        render.line({"state": "stopped"})
    else:
        render.say("stopped")


def _with_store(session: Session, folder: Path) -> Session:
    """The session itself; if no store is configured, one with the store of the folder."""
    own = folder / LOCAL_STORE
    try:
        directory = session.config().directory
    except Invalid:
        return dataclasses.replace(session, store=str(create_local_store(folder)))
    if directory is not None and directory.name == LOCAL_STORE and not directory.exists():
        create_local_store(directory.parent)
    elif directory is not None and directory == own:
        create_local_store(folder)
    return session


def _listen(binding: Binding, *, any_port: bool) -> socket.socket:
    try:
        return binding.listen()
    except Unavailable:
        if not any_port:
            raise
    return Binding(host=binding.host, port=0).listen()


class _DevServer:
    """The parts, and their beginning and end."""

    def __init__(self, session: Session, folder: Path, slots: int) -> None:
        self._session = session
        self.workspace: Workspace = session.open()
        self._stop = stop_on_signal(again=self._exit)
        self._deploys = SavedDeploys(
            folder,
            session.config(),
            session.actor or "",
            self.workspace.clock,
            self._saved,
        )
        self._engine = LocalEngine(
            self.workspace,
            slots=slots,
            timing=Timing(
                heartbeat_s=2.0, zombie_after_s=10.0, claim_s=30.0, redeliver_after_s=10.0
            ).check(),
            courier=channel_courier(session),
            drain_s=DRAIN_S,
        )
        self._lines = RunLines(self.workspace, as_json=session.json)

    def serve(self, binding: Binding, listening: socket.socket, url: str, *, opens: bool) -> None:
        settings = ApiSettings(
            hosts=binding.local_names(listening), drain_s=DRAIN_S, sends_files=True
        )
        http = build_server(
            self._session,
            [self.workspace],
            settings,
            is_local=True,
            development=self._deploys.state,
        )
        assert http.local is not None
        link = f"{url}/local/{http.local.code}"
        self._tell_started(url, http.local.token, link)
        try:
            with self._engine.running(), self._beside(self._deploys.run, self._follow):
                if opens and _has_display():
                    webbrowser.open(link)
                serve(http.server, http.app, binding, listening, self._stop)
                stop_on_signal(self._stop, again=self._exit)  # the event loop had its own
                if not self._session.json:
                    render.say("stopping; press Ctrl-C again to exit at once", "dim")
        finally:
            self.workspace.runtime.spark().end()

    @contextlib.contextmanager
    def _beside(self, *targets: Callable[[threading.Event], None]) -> Iterator[None]:
        """Run these on threads until the block ends."""
        threads = [
            threading.Thread(target=self._guard, args=(target,), daemon=True) for target in targets
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._deploys.end()
            for thread in threads:
                thread.join()

    def _guard(self, target: Callable[[threading.Event], None]) -> None:
        try:
            target(self._stop)
        finally:
            self._stop.set()

    def _follow(self, stop: threading.Event) -> None:
        """Print events of runs. Ends when the engine has failed."""
        outage = Outage(self.workspace.clock, "view of runs")
        while not stop.is_set():
            try:
                self._engine.wait_for_change(LOOK_S)
            except Error:
                return
            try:
                self._lines.poll()
                outage.passed()
            except Error as error:
                stop.wait(outage.failed(error))

    def _exit(self) -> None:
        """The second Ctrl-C. Children end with this process."""
        self._deploys.end()
        os._exit(INTERRUPTED)

    # -- output ------------------------------------------------------------------------------

    def _tell_started(self, url: str, token: str, link: str) -> None:
        if self._session.json:
            render.line({"state": "started", "url": url, "token": token, "link": link})
            return
        render.say(f"servo dev at {url}; press Ctrl-C to stop", "bold")
        render.say(f"workspace: {self.workspace.store.url}", "dim")
        render.say(f"page, works once: {link}")

    def _saved(self, state: DevelopmentState, answer: Mapping[str, Any]) -> None:
        if state.state == SaveState.DEPLOYED and answer["changed"]:
            self.workspace.runtime.warm_spark()
        if self._session.json:
            render.line({"event": "save", **render.plain(state)})
            return
        time = f"{state.changed_at:%H:%M:%SZ}"
        match state.state:
            case SaveState.DEPLOYED if answer["changed"]:
                render.say(f"{time} deployed {state.deployment}{_changes(answer)}", "green")
                for warning in state.warnings:
                    render.note(warning)
            case SaveState.DEPLOYED:
                render.say(f"{time} deployment {state.deployment} already has this code", "dim")
            case SaveState.BROKEN:
                self._say_broken(state, time)

    def _say_broken(self, state: DevelopmentState, time: str) -> None:
        count = render.count(len(state.problems), "problem")
        head = f"the project has {count}" if state.problems else state.message
        render.say(f"{time} not deployed: {head}", "bold red")
        for problem in state.problems:
            render.say(f"  {problem.file}:{problem.line}: {problem.message}")
            if problem.hint:
                render.say(f"    {problem.hint}", "cyan")
        if state.hint:
            render.say(f"  {state.hint}", "cyan")
        if state.deployment is not None:
            render.say(f"  runs continue with deployment {state.deployment}", "dim")


def _changes(answer: Mapping[str, Any]) -> str:
    parts = [
        f"{len(answer[field]):,} {label}"
        for field, label in (("added", "new"), ("renamed", "renamed"), ("removed", "removed"))
        if answer[field]
    ]
    if answer["changed_assets"]:
        parts.append(f"{answer['changed_assets']:,} changed")
    return f": {', '.join(parts)}" if parts else ""


def _has_display() -> bool:
    """Whether a browser can be opened on this machine."""
    if not sys.stdout.isatty():
        return False
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
