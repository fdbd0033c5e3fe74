"""Tokens that `servo auth login` keeps for a user: a private file, by the URL of the API.

~/.config/servo/tokens.json     {"https://arco.example.com": {"token": …, "ends_at": …}}
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from arco.errors import Invalid
from arco.security.settings import check_url


class StoredToken(msgspec.Struct, frozen=True):
    token: str
    ends_at: str = ""
    """As the API says it; empty for a key, whose end the API knows alone."""


_Tokens = dict[str, StoredToken]


def api_url(text: str) -> str:
    """The URL that an API's tokens are kept under. Raises Invalid: tokens go over TLS, or stay
    on this machine."""
    url = text.strip().rstrip("/")
    check_url(url, "the API")
    return url


class TokenFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_user(cls, env: Mapping[str, str]) -> TokenFile:
        home = env.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return cls(Path(home) / "servo" / "tokens.json")

    def token_for(self, url: str, now: datetime) -> str:
        """The token for an API; empty if there is none, or it has ended."""
        stored = self._read().get(api_url(url))
        if stored is None or _has_ended(stored.ends_at, now):
            return ""
        return stored.token

    def put(self, url: str, token: StoredToken) -> None:
        self._write({**self._read(), api_url(url): token})

    def remove(self, url: str) -> bool:
        tokens = self._read()
        if tokens.pop(api_url(url), None) is None:
            return False
        self._write(tokens)
        return True

    def _read(self) -> _Tokens:
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        if self.path.stat().st_mode & 0o077:
            raise Invalid(f"others can read {self.path}", hint=f"chmod 600 {self.path}")
        try:
            return msgspec.json.decode(raw, type=_Tokens)
        except msgspec.DecodeError:
            hint = "delete it, and log in again"
            raise Invalid(f"{self.path} cannot be read", hint=hint) from None

    def _write(self, tokens: _Tokens) -> None:
        """Atomically; never readable by others, not even for a moment."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=".tokens-", dir=self.path.parent)  # mode 0600
        try:
            with os.fdopen(number, "wb") as file:
                file.write(msgspec.json.encode(tokens))
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _has_ended(ends_at: str, now: datetime) -> bool:
    if not ends_at:
        return False
    try:
        return datetime.fromisoformat(ends_at.removesuffix("Z")) <= now
    except ValueError:
        return True
