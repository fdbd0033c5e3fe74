"""Which names the catalog accepts.

Commands check them before they append, and the fold checks them again: an event
may come from any program that can write to the inbox.
"""

from __future__ import annotations

from collections.abc import Iterable

from arco.errors import Invalid
from servo.contract.keys import AssetKey
from servo.contract.task import NOT_PERSONAL

MAX_TEXT = 4_096
MAX_ENTRIES = 200
"""Of owners, tags, properties, terms or links."""
SENSITIVITIES = ("", "public", "internal", "confidential", "restricted")
PII = (
    "",
    "ssn",
    "email",
    "phone",
    "address",
    "name",
    "date_of_birth",
    "credit_card",
    "bank_account",
    "ip_address",
    NOT_PERSONAL,
)
"""The kinds of personal data; `custom:<word>` is allowed too. `none`: it is not personal."""


def check_column_name(name: str) -> None:
    """Names of columns are limited only in length and encoding."""
    if not name:
        raise Invalid("a column has no name")
    if len(name) > MAX_TEXT:
        raise Invalid(f"a column's name has {len(name)} characters; the limit is {MAX_TEXT}")
    if "\0" in name:
        raise Invalid(f"column {name!r} has a NUL character in its name")


def check_printable(text: str, what: str) -> None:
    """For names from people; names from data are recorded unchanged."""
    if not text.isprintable():
        raise Invalid(f"{what} {text!r} has control characters", hint="write it in one line")


def check_asset(namespace: str, name: str, columns: Iterable[str] = ()) -> None:
    AssetKey(namespace, name)  # checks both
    for column in columns:
        check_column_name(column)
