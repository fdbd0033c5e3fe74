from __future__ import annotations

import duckdb
import pytest

from arco.worker.checks.regex import for_re2


@pytest.mark.parametrize(
    ("pattern", "translated"),
    [
        ("abc", "abc"),
        ("^abc$", "abc"),
        ("^a$|^b$", "a|b"),
        (r"\d{3}-\d{4}", r"[0-9]{3}\-[0-9]{4}"),
        (r"\w+@\w+\.com", r"[0-9A-Za-z_]+@[0-9A-Za-z_]+\.com"),
        (r"[^@\s]+", r"[^@ \t\n\x0B\f\r]+"),
        (r"[a-z0-9._%+-]+", r"[a-z0-9\._%\+\-]+"),
        (r"(ab|cd)*?", "(?:ab|cd)*"),
        (r"(?:x){2,}", "(?:x){2,}"),
        (r".", r"[^\n\r\x{85}\x{2028}\x{2029}]"),
        ("", ""),
        ("é😀", "é😀"),
    ],
)
def test_common_patterns_are_said_in_re2s_words(pattern: str, translated: str) -> None:
    assert for_re2(pattern) == translated
    connection = duckdb.connect(":memory:")
    assert connection.execute("SELECT regexp_full_match('', ?)", [translated]).fetchone()


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=a)b",
        r"(?i)a",
        r"(?<name>a)",
        r"(a)\1",
        r"a++",
        r"a**",
        r"a{1001}",
        r"a{3,2}",
        r"\bword\b",
        r"\p{L}+",
        r"\Qa\E",
        r"[a-z&&[^b]]",
        r"[a[bc]]",
        r"[[:alpha:]]",
        r"[\S]",
        r"[\w-z]",
        r"a^b",
        r"a$b",
        r"(a$)",
        r"(",
        r")",
        r"[",
        r"[]",
        r"[]a]",
        r"*a",
        r"a\\"[:2],
        r"\x41",
        "a\0",
    ],
)
def test_others_are_left_to_java(pattern: str) -> None:
    assert for_re2(pattern) is None
