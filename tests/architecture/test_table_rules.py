"""Every table has a rule of visibility, about columns that it has."""

from __future__ import annotations

from arco.api.reduced_rows import ALWAYS, REDUCED
from arco.api.table_rules import RULES
from arco.app.domains import chain
from arco.state.system import all_tables


def test_every_table_has_a_rule() -> None:
    tables = {str(table): table for table in all_tables(chain())}
    assert RULES.keys() == tables.keys()
    assert REDUCED.keys() | ALWAYS.keys() <= tables.keys()
    for name, rule in RULES.items():
        assert rule.tests.keys() <= set(tables[name].columns), name
