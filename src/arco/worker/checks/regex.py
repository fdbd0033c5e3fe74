"""Regular expressions: what Java's mean, said so that RE2 means the same.

Checks follow Java's syntax, as Spark does. DuckDB has RE2. Most patterns mean the
same in both, or can be put into words that do; for the others (look-around, back
references, flags, Unicode classes, possessive quantifiers) there is Spark.

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


class _Other(Exception):
    """The pattern has something that RE2 lacks, or sees in another way."""


def for_re2(pattern: str) -> str | None:
    """The same pattern in RE2's words, or None."""
    try:
        return _Reader(pattern).alternatives(top=True)
    except _Other:
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        found = self._next()
        if not found:
            raise _Other
        self._at += 1
        return found

    def alternatives(self, *, top: bool) -> str:
        branches = [self._branch(top)]
        while self._next() == "|":
            self._take()
            branches.append(self._branch(top))
        if self._next() and top:
            raise _Other  # a bracket that was never opened
        return "|".join(branches)

    def _branch(self, top: bool) -> str:
        if top and self._next() == "^":
            self._take()
        parts: list[str] = []
        while self._next() not in ("", "|", ")"):
            if self._next() == "$":
                self._take()
                if not top or self._next() not in ("", "|"):
                    raise _Other
                break
            parts.append(self._atom() + self._quantifier())
        return "".join(parts)

    def _atom(self) -> str:
        found = self._take()
        match found:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return f"[^{_LINE_ENDS}]"
            case "\\":
                return self._escape()
            case "^" | "*" | "+" | "?" | "{" | "]" | "}":
                raise _Other
            case _:
                return _literal(found)

    def _group(self) -> str:
        if self._next() == "?":
            self._take()
            if self._take() != ":":
                raise _Other
        inner = self.alternatives(top=False)
        if self._take() != ")":
            raise _Other
        return f"(?:{inner})"

    def _escape(self) -> str:
        found = self._take()
        if found in _PLAIN_CLASSES:
            return f"[{_PLAIN_CLASSES[found]}]"
        if found.lower() in _PLAIN_CLASSES:
            return f"[^{_PLAIN_CLASSES[found.lower()]}]"
        return _escaped(found)

    def _quantifier(self) -> str:
        found = self._next()
        if found in ("*", "+", "?"):
            self._take()
        elif found == "{":
            found = self._repeat()
        else:
            return ""
        lazy = self._next() == "?"
        if lazy:
            self._take()
        if self._next() in ("*", "+", "?", "{"):
            raise _Other  # possessive, or none at all
        return found

    def _repeat(self) -> str:
        found = _REPEAT.match(self._text, self._at)
        if found is None:
            raise _Other
        bounds = [int(each) for each in (found[1], found[3]) if each]
        if max(bounds) > _MOST_REPEATS or bounds != sorted(bounds):
            raise _Other
        self._at = found.end()
        return found[0]

    def _class(self) -> str:
        negated = self._next() == "^"
        if negated:
            self._take()
        parts: list[str] = []
        while (found := self._take()) != "]":
            parts.append(self._member(found, first=not parts))
        if not parts:
            raise _Other
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _member(self, found: str, *, first: bool) -> str:
        if found in ("[", "&", "^"):
            raise _Other  # unions and intersections, or what only looks like one
        if found == "-":
            if not first and self._next() != "]":
                raise _Other
            return r"\-"
        if found == "\\":
            escaped = self._take()
            if escaped in _PLAIN_CLASSES:
                if self._next() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                    raise _Other
                return _PLAIN_CLASSES[escaped]
            low = _escaped(escaped)
        else:
            low = _literal(found)
        return low + self._range_end()

    def _range_end(self) -> str:
        after = self._text[self._at + 1 : self._at + 2]
        if self._next() != "-" or after in ("]", ""):
            return ""
        self._take()
        high = self._take()
        if high in ("[", "&", "\\", "^", "-"):
            raise _Other
        return f"-{_literal(high)}"


def _escaped(found: str) -> str:
    if found in _CONTROLS:
        return f"\\{found}"
    if found in _PUNCTUATION:
        return _literal(found)
    raise _Other


def _literal(found: str) -> str:
    """One character, which means itself wherever it stands."""
    if found == "\0":
        raise _Other
    return f"\\{found}" if found in r"\.[]{}()*+?^$|-" else found
