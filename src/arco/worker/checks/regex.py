"""Regular expressions: Java's syntax, translated for RE2.

Checks follow Java's syntax, as Spark does. DuckDB has RE2. Most patterns mean the same in both, or
can be translated; the others (look-around, back references, flags, Unicode classes, possessive
quantifiers) are evaluated by Spark.

The pattern is for whole values, so anchors at either end of an alternative say
nothing and are left out.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
_SPACES: Final = r" \t\n\x0B\f\r"
_PLAIN_CLASSES: Final = {"d": r"0-9", "w": r"0-9A-Za-z_", "s": _SPACES}
_CONTROLS: Final = "tnrf"
_PUNCTUATION: Final = set(r"\.[]{}()*+?^$|-/@#%&=:;,<>!~'\"_` ")
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_MOST_REPEATS: Final = 1_000


class _NotRe2(Exception):
    """The pattern has something that RE2 lacks or interprets differently."""


def for_re2(pattern: str) -> str | None:
    """The same pattern in RE2's syntax, or None."""
    try:
        return _PatternReader(pattern).alternatives(top=True)
    except _NotRe2:
        return None


class _PatternReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._next()
        if not char:
            raise _NotRe2
        self._at += 1
        return char

    def alternatives(self, *, top: bool) -> str:
        branches = [self._branch(top)]
        while self._next() == "|":
            self._take()
            branches.append(self._branch(top))
        if self._next() and top:
            raise _NotRe2  # a bracket that was never opened
        return "|".join(branches)

    def _branch(self, top: bool) -> str:
        if top and self._next() == "^":
            self._take()
        parts: list[str] = []
        while self._next() not in ("", "|", ")"):
            if self._next() == "$":
                self._take()
                if not top or self._next() not in ("", "|"):
                    raise _NotRe2
                break
            parts.append(self._atom() + self._quantifier())
        return "".join(parts)

    def _atom(self) -> str:
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return f"[^{_LINE_ENDS}]"
            case "\\":
                return self._escape()
            case "^" | "*" | "+" | "?" | "{" | "]" | "}":
                raise _NotRe2
            case _:
                return _literal(char)

    def _group(self) -> str:
        if self._next() == "?":
            self._take()
            if self._take() != ":":
                raise _NotRe2
        inner = self.alternatives(top=False)
        if self._take() != ")":
            raise _NotRe2
        return f"(?:{inner})"

    def _escape(self) -> str:
        char = self._take()
        if char in _PLAIN_CLASSES:
            return f"[{_PLAIN_CLASSES[char]}]"
        if char.lower() in _PLAIN_CLASSES:
            return f"[^{_PLAIN_CLASSES[char.lower()]}]"
        return _escaped(char)

    def _quantifier(self) -> str:
        char = self._next()
        if char in ("*", "+", "?"):
            self._take()
        elif char == "{":
            char = self._repeat()
        else:
            return ""
        lazy = self._next() == "?"
        if lazy:
            self._take()
        if self._next() in ("*", "+", "?", "{"):
            raise _NotRe2  # possessive, or none at all
        return char

    def _repeat(self) -> str:
        match = _REPEAT.match(self._text, self._at)
        if match is None:
            raise _NotRe2
        bounds = [int(each) for each in (match[1], match[3]) if each]
        if max(bounds) > _MOST_REPEATS or bounds != sorted(bounds):
            raise _NotRe2
        self._at = match.end()
        return match[0]

    def _class(self) -> str:
        negated = self._next() == "^"
        if negated:
            self._take()
        parts: list[str] = []
        while (char := self._take()) != "]":
            parts.append(self._member(char, first=not parts))
        if not parts:
            raise _NotRe2
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _member(self, char: str, *, first: bool) -> str:
        if char in ("[", "&", "^"):
            raise _NotRe2  # unions and intersections, or what only looks like one
        if char == "-":
            if not first and self._next() != "]":
                raise _NotRe2
            return r"\-"
        if char == "\\":
            escaped = self._take()
            if escaped in _PLAIN_CLASSES:
                if self._next() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                    raise _NotRe2
                return _PLAIN_CLASSES[escaped]
            low = _escaped(escaped)
        else:
            low = _literal(char)
        return low + self._range_end()

    def _range_end(self) -> str:
        after = self._text[self._at + 1 : self._at + 2]
        if self._next() != "-" or after in ("]", ""):
            return ""
        self._take()
        high = self._take()
        if high in ("[", "&", "\\", "^", "-"):
            raise _NotRe2
        return f"-{_literal(high)}"


def _escaped(char: str) -> str:
    if char in _CONTROLS:
        return f"\\{char}"
    if char in _PUNCTUATION:
        return _literal(char)
    raise _NotRe2


def _literal(char: str) -> str:
    """One character, which means itself wherever it stands."""
    if char == "\0":
        raise _NotRe2
    return f"\\{char}" if char in r"\.[]{}()*+?^$|-" else char
