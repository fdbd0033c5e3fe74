"""Automation of assets on an orchestrator: what runs by itself, and what does not."""

from __future__ import annotations

from tests.kit.automation import DIAMOND, Mill, declared, project, source


def test_an_eager_asset_runs_when_what_it_reads_is_replaced() -> None:
    mill = Mill(project(source("raw"), declared("total", "raw", automation="eager()")))
    mill.run("m.raw")
    assert mill.made() == {"total": 1}
    mill.run("m.raw")
    assert mill.made() == {"total": 2}
    (first, _) = mill.automated()
    assert first.trigger == "materialization"
    assert first.reference.startswith("m.raw ")


def test_a_diamond_gives_one_run_of_the_bottom() -> None:
    mill = Mill(DIAMOND)
    mill.run("m.raw")
    assert mill.made() == {"left": 1, "right": 1, "bottom": 1}
    assert len(mill.automated()) == 2
