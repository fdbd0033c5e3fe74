"""Spark over the same data: for SQL and regular expressions that only it understands, and
for more data than should come to one machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from arco.columns.quoting import backticked
from arco.worker.checks.dialects import SparkSql, comparable, whole
from arco.worker.checks.engine import SAMPLED, CheckEngineError, EngineNeed, Rowwise, sampled
from arco.worker.checks.needs import DuplicateRows, FailingRows, FalseRows, NewestValue, OrphanRows
from arco.worker.checks.subject import CheckContext, Subject
from arco.worker.checks.subject_columns import unused
from servo.contract.task import CheckMethod

_CONDITION: Final = re.compile(r"\[([A-Z0-9_.]+)\]")


class SparkCheckEngine:
    """Uses the task's own session, on the task's own thread, and starts it when first asked."""

    method: CheckMethod = "spark"

    def __init__(self, subject: Subject, context: CheckContext) -> None:
        self._subject = subject
        self._context = context
        self._frame: Any = None
        self._sql = SparkSql(lambda text: _type_of(self.frame, text))

    def stop(self) -> None:
        self._context.cancel()

    @property
    def frame(self) -> Any:
        if self._frame is None:
            assert self._context.frame is not None
            self._frame = self._context.frame(self._subject.ref)
        return self._frame

    def can(self, need: EngineNeed) -> bool:
        return True

    def fuses(self, need: EngineNeed) -> bool:
        return isinstance(need, FailingRows | FalseRows | NewestValue)

    def fused(self, needs: Sequence[EngineNeed]) -> list[int | None]:
        names = (f"{self._aggregate(need)} AS m{at}" for at, need in enumerate(needs))
        aggregates = list(names)
        return list(self._try(lambda: self.frame.selectExpr(*aggregates).first()))

    def apart(self, need: EngineNeed) -> int:
        match need:
            case DuplicateRows():
                row = self._try(
                    lambda: self._groups(need).selectExpr("coalesce(sum(n - 1), 0)").first()
                )
                return int(row[0])
            case OrphanRows():
                return int(self._try(lambda: self._orphans(need, only_key=True).count()))
        return self.fused([need])[0] or 0

    def sample(self, need: Rowwise, first: Sequence[str]) -> list[dict[str, Any]]:
        rows = self._try(lambda: self._narrowed(need, first).limit(SAMPLED).collect())
        return [row.asDict(recursive=True) for row in rows]

    def _narrowed(self, need: Rowwise, first: Sequence[str]) -> Any:
        frame = self._misfits(need)
        names = sampled(first, frame.columns)
        if len(names) == len(frame.columns):
            return frame
        return frame.selectExpr(*map(backticked, names))

    def _misfits(self, need: Rowwise) -> Any:
        match need:
            case FailingRows() | FalseRows():
                return self.frame.where(self._misfit(need))
            case DuplicateRows():
                twice = self._groups(need).where("n > 1").limit(SAMPLED).drop("n")
                keyed = self.frame.selectExpr("*", *self._keyed(need))
                keys = self._keys(need)
                return keyed.join(twice, on=keys, how="left_semi").drop(*keys)
            case OrphanRows():
                return self._orphans(need, only_key=False).drop(self._key)

    def _misfit(self, need: FailingRows | FalseRows) -> str:
        match need:
            case FailingRows(condition=condition):
                return f"NOT ({condition(self._sql)})"
            case FalseRows(sql=sql):
                return f"NOT coalesce(({sql}\n), FALSE)"

    def _aggregate(self, need: EngineNeed) -> str:
        match need:
            case FailingRows() | FalseRows():
                return f"count_if({self._misfit(need)})"
            case NewestValue(column=column):
                return f"max({self._sql.moment(column)})"
        raise CheckEngineError(f"this takes more than a pass: {type(need).__name__}")

    def _keyed(self, need: DuplicateRows) -> list[str]:
        pairs = zip(need.columns, self._keys(need), strict=True)
        return [f"{self._sql.column(column)} AS {key}" for column, key in pairs]

    def _keys(self, need: DuplicateRows) -> list[str]:
        return [f"{self._key}{at}" for at in range(len(need.columns))]

    @property
    def _key(self) -> str:
        """The name of an additional column, which the data does not have."""
        return unused(self.frame.columns)

    def _groups(self, need: DuplicateRows) -> Any:
        keys = self._keys(need)
        not_null = " AND ".join(f"{key} IS NOT NULL" for key in keys)
        keyed = self.frame.selectExpr(*self._keyed(need)).where(not_null)
        return keyed.groupBy(*keys).count().withColumnRenamed("count", "n")

    def _orphans(self, need: OrphanRows, *, only_key: bool) -> Any:
        assert self._context.frame is not None
        target = self._context.frame(need.target.ref)
        other = SparkSql(lambda text: _type_of(target, text))
        value, target_value = (
            comparable(self._sql, need.column),
            comparable(other, need.target_column),
        )
        key, columns = self._key, [] if only_key else ["*"]
        left = self.frame.selectExpr(*columns, f"{value} AS {key}").where(f"{key} IS NOT NULL")
        return left.join(target.selectExpr(f"{target_value} AS {key}"), on=key, how="left_anti")

    # -- before anything runs -------------------------------------------------------------

    def flaw(self, need: FailingRows | FalseRows, pattern: str = "") -> str:
        """Spark's error message for a predicate or a pattern; empty if it is valid."""
        try:
            if pattern:
                word = self._sql.text(whole(pattern))
                self._try(lambda: self.frame.sparkSession.sql(f"SELECT rlike('', {word})").first())
            else:
                self._try(lambda: self.frame.where(self._misfit(need)).schema)
                if isinstance(need, FalseRows):
                    self._try(lambda: self.frame.where(need.sql).schema)
        except CheckEngineError as error:
            return str(error)
        return ""

    def _try(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            if self._context.fatal(error):
                raise
            raise CheckEngineError(_line(error), _kind(error)) from error


def _type_of(frame: Any, text: str) -> str:
    return str(frame.selectExpr(text).dtypes[0][1])


def _kind(error: Exception) -> str:
    """Spark's name for the error, or else Python's."""
    named = _CONDITION.match(_line(error))
    return type(error).__name__ if named is None else named[1]


def _line(error: Exception) -> str:
    """The first line of Spark's message, without its class and the SQL state."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.partition(" SQLSTATE:")[0].strip()
