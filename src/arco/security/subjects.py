"""Who a role is granted to: `user:ann@example.com`, `subject:…`, `group:…`, `key:…`."""

from __future__ import annotations

from typing import Final

from arco.errors import Invalid

KINDS: Final = ("user", "subject", "group", "key")
MAX_LENGTH: Final = 256


def parse_subject(text: str) -> str:
    """A subject as it is stored. Raises Invalid."""
    kind, colon, name = text.partition(":")
    if not colon or kind not in KINDS or not name.strip():
        raise Invalid(
            f"{text[:100]!r} is not a subject",
            hint="write user:EMAIL, subject:ID (of the OIDC issuer), group:NAME or key:ID",
        )
    name = name.strip()
    if len(name) > MAX_LENGTH or not name.isprintable():
        raise Invalid(f"a subject has at most {MAX_LENGTH} characters, all of them printable")
    if kind == "user":
        return user_subject(name)
    return f"{kind}:{name.upper() if kind == 'key' else name}"


def user_subject(email: str) -> str:
    """Addresses are compared without regard to case, as identity providers do."""
    if "@" not in email:
        raise Invalid(
            f"{email[:100]!r} is not an email address",
            hint="name somebody without an address by subject:ID",
        )
    return f"user:{email.casefold()}"
