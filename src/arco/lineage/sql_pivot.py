"""PIVOT and UNPIVOT."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from arco.lineage.flow import AGGREGATION, NOTHING, deciding, lift, merge, turned
from arco.lineage.sql_flows import Flows
from arco.lineage.sql_relation import SqlRelation, everything, joined


def pivoted(relation: SqlRelation, pivot: exp.Pivot, flows: Flows) -> SqlRelation:
    """Aggregates for each value; what neither they nor the values name are the keys."""
    used = {each.name.lower() for tree in pivot.expressions for each in tree.find_all(exp.Column)}
    fields = [field.this for field in pivot.args["fields"]]
    used |= {each.name.lower() for field in fields for each in field.find_all(exp.Column)}
    keys = [(name, flow) for name, flow in relation.outputs if name.lower() not in used]
    chosen = merge(flows.of(field) for field in fields)
    values = [
        merge([lift(flows.of(each), AGGREGATION), deciding(chosen, "conditional")])
        for each in pivot.expressions
    ]
    names = [each.name for each in pivot.args.get("columns") or ()]
    result = [(name, values[at % len(values)]) for at, name in enumerate(names)]
    grouped = joined(everything(keys, "group_by"), turned(chosen.sources, "group_by"))
    return relation._replace(
        outputs=[*keys, *result], influences=joined(relation.influences, grouped)
    )


def unpivoted(relation: SqlRelation, pivot: exp.Pivot, flows: Flows) -> SqlRelation:
    """One value or several of each group of columns; without nulls, unless it says so."""
    (field,) = pivot.args["fields"]
    groups = [
        _tuple(each.this if isinstance(each, exp.PivotAlias) else each)
        for each in field.expressions
    ]
    used = {each.name.lower() for group in groups for each in group}
    unchanged = [(name, flow) for name, flow in relation.outputs if name.lower() not in used]
    names = [each.name for each in _tuple(pivot.expressions[0])]
    values = [merge(flows.of(each) for each in column) for column in zip(*groups, strict=False)]
    result = [(field.this.name, NOTHING), *zip(names, values, strict=False)]
    if pivot.args.get("include_nulls"):
        return relation._replace(outputs=[*unchanged, *result])
    left_out = turned(merge(values).sources, "filter")
    influences = joined(relation.influences, left_out)
    return relation._replace(outputs=[*unchanged, *result], influences=influences)


def _tuple(tree: exp.Expr) -> Sequence[exp.Expr]:
    return tree.expressions if isinstance(tree, exp.Tuple) else [tree]
