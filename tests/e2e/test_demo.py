"""The demo, from an empty directory to a workspace that is sound."""

from __future__ import annotations

import subprocess
import sys
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
        "note: searched for revenue too, spelled like revnue",
    }
    assert "custom:cookie comes from raw.clicks.visitor" in done.stdout
    assert "32 succeeded" in done.stdout
    assert "in_range(amount)" in done.stdout
    assert "the operators were told: [default/main] clean.orders" in done.stdout
    assert "and told again: [default/main] clean.orders has recovered" in done.stdout
    assert "1 won, 7 were refused" in done.stdout
    assert "Lost: 0. Twice: 0." in done.stdout
    assert "all rows are equal" in done.stdout
    assert servo.json("admin", "fsck", "--store", str(place / "lake"))["clean"] is True


def test_demo_leaves_what_is_not_its_own_alone(servo: Servo, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("dear to me")
    command = [sys.executable, str(DEMO), "--dir", str(tmp_path / "mine")]
    done = subprocess.run(command, env=servo.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "is no former demo" in done.stderr
    assert (tmp_path / "mine" / "file").read_text() == "dear to me"
