"""Workspaces whose lineage an older version has recorded, by the names of assets."""

from __future__ import annotations

import json

import msgspec
import pytest

from arco.catalog.tables import ASSETS
from arco.cli.app import run as servo
from arco.cli.session import Session
from arco.lineage.reader import is_by_names
from arco.lineage.tables import BY_NAMES, COLUMNS, COVERAGE, EDGES, EXECUTIONS
from arco.log.commit import publish
from arco.log.head import Head
from arco.log.publish import Proposal, left_to_delete
from servo.contract.manifest import ColumnDef
from tests.golden.recorded import FOLDS, folded, read_history
from tests.kit import planning
from tests.kit.deploying import put
from tests.kit.workspace import make_workspace


def test_a_log_of_an_older_version_is_rebuilt_to_lineage_by_ids() -> None:
    history = read_history(FOLDS / "newest_versions.json")
    assert history.rows[BY_NAMES] and str(COVERAGE) not in history.rows
    changes = folded(history.events).changes
    for table in (EDGES, EXECUTIONS, COLUMNS, COVERAGE):
        assert {key[0] for key, (_, row) in changes[table].items() if row} == {"A4"}


ANSWERS = (
    "health",
    "explain n.a",
    "recommend",
    "search mail",
    "pii list",
    "pii explain n.a.mail",
    "pii suggest n.a",
)


def test_every_answer_notes_that_an_older_version_wrote_the_workspace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    w = make_workspace()
    put(w, planning.asset("n.a", columns=(ColumnDef(name="mail", type="string"),)))
    monkeypatch.setattr(Session, "open", lambda self, **options: w)
    assert not is_by_names(w.read.snapshot())
    monkeypatch.setattr("arco.lineage.tables.BY_NAMES", str(ASSETS))  # a table that is there
    generation = w.read.snapshot().generation
    for given in ANSWERS:
        for more, note in (
            ([], "note: this workspace was written by an older version: run `servo admin rebuild`"),
            (["--generation", f"{generation}"], f"note: generation {generation} was written by"),
        ):
            code = servo([*given.split(), "--json", *more])
            out, err = capsys.readouterr()
            assert code == 0 and json.loads(out) is not None, (given, err)
            assert err.startswith(note) and err.count("\n") == 1, (given, err)
    assert servo(["lineage", "show", "n.a"]) != 0
    assert "run `servo admin rebuild`" in capsys.readouterr().err


def test_a_rebuild_leaves_the_tables_of_older_versions_out() -> None:
    w = make_workspace()
    put(w, planning.asset("n.a"))

    def with_old_table(head: Head) -> Proposal:
        ref, *rest = head.manifest.changes
        tables = ref.tables | {BY_NAMES: next(iter(ref.tables.values()))}
        return Proposal(
            kind="commit",
            changes=(msgspec.structs.replace(ref, tables=tables), *rest),
            l0=head.manifest.l0,
            tables={},
            position=head.manifest.position,
            log_time=head.manifest.log_time,
            pending=left_to_delete(head),
        )

    publish(w.writer.publisher.begin(), with_old_table)
    assert is_by_names(w.read.snapshot())
    assert w.upkeep.rebuild().published
    assert not is_by_names(w.read.snapshot())
    assert w.upkeep.rebuild().published is None
