"""Suggestions of columns that may hold personal data, each with a reason and a score.

A suggestion is not a classification and has no effect. It is based on the words of the column's
name, its type, and sample values, if given. Other words may show that a column is *about* such data
and does not hold it: `email_verified` is a flag, `phone_count` a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

VERSION: Final = 1
"""Version of the rules below: another version may suggest something else."""
LEAST: Final = 0.5
"""Suggestions with a lower score are not made."""
_BY_NAME, _BY_SAMPLE = 0.6, 0.9
_ABOUT: Final = frozenset(
    [
        "verified",
        "valid",
        "confirmed",
        "status",
        "flag",
        "count",
        "counts",
        "total",
        "sent",
        "opened",
        "clicked",
        "bounced",
        "opt",
        "optin",
        "optout",
        "type",
        "kind",
        "format",
        "hash",
        "hashed",
        "digest",
        "sha256",
        "md5",
        "masked",
        "template",
        "domain",
        "provider",
        "is",
        "has",
        "at",
        "changed",
        "updated",
        "created",
        "length",
        "len",
        "num",
        "number_of",
        "id",
        "ids",
        "enabled",
        "allowed",
        "consent",
        "subscribed",
        "required",
        "attempts",
        "rate",
    ]
)
"""Words of columns that are about such data."""


class Recognizer(NamedTuple):
    kind: str
    names: tuple[tuple[str, ...], ...]
    """Words that follow each other in a name."""
    value: str = ""
    """A pattern that whole values match; empty where values have no form."""
    types: tuple[str, ...] = ("string",)


RECOGNIZERS: Final = (
    Recognizer(
        "email",
        (("email",), ("e", "mail"), ("mail",)),
        r"[^@\s]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}",
    ),
    Recognizer(
        "phone",
        (("phone",), ("telephone",), ("mobile",), ("msisdn",), ("fax",)),
        r"\+\d[\d ()/.-]{6,18}\d|\(\d{3}\) ?\d{3}-\d{4}",
        ("string", "bigint"),
    ),
    Recognizer(
        "ssn",
        (("ssn",), ("social", "security"), ("national", "insurance"), ("tax", "number")),
        r"\d{3}-\d{2}-\d{4}",
        ("string", "bigint"),
    ),
    Recognizer(
        "credit_card",
        (("credit", "card"), ("card", "number"), ("pan",)),
        r"(\d[ -]?){12,18}\d",
        ("string", "bigint"),
    ),
    Recognizer(
        "bank_account",
        (("iban",), ("bank", "account"), ("account", "number")),
        r"[A-Z]{2}\d{2}( ?[A-Z0-9]{4}){3,7}( ?[A-Z0-9]{1,3})?",
    ),
    Recognizer(
        "ip_address",
        (("ip",), ("ip", "address"), ("ipv4",), ("ipv6",), ("remote", "addr")),
        r"(\d{1,3}\.){3}\d{1,3}|([0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}",
    ),
    Recognizer(
        "date_of_birth",
        (("date", "of", "birth"), ("birth", "date"), ("birthdate",), ("birthday",), ("dob",)),
        types=("string", "date", "timestamp"),
    ),
    Recognizer(
        "name",
        (
            ("first", "name"),
            ("last", "name"),
            ("full", "name"),
            ("given", "name"),
            ("family", "name"),
            ("maiden", "name"),
            ("surname",),
            ("firstname",),
            ("lastname",),
            ("customer", "name"),
        ),
    ),
    Recognizer(
        "address",
        (
            ("street",),
            ("address", "line"),
            ("home", "address"),
            ("postal", "address"),
            ("postcode",),
            ("zip", "code"),
            ("shipping", "address"),
            ("billing", "address"),
        ),
    ),
)


class Suggestion(NamedTuple):
    kind: str
    score: float
    reason: str
    recognizer: str
    """Which rule, and its version: `email/1`."""


def suggestions(name: str, type: str, samples: Sequence[object] = ()) -> list[Suggestion]:
    """Suggestions for a column, the best first. `type` may be empty if unknown."""
    candidates = (_suggestion(each, name, type, samples) for each in RECOGNIZERS)
    return sorted((each for each in candidates if each), key=lambda each: (-each.score, each.kind))


def _suggestion(
    recognizer: Recognizer, name: str, type: str, samples: Sequence[object]
) -> Suggestion | None:
    if type and _family(type) not in recognizer.types:
        return None
    words = _words(name)
    named = next((run for run in recognizer.names if _has(words, run)), None)
    about = sorted({*words} & _ABOUT - {word for run in recognizer.names for word in run})
    texts = [str(value).strip() for value in samples if value is not None]
    matching = sum(_matches(recognizer, text) for text in texts)
    reasons, score = [], 0.0
    if named and not about:
        score = _BY_NAME
        reasons.append(f"its name has {' '.join(named)!r}")
    if texts and recognizer.value:
        share = matching / len(texts)
        if share >= 0.5:
            score = max(score, _BY_SAMPLE * share) + (0.1 if score else 0.0)
            reasons.append(f"{matching} of {len(texts)} values look like it")
        elif named and not about:
            score -= 0.3
            reasons.append(f"but only {matching} of {len(texts)} values look like it")
    if score < LEAST:
        return None
    return Suggestion(
        recognizer.kind,
        round(min(score, 1.0), 2),
        ", ".join(reasons),
        f"{recognizer.kind}/{VERSION}",
    )


def _matches(recognizer: Recognizer, text: str) -> bool:
    if not recognizer.value or re.fullmatch(recognizer.value, text) is None:
        return False
    return recognizer.kind != "credit_card" or _has_check_digit(text)


def _has_check_digit(text: str) -> bool:
    """Luhn's, which card numbers end with, and most other numbers do not."""
    digits = [int(char) for char in text if char.isdigit()][::-1]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[0::2]) + doubled) % 10 == 0


def _words(name: str) -> list[str]:
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return [word for word in re.split(r"[^a-z0-9]+", parted.lower()) if word]


def _has(words: Sequence[str], run: Sequence[str]) -> bool:
    return any(tuple(words[i : i + len(run)]) == tuple(run) for i in range(len(words)))


def _family(type: str) -> str:
    """`varchar(20)`, `text` and `string` are one; so are whole numbers."""
    base = re.split(r"[(<\s]", type.lower())[0]
    if base in ("string", "text", "varchar", "char", "large_string", "utf8"):
        return "string"
    if base in ("bigint", "int", "integer", "int64", "int32", "long"):
        return "bigint"
    return "timestamp" if base.startswith("timestamp") else base
