"""SQL assets: one query, over the inputs that it refers to.

Each `{{ ref("x") }}` becomes a view of the task's own session, named `@x`, which a query does not
use for its own parts. An error is shown where it is in the author's text. Only queries run:
statements that change tables are refused before they run.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from arco.columns.quoting import backticked
from arco.spark import error_info
from arco.spark.read import HasSession
from arco.spark.template import TemplateProblem, config_literal, literal, marked_line
from arco.tasks.failure import TaskFailed, failed
from servo.contract.partition import PartitionKey
from servo.contract.template import Call, Rendered, calls, render

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KNOWN: Final = 'use {{ ref("namespace.name") }}, {{ partition("date") }} and {{ config("x") }}'
QUERIES: Final = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE", "(")
_WITHIN: Final = "SELECT * FROM (\n"
_EXPLAIN: Final = "EXPLAIN\n"
ONLY: Final = "write one query: SELECT, WITH, VALUES, TABLE or FROM"


class TaskQuery:
    """An SQL asset's text, for one task. Raises TaskFailed if something in it is missing.

    `file` and `line` are those of the asset's declaration, for people.
    """

    def __init__(
        self,
        sql: str,
        *,
        partition: str = "",
        config: Mapping[str, Any] | None = None,
        file: str = "",
        line: int = 0,
    ) -> None:
        self._partition = PartitionKey.parse(partition).dimensions
        self._config = config or {}
        self._place = (file, line)
        self._source = sql
        self.refs: tuple[str, ...] = dependencies(sql)
        self.rendered = render(sql, self._replacement)

    def run(self, task: HasSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """The query's rows, not computed yet. `inputs` are by the text inside of their `ref`.

        Only a query runs, and only if Spark can analyze all of it.
        """
        text = self._one_query()
        for ref in self.refs:
            if ref not in inputs:
                message = f"the plan has no input for {{{{ ref({ref!r}) }}}}"
                raise failed(
                    "configuration", "code.parameters", message, "deploy the project again"
                )
            inputs[ref].createOrReplaceTempView(backticked(view_name(ref)))
        try:
            self._ask(task, text) if task.connect else self._parse(task, text)
            frame = task.session.sql(text)
            _ = frame.schema  # Connect analyzes the query only when it needs something of it
        except TaskFailed:
            raise
        except Exception as error:
            raise self.failure(error) or error from None
        return frame

    def failure(self, error: BaseException, before: str = "") -> TaskFailed | None:
        """An error of this query, also one that came as its rows were computed, shown in its text.

        None where Spark does not say where in the query it is. `before` are whole lines that
        Spark was given ahead of it.
        """
        failure = error_info.translate(error)
        if failure is None:
            return None
        span = _span(_moved(failure, before), self.rendered)
        if span is None:
            return None
        words = self._in_its_words(failure.message), self._in_its_words(failure.hint)
        return self._failed(failure.category, failure.code, *words, *span)

    def _in_its_words(self, text: str) -> str:
        """The message without the names of views, which the author does not know."""
        for ref in self.refs:
            view = view_name(ref)
            text = text.replace(f"{backticked(view)}.", "").replace(f"{view}.", "")
        return text

    # -- before it runs -------------------------------------------------------------------

    def _replacement(self, call: Call) -> str:
        match call.function:
            case "ref":
                return backticked(view_name(call.argument))
            case "partition":
                return literal(self._value("dimension", self._partition, call))
            case "config":
                return self._config_literal(call)
        text = self._source[call.start : call.stop]
        raise self._wrong(f"the query has {text!r}", _KNOWN, call.start, call.stop)

    def _config_literal(self, call: Call) -> str:
        value = self._value("config value", self._config, call)
        try:
            return config_literal(value, self._source[: call.start], self._source[call.stop :])
        except ValueError as error:
            message = f"the config value {call.argument!r} is {error}, which SQL cannot write"
            hint = "use text, a number, a boolean, a date, or a list of some"
            raise self._wrong(message, hint, call.start, call.stop) from None

    def _value(self, what: str, given: Mapping[str, Any], call: Call) -> Any:
        if call.argument in given:
            return given[call.argument]
        names = ", ".join(sorted(given)) or "none"
        message = f"there is no {what} {call.argument!r}"
        raise self._wrong(message, f"this asset has {names}", call.start, call.stop)

    def _one_query(self) -> str:
        """The text without what ends it. TaskFailed where it is no single query."""
        problem, end = one_statement(self.rendered.text)
        if problem is not None:
            raise self._refused(problem)
        return self.rendered.text[:end]

    def _parse(self, task: HasSession, text: str) -> None:
        """Spark's own parser, by its rule for queries: it takes nothing else."""
        session: Any = task.session._jsparkSession
        parser = session.sessionState().sqlParser()
        try:
            parser.parseQuery(text)
        except Exception as error:
            if _parses(parser, text):
                raise self._no_query(text) from None
            raise self.failure(error) or error from None

    def _ask(self, task: HasSession, text: str) -> None:
        """Let a Connect server parse the query, as a part of another one.

        Errors in the query are reported when the query itself runs.
        """
        from pyspark.errors import AnalysisException, ParseException

        try:
            task.session.sql(f"{_WITHIN}{text}\n)")
        except ParseException:
            try:
                task.session.sql(_EXPLAIN + text)  # runs nothing
            except ParseException as error:
                raise self.failure(error, _EXPLAIN) or error from None
            raise self._no_query(text) from None
        except AnalysisException:
            return
        except Exception as error:
            raise self.failure(error, _WITHIN) or error from None

    def _no_query(self, text: str) -> TaskFailed:
        return self._refused(TemplateProblem(no_query(text), 0, len(text.split()[0])))

    def _refused(self, problem: TemplateProblem) -> TaskFailed:
        return self._wrong(problem.message, ONLY, *self.rendered.span(problem.start, problem.stop))

    def _wrong(self, message: str, hint: str, start: int, stop: int) -> TaskFailed:
        return self._failed("user_code", "sql.invalid", message, hint, start, stop)

    def _failed(
        self, category: Any, code: str, message: str, hint: str, start: int, stop: int
    ) -> TaskFailed:
        file, line = self._place
        where = f" (the query of {file}:{line})" if file else ""
        text = f"{message}{where}\n{marked_line(self._source, start, stop)}"
        return failed(category, code, text, hint, file=file, line=line)


