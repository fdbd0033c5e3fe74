"""Deploys a project's folder whenever a file of it is saved.

The folder is scanned a few times a second; a save is deployed when the files have not changed for a
moment, so that an editor or git that writes many files causes one deployment. Each deployment is a
separate `servo deploy` process: code that crashes, hangs or prints when it is imported does not
affect this process. After a failed deployment, runs continue with the last one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from arco.api.development import DevelopmentState, SaveState
from arco.clock import Clock
from arco.config import LOCAL_STORE, Config
from arco.errors import Error
from arco.tasks import private
from arco.worker.packing import file_stamps
from servo.project import Problem

LOOK_S: Final = 0.4
"""Interval of scans."""
SETTLED_S: Final = 0.15
"""Files that did not change for this long are deployed."""
MAX_SETTLING: Final = 40
"""After this many scans, files that still change are deployed as they are."""
SCAN_SHARE: Final = 20
"""Scans may take this part of the time (one in 20)."""
IMPORT_S: Final = 120.0
"""A deployment that takes longer is stopped."""
MESSAGE: Final = "servo dev"

Stamps = Mapping[str, tuple[int, int]]


class SavedDeploys:
    def __init__(
        self,
        folder: Path,
        config: Config,
        actor: str,
        clock: Clock,
        on_state: Callable[[DevelopmentState, Mapping[str, Any]], None],
    ) -> None:
        """`on_state` is called with each new state, and the output of `servo deploy --json`."""
        self._folder = folder
        self._config = config
        self._actor = actor
        self._clock = clock
        self._on_state = on_state
        self._child: subprocess.Popen[str] | None = None
        self._state = DevelopmentState(
            state=SaveState.DEPLOYING, folder=str(folder), changed_at=clock.now()
        )

    def state(self) -> DevelopmentState:
        return self._state

    def run(self, stop: threading.Event) -> None:
        """Deploy the folder as it is, and then each save, until `stop`."""
        before: Stamps | None = None
        while not stop.is_set():
            stamps, scanned_s = self._stamps()
            if stamps != before:
                stamps = self._settled(stamps, stop)
                if not stop.is_set():
                    self._deploy(stop)
                before = stamps
            stop.wait(max(LOOK_S, SCAN_SHARE * scanned_s))

    def end(self) -> None:
        """Stop a running deployment. Without a commit it has no effect."""
        child = self._child
        if child is not None and child.poll() is None:
            child.terminate()

    # -- scanning ----------------------------------------------------------------------------

    def _stamps(self) -> tuple[Stamps, float]:
        began = self._clock.monotonic()
        directory = self._config.directory
        try:
            stamps: Stamps = file_stamps(self._folder, without=[directory] if directory else [])
        except (OSError, Error):  # the deployment reports the problem
            stamps = {}
        return stamps, self._clock.monotonic() - began

    def _settled(self, stamps: Stamps, stop: threading.Event) -> Stamps:
        for _ in range(MAX_SETTLING):
            stop.wait(SETTLED_S)
            again, _ = self._stamps()
            if again == stamps:
                break
            stamps = again
        return stamps

    # -- deploying --------------------------------------------------------------------------

    def _deploy(self, stop: threading.Event) -> None:
        saves = self._state.saves + 1
        self._become(replace(self._state, state=SaveState.DEPLOYING, saves=saves), {})
        code, out, err = self._call()
        if stop.is_set():
            return
        answer = _document(out)
        if code == 0 and answer is not None:
            deployed = DevelopmentState(
                state=SaveState.DEPLOYED,
                folder=str(self._folder),
                changed_at=self._clock.now(),
                saves=saves,
                deployment=answer["number"],
                warnings=tuple(answer["warnings"]),
            )
            self._become(deployed, answer)
            return
        failure = _failure(code, err)
        problems = msgspec.convert(failure.get("problems", []), tuple[Problem, ...])
        broken = replace(
            self._state,
            state=SaveState.BROKEN,
            message=str(failure["message"]),
            hint=str(failure.get("hint", "")),
            problems=problems,
            warnings=(),
        )
        self._become(broken, failure)

    def _become(self, state: DevelopmentState, answer: Mapping[str, Any]) -> None:
        self._state = replace(state, changed_at=self._clock.now())
        self._on_state(self._state, answer)

    def _call(self) -> tuple[int, str, str]:
        """Exit code and output of one `servo deploy`."""
        config = self._config
        command = [sys.executable, "-m", "arco.cli", "deploy", "--json", "-m", MESSAGE]
        command += ["--store", config.store, "--tenant", config.tenant]
        command += ["--workspace", config.workspace]
        if self._actor:
            command += ["--actor", self._actor]
        if config.directory is not None and config.directory.name == LOCAL_STORE:
            command += ["--allow-removals"]  # no other process uses this folder
        with subprocess.Popen(
            command,
            cwd=self._folder,
            env={k: v for k, v in os.environ.items() if k not in private.KEYS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as child:
            self._child = child
            try:
                out, err = child.communicate(timeout=IMPORT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
                return 1, "", f"the deployment took more than {IMPORT_S:.0f} s, and was stopped"
            return child.returncode, out, err


def _document(out: str) -> dict[str, Any] | None:
    """The JSON document at the end; code that is imported may print before it."""
    at = out.rfind("\n{\n")
    try:
        answer: dict[str, Any] = json.loads(out[max(at, 0) :])
    except ValueError:
        return None
    return answer


def _failure(code: int, err: str) -> Mapping[str, Any]:
    lines = err.strip().splitlines()
    for line in reversed(lines):
        try:
            error: dict[str, Any] = json.loads(line)["error"]
        except (ValueError, KeyError, TypeError):
            continue
        return error
    end = f"it was ended by signal {-code}" if code < 0 else f"it exited with {code}"
    return {"message": lines[-1] if lines else f"the deployment failed: {end}"}
