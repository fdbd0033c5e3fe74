"""Taking the plan of a frame out of the JVM.

`toJSON` gives the whole analyzed plan in one call, and has three traps:

- A CASE prints its branches twice, so one inside another doubles with every level. The
  plan's plain text, which costs a tenth, tells beforehand. Where it would grow too large,
  the nodes above such an expression, and the expression, are printed one by one (`walk`).
- A long IN takes time by the square of its length. Spark's own rules make a set of it,
  which prints as nothing.
- The projections of an Expand that was made by an unpivot print as null. They are asked
  for one by one.

Capture a frame before it is written: only the plan of the frame counts, without the plan of the
write.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

from arco.lineage.traced import TracedColumns
from arco.spark.lineage.trace import trace
from arco.spark.lineage.walk import MAX_CASES, cases, items, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)
MAX_TEXT = 512 << 10
"""Characters of a plan's text; its JSON has about twenty times as many."""
_LONG_IN = re.compile(r"\bIN \((?:[^,()]*(?:\([^()]*\))?,){50}")
UNSEEN = "Spark's plan is not available, or too large to be traced."
_RULES = ("ConstantFolding", "OptimizeIn")


def capture(frame: DataFrame) -> str | None:
    """The analyzed plan as JSON; None where there is no JVM to ask, or it is too large."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return None
    analyzed = plan.queryExecution().analyzed()
    tree: str = analyzed.treeString(True, False, (1 << 31) - 1, False, False)
    if len(tree) > MAX_TEXT:
        return None
    if _LONG_IN.search(tree):
        analyzed = _with_sets(frame, analyzed)
    if cases(tree) > MAX_CASES:
        return json.dumps(walk(analyzed))
    text: str = analyzed.toJSON()
    return _with_projections(text, analyzed) if '"projections":null' in text else text


def observe(frame: DataFrame) -> TracedColumns:
    """Capture and trace. Never raises: an error is the reason of an empty result."""
    try:
        text = capture(frame)
        if text is None:
            return TracedColumns(method="plan", reason=UNSEEN)
        return trace(text)
    except Exception as error:
        log.warning("the plan of a frame could not be traced", exc_info=True)
        return TracedColumns(
            method="plan", reason=f"Spark's plan could not be read: {type(error).__name__}."
        )


def _with_sets(frame: DataFrame, analyzed: Any) -> Any:
    rules = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.optimizer  # type: ignore[union-attr]
    for rule in _RULES:
        analyzed = getattr(rules, rule).apply(analyzed)
    return analyzed


def _with_projections(text: str, analyzed: Any) -> str:
    nodes: list[dict[str, Any]] = json.loads(text)
    for at, node in enumerate(_in_pre_order(analyzed)):
        if nodes[at].get("projections", ()) is None:
            nodes[at]["projections"] = [
                [json.loads(each.toJSON()) for each in items(projection)]
                for projection in items(node.projections())
            ]
    return json.dumps(nodes)


def _in_pre_order(root: Any) -> Any:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(items(node.children()))
