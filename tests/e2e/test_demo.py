"""The demo, from an empty directory to a workspace that is sound."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.conftest import Servo
from tests.kit.depth import deep_only

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@deep_only  # test_shop_example.py runs the same project
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_demo_runs_the_shop_and_leaves_a_sound_workspace(servo: Servo, tmp_path: Path) -> None:
    place = tmp_path / "demo"
    command = [sys.executable, str(DEMO), "--dir", str(place), "--orders", "500"]
    done = subprocess.run(command, env=servo.env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr
    assert set(done.stderr.splitlines()) <= {
        "note: there are older runs; see --limit",
        "note: searched for revenue too, which is similar to revnue",
    }
    assert "custom:cookie comes from raw.clicks.visitor" in done.stdout
    assert "32 succeeded" in done.stdout
    assert "in_range(amount)" in done.stdout
    assert "the operators were told: [default/main] clean.orders" in done.stdout
    assert "and told again: [default/main] clean.orders has recovered" in done.stdout
    assert "1 won, 7 were refused" in done.stdout
    assert "Lost: 0. Twice: 0." in done.stdout
    assert "all rows are equal" in done.stdout
    assert "To see it as a web page:" in done.stdout
    assert servo.json("admin", "fsck", "--store", str(place / "lake"))["clean"] is True


def test_at_a_terminal_the_demo_ends_with_the_page(servo: Servo, tmp_path: Path) -> None:
    """The last act alone, in a terminal, until Ctrl-C."""
    servo.json("catalog", "namespace", "create", "shop")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import demo; from pathlib import Path; "
        "stage = demo.Stage(demo.Console(), 0.0, 1); "
        "demo.show_page(stage, Path(sys.argv[2]), is_terminal=sys.stdout.isatty()); print('end')"
    )
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(DEMO.parent), str(tmp_path)],
        env=servo.env,
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    text = _until(mine, r"http://127\.0\.0\.1:\d+/local/\S+")
    link = re.findall(r"http://127\.0\.0\.1:\d+/local/\S+", text)[0]
    opener = urllib.request.build_opener(_NoRedirect())
    with pytest.raises(urllib.error.HTTPError, match="303"):
        opener.open(link, timeout=60)
    os.killpg(process.pid, signal.SIGINT)
    _until(mine, "end")
    assert process.wait(60) == 0
    os.close(mine)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: object) -> None:
        return None


def _until(descriptor: int, pattern: str) -> str:
    """What a terminal shows, up to this."""
    text = ""
    while not re.search(rf"{pattern}\s", text):
        text += os.read(descriptor, 4096).decode("utf-8", "replace")
    return text


def test_demo_leaves_what_is_not_its_own_alone(servo: Servo, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("dear to me")
    command = [sys.executable, str(DEMO), "--dir", str(tmp_path / "mine")]
    done = subprocess.run(command, env=servo.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "is no former demo" in done.stderr
    assert (tmp_path / "mine" / "file").read_text() == "dear to me"