def view_name(ref: str) -> str:
    return f"@{ref}"


def _parses(parser: Any, text: str) -> bool:
    try:
        parser.parsePlan(text)
    except Exception:  # py4j's, whatever Spark had to say
        return False
    return True


def _moved(failure: error_info.SparkFailure, before: str) -> error_info.SparkFailure:
    return msgspec.structs.replace(
        failure,
        start=None if failure.start is None else failure.start - len(before),
        stop=None if failure.stop is None else failure.stop - len(before),
        sql_line=max(failure.sql_line - before.count("\n"), 0),
    )


def _span(failure: error_info.SparkFailure, rendered: Rendered) -> tuple[int, int] | None:
    """The place in the source that an error is about."""
    text = rendered.text
    if failure.start is not None:
        stop = failure.stop if failure.stop is not None else failure.start
        return rendered.span(failure.start, stop + 1)
    if not failure.sql_line:
        return None
    start = 0
    for _ in range(failure.sql_line - 1):
        start = text.find("\n", start) + 1
    start = min(start + failure.sql_column, len(text))
    return rendered.span(start, _word_end(text, start))


def _word_end(text: str, start: int) -> int:
    stop = start
    while stop < len(text) and (text[stop].isalnum() or text[stop] == "_"):
        stop += 1
    return max(stop, start + 1)


# -- without Spark ------------------------------------------------------------------------


def dependencies(sql: str) -> tuple[str, ...]:
    """What the query refers to, each once, in order: the texts inside of `ref`."""
    return tuple(dict.fromkeys(call.argument for call in calls(sql) if call.function == "ref"))


def one_statement(text: str) -> tuple[TemplateProblem | None, int]:
    """Whether there is one statement that begins like a query, and where it ends."""
    try:
        tokens = Spark().tokenize(text)
    except SqlglotError:
        return None, len(text)  # Spark reports it
    if not tokens:
        return TemplateProblem("the query is empty", 0, 0), 0
    end = len(text)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        end = tokens.pop().start
    for before, token in itertools.pairwise(tokens):
        if before.token_type is TokenType.SEMICOLON:
            message = "there is a second statement after the query"
            return TemplateProblem(message, token.start, token.end + 1), end
    if not tokens:
        return TemplateProblem("the query is empty", 0, 0), 0
    first = tokens[0]
    if first.text.upper() not in QUERIES:
        return TemplateProblem(no_query(first.text), first.start, first.end + 1), end
    return None, end


def no_query(text: str) -> str:
    word = (text.split() or [""])[0].upper()
    return f"{'an' if word[:1] in tuple('AEIOU') else 'a'} {word} statement is not a query"
