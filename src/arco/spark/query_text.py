"""SQL before it runs: finds errors in the text of a query or a predicate, without Spark.

sqlglot reads most of Spark's SQL, and not all of it. So what it cannot read is a *doubt*, for
Spark to decide. *Certain* is what Spark refuses in any case: a statement that is no query,
a second statement, a bracket without its other half, an operator without an operand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from arco.columns.quoting import backticked
from arco.spark.query import ONLY, QUERIES, no_query, one_statement, view_name
from arco.spark.template import TemplateProblem
from servo.contract.template import Call, Rendered, render
from servo.suggest import did_you_mean

_SELECT: Final = "SELECT "
_SEMICOLON: Final = "an expression has no ';'"
_OPENING: Final = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]"}
_CLOSING: Final = {TokenType.R_PAREN: TokenType.L_PAREN, TokenType.R_BRACKET: TokenType.L_BRACKET}
_MISSING: Final = re.compile(r"Required keyword: .* missing for <class .*>")
_BINARY: Final = frozenset(
    {
        TokenType.EQ,
        TokenType.NEQ,
        TokenType.LT,
        TokenType.LTE,
        TokenType.GTE,
        TokenType.NULLSAFE_EQ,
        TokenType.SLASH,
        TokenType.DPIPE,
    }
)
"""Operators that nothing but an operand follows. `>` may as well end a type, `array<int>`."""
_DATA_CHANGES: Final = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop)


class TextProblem(NamedTuple):
    message: str
    start: int
    stop: int
    certain: bool
    hint: str = ""


class ParsedText(NamedTuple):
    rendered: Rendered
    tree: exp.Expr | None
    """None where it could not be read, or where sqlglot's tree does not show what Spark sees."""
    problem: TextProblem | None

    def place(self, start: int, stop: int) -> tuple[int, int]:
        """A place in the author's text, of one in the text that was parsed."""
        return self.rendered.span(start, stop)


def parse_query(sql: str) -> ParsedText:
    """An SQL asset's text. Each `ref` is the table `view_name` of its argument."""
    rendered = render(sql, _stand_in)
    statement, end = one_statement(rendered.text)
    if statement is not None:
        first = rendered.text[statement.start : statement.stop].upper()
        hint = did_you_mean(first, QUERIES, likeness=0.75) or ONLY  # SELEC, but not DELETE
        return ParsedText(rendered, None, _in_source(rendered, statement, True, hint))
    tree, problem = _parsed(rendered.text[:end])
    if isinstance(tree, _DATA_CHANGES):
        changed = TemplateProblem(no_query(tree.key), *_word(rendered.text, tree.key))
        return ParsedText(rendered, None, _in_source(rendered, changed, True))
    if problem is not None:
        certain = _certain(rendered.text[:end])
        chosen = _in_source(rendered, certain or problem, certain is not None)
        return ParsedText(rendered, None, chosen)
    readable = isinstance(tree, exp.Query) and "|>" not in rendered.text
    return ParsedText(rendered, tree if readable else None, None)


def parse_predicate(sql: str) -> ParsedText:
    """The text of an `expression` check."""
    rendered = Rendered(sql, _SELECT + sql, ((0, 0, 0, len(_SELECT)),))
    if not sql.strip():
        return ParsedText(rendered, None, TextProblem("the expression is empty", 0, 0, True))
    tree, problem = _parsed(rendered.text)
    certain = _certain(rendered.text, is_single=True)
    if certain is not None and (problem is not None or certain.message == _SEMICOLON):
        return ParsedText(rendered, None, _in_source(rendered, certain, True))
    if problem is not None:
        return ParsedText(rendered, None, _in_source(rendered, problem, False))
    single = isinstance(tree, exp.Select) and len(tree.expressions) == 1
    expression = tree.expressions[0] if single and tree is not None else None
    return ParsedText(rendered, expression, None)


def _stand_in(call: Call) -> str:
    return backticked(view_name(call.argument)) if call.function == "ref" else "NULL"


def _in_source(
    rendered: Rendered, problem: TemplateProblem, certain: bool, hint: str = ""
) -> TextProblem:
    span = rendered.span(problem.start, problem.stop)
    return TextProblem(problem.message, *span, certain, hint)


def _parsed(text: str) -> tuple[exp.Expr | None, TemplateProblem | None]:
    try:
        return sqlglot.parse_one(text, dialect="spark"), None
    except ParseError as error:
        details: dict[str, Any] = dict(error.errors[0]) if error.errors else {}
        start = _offset(text, details.get("line") or 1, details.get("col") or 1)
        words = str(details.get("highlight") or "")
        start = max(start - len(words), 0) if words else start
        message = str(details.get("description") or error).rstrip(".")
        message = _MISSING.sub("something is missing", message)
        return None, TemplateProblem(message, start, start + max(len(words), 1))
    except SqlglotError as error:
        return None, TemplateProblem(str(error).partition("\n")[0], 0, 1)
    except RecursionError:
        return None, None


def _certain(text: str, *, is_single: bool = False) -> TemplateProblem | None:
    """An error that every parser reports. `is_single`: a semicolon is one too."""
    if "\\" in text:  # where a string ends may depend on settings
        return None
    try:
        tokens = Spark().tokenize(text)
    except SqlglotError:
        return None
    return _brackets(tokens) or _operands(tokens) or (_semicolon(tokens) if is_single else None)


def _brackets(tokens: Sequence[Any]) -> TemplateProblem | None:
    opened: list[Any] = []
    for token in tokens:
        if token.token_type in _OPENING:
            opened.append(token)
        elif token.token_type in _CLOSING:
            expected = _CLOSING[token.token_type]
            if not opened or opened.pop().token_type is not expected:
                return _at(token, f"{token.text!r} closes no bracket")
    if opened:
        return _at(opened[-1], f"{_OPENING[opened[-1].token_type]!r} is missing")
    return None


def _operands(tokens: Sequence[Any]) -> TemplateProblem | None:
    binary = set(_BINARY)
    if all(token.token_type is not TokenType.LT for token in tokens):
        binary.add(TokenType.GT)
    bad = {*binary, *_CLOSING, TokenType.COMMA, None}
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        kind = None if after is None else after.token_type
        if token.token_type in binary and kind in bad:
            return _at(token, f"something is missing after {token.text!r}")
        if token.token_type is TokenType.COMMA and kind in bad - binary:
            return _at(token, "something is missing after ','")
    return None


def _semicolon(tokens: Sequence[Any]) -> TemplateProblem | None:
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            return _at(token, _SEMICOLON)
    return None


def _at(token: Any, message: str) -> TemplateProblem:
    return TemplateProblem(message, token.start, token.end + 1)


def _word(text: str, word: str) -> tuple[int, int]:
    start = max(text.upper().find(word.upper()), 0)
    return start, start + len(word)


def _offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return min(start + column, len(text))
