"""Taking the plan of a frame out of the JVM.

`toJSON` gives the whole analyzed plan in one call, and has three traps:

- A CASE prints its branches twice, so one inside another doubles with every level: twenty
  levels would fill the JVM's memory. The plan's plain text, which costs a tenth, tells
  beforehand; what would grow too large is not captured.
- A long IN takes time by the square of its length. Spark's own rules make a set of it,
  which prints as nothing.
- The projections of an Expand that was made by an unpivot print as null. They are asked
  for one by one.

Capture a frame before it is written: the plan of what was asked for is what counts,
and nothing that the write does to it.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

from arco.lineage.found import Found
from arco.spark.lineage.trace import trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)
MAX_TEXT = 512 << 10
"""Characters of a plan's text; its JSON has about twenty times as many."""
MAX_CASES = 4_000
"""Times that a CASE would be printed, about 2 KB each."""
_CASE = re.compile(r"\bCASE WHEN\b|\bEND\b")
_LONG_IN = re.compile(r"\bIN \((?:[^,()]*(?:\([^()]*\))?,){50}")
UNSEEN = "Spark's plan cannot be seen from here, or is too large to be followed."
_RULES = ("ConstantFolding", "OptimizeIn")


def capture(frame: DataFrame) -> str | None:
    """The analyzed plan as JSON; None where there is no JVM to ask, or it is too large."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return None
    analyzed = plan.queryExecution().analyzed()
    shown: str = analyzed.treeString(True, False, (1 << 31) - 1, False, False)
    if len(shown) > MAX_TEXT or _cases(shown) > MAX_CASES:
        return None
    if _LONG_IN.search(shown):
        analyzed = _with_sets(frame, analyzed)
    text: str = analyzed.toJSON()
    return _with_projections(text, analyzed) if '"projections":null' in text else text


def observe(frame: DataFrame) -> Found:
    """Capture and trace. Never raises: what went wrong is the reason why there is nothing."""
    try:
        text = capture(frame)
        if text is None:
            return Found(method="plan", reason=UNSEEN)
        return trace(text)
    except Exception as error:
        log.warning("the plan of a frame could not be traced", exc_info=True)
        return Found(
            method="plan", reason=f"Spark's plan could not be read: {type(error).__name__}."
        )


def _cases(shown: str) -> int:
    """How often CASE would be printed: twice as often with every CASE around it."""
    depth = times = 0
    for word in _CASE.findall(shown):
        if word == "END":
            depth = max(depth - 1, 0)
        else:
            times += 1 << min(depth, 30)
            depth += 1
    return times


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
                [json.loads(each.toJSON()) for each in _items(projection)]
                for projection in _items(node.projections())
            ]
    return json.dumps(nodes)


def _in_pre_order(root: Any) -> Any:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(_items(node.children()))


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
