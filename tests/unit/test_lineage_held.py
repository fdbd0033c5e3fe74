"""From a report to lineage: outputs that are held back, and what is decided about them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arco.app import EVENTS
from arco.execution import fold as execution_fold
from arco.execution.events import QuarantineDecided
from arco.execution.tables import QUARANTINE
from arco.lineage import fold as lineage_fold
from arco.lineage.tables import COLUMNS, DEPENDENTS, EDGE_METADATA, EDGES, EXECUTIONS, HELD
from arco.orchestration import fold as orchestration_fold
from arco.orchestration.derived import DECISIONS
from arco.orchestration.events import RunTriggered, TaskFinished
from arco.state import system
from arco.state.fold import Chain
from servo.contract.task import ColumnLineage, ColumnSource, InputRef, Lineage
from tests.kit.runs import Attempt, Folding, chain_of, started_run

LINEAGE = Lineage(
    read=(InputRef(asset="n.above", parameter="above"),),
    columns=(ColumnLineage(column="x", sources=(ColumnSource("n.above", "y"),)),),
    method="plan",
)


@pytest.fixture(autouse=True)
def stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The domains' stages, with the one that tells lineage what was decided."""
    stages = (
        system.admission([QuarantineDecided, RunTriggered]),
        *orchestration_fold.STAGES,
        *execution_fold.STAGES,
        DECISIONS,
        *lineage_fold.STAGES,
        system.OUTCOME_STAGE,
    )
    monkeypatch.setattr("tests.kit.runs.CHAIN", Chain(stages, EVENTS))


def reported(finished: TaskFinished) -> TaskFinished:
    """With lineage, and a fingerprint of what made the output."""
    made = finished.result.materialization
    assert made is not None
    made = msgspec.structs.replace(made, fingerprint="f00d")
    result = msgspec.structs.replace(finished.result, lineage=LINEAGE, materialization=made)
    return msgspec.structs.replace(finished, result=result)


def decide(f: Folding, approved: bool) -> None:
    (held,) = f.all(QUARANTINE)
    command = QuarantineDecided(
        asset_id=held.asset_id, materialization_id=held.materialization_id, approved=approved
    )
    f.fold([f.record(command, key=f"k{f.position}")])


def sizes(f: Folding) -> list[int]:
    tables: tuple[Any, ...] = (EDGES, EXECUTIONS, COLUMNS, DEPENDENTS)
    return [len(f.all(table)) for table in tables]


def test_a_good_output_has_lineage_and_says_what_made_it() -> None:
    f = started_run(chain_of(1))
    f.add(reported(Attempt("t00").succeeded()))
    assert (sizes(f), f.all(HELD)) == ([1, 1, 1, 1], [])
    assert [row.transform for row in f.all(EDGE_METADATA)] == ["f00d"]


@pytest.mark.parametrize(
    "finished",
    [
        Attempt("t00").held("quarantine"),
        Attempt("t00").held("block"),
        Attempt("t00").condemned("fail_run"),
    ],
)
def test_an_output_that_is_held_back_has_lineage_once_it_is_approved(
    finished: TaskFinished,
) -> None:
    f = started_run(chain_of(1))
    f.add(reported(finished))
    assert (sizes(f), len(f.all(HELD))) == ([0, 0, 0, 0], 1)
    decide(f, approved=True)
    assert (sizes(f), f.all(HELD)) == ([1, 1, 1, 1], [])
    (held,), (execution,) = f.all(QUARANTINE), f.all(EXECUTIONS)
    assert execution.materialization_id == held.materialization_id
    decide(f, approved=False)  # too late
    assert sizes(f) == [1, 1, 1, 1]


def test_a_rejected_output_has_none_whatever_is_said_later() -> None:
    f = started_run(chain_of(1))
    f.add(reported(Attempt("t00").held("quarantine")))
    decide(f, approved=False)
    decide(f, approved=True)
    assert (sizes(f), f.all(HELD)) == ([0, 0, 0, 0], [])
