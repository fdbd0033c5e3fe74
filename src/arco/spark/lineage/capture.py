"""Taking the plan of a frame out of the JVM.

`toJSON` gives the whole analyzed plan in one call. What it leaves out is asked for:
the projections of an Expand that was made by an unpivot print as null.

Capture a frame before it is written: the plan of what was asked for is what counts,
and nothing that the write does to it.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from arco.lineage.found import Found
from arco.spark.lineage.trace import trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)
MAX_CHARACTERS = 64 << 20


def capture(frame: DataFrame) -> str | None:
    """The analyzed plan as JSON; None where there is no JVM to ask, or it is too large."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return None
    analyzed = plan.queryExecution().analyzed()
    text: str = analyzed.toJSON()
    if len(text) > MAX_CHARACTERS:
        return None
    return _with_projections(text, analyzed) if '"projections":null' in text else text


def observe(frame: DataFrame) -> Found:
    """Capture and trace. Never raises: what went wrong is the reason why there is nothing."""
    try:
        text = capture(frame)
        if text is None:
            return Found(method="plan", reason="Spark's plan cannot be seen from here.")
        return trace(text)
    except Exception as error:
        log.warning("the plan of a frame could not be traced", exc_info=True)
        return Found(
            method="plan", reason=f"Spark's plan could not be read: {type(error).__name__}."
        )


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
