"""From a bearer token to a caller: API keys of the log, and tokens of the issuer.

Both look at directories of the workspaces that a server has, and at the tenant's own, so that a
revoked key or role is invalid from the next generation that the server reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from arco.errors import Unavailable
from arco.security.api_keys import parse_key, verify_key
from arco.security.caller import Caller, Grant
from arco.security.directory import Directory
from arco.security.oidc import TokenIdentity, TokenVerifier
from arco.security.settings import AuthSettings
from arco.security.tables import ApiKeyRow


class DirectorySource(Protocol):
    """A workspace, as far as authentication needs it."""

    @property
    def tenant(self) -> str: ...

    @property
    def name(self) -> str: ...

    def directory(self) -> Directory:
        """Of a recent generation; it need not read the store each time."""


class Directories:
    """The directories of several workspaces."""

    def __init__(self, sources: Sequence[DirectorySource]) -> None:
        self.sources = tuple(sources)

    def grants(self, subjects: Sequence[str]) -> tuple[Grant, ...]:
        """What the bindings of all workspaces give to these subjects."""
        return tuple(
            grant
            for source in self.sources
            for grant in source.directory().grants(subjects, source.tenant, source.name)
        )


OnUse = Callable[[DirectorySource, ApiKeyRow], None]


class KeyAuthenticator:
    def __init__(
        self,
        directories: Directories,
        now: Callable[[], datetime],
        used: OnUse = lambda source, row: None,
    ) -> None:
        """`used` is called for each use; it does no I/O (`KeyUsage.note`)."""
        self._directories = directories
        self._now = now
        self._used = used

    def caller(self, token: str) -> Caller | None:
        """The caller of a key; None for other texts. Raises Unauthenticated for an invalid key."""
        key = parse_key(token)
        if key is None:
            return None
        unavailable: Unavailable | None = None
        match: tuple[DirectorySource, Directory, ApiKeyRow] | None = None
        for source in self._directories.sources:  # all of them, wherever the key is
            try:
                directory = source.directory()
            except Unavailable as error:  # another workspace may have it
                unavailable = error
                continue
            row = directory.keys.get(key.key_id)
            if row is not None and match is None:
                match = source, directory, row
        if match is None and unavailable is not None:
            raise unavailable
        verified = verify_key(key, None if match is None else match[2], self._now())
        assert match is not None  # else it was not verified
        source, directory, _ = match
        self._used(source, verified)
        return directory.key_caller(verified, source.tenant, source.name)


class OidcAuthenticator:
    def __init__(
        self, verifier: TokenVerifier, settings: AuthSettings, directories: Directories
    ) -> None:
        self._verifier = verifier
        self._settings = settings
        self._directories = directories

    def caller(self, token: str) -> Caller | None:
        """The caller of a token; None for other texts. Unauthenticated for an invalid one."""
        if token.count(".") != 2:
            return None
        return self.identified(self._verifier.verify(token))

    def identified(self, identity: TokenIdentity) -> Caller:
        """The caller with all that is granted to it, to its groups, and by the settings."""
        granted = [each.grant for each in self._settings.groups if each.group in identity.groups]
        granted += self._directories.grants(identity.subjects)
        return Caller(
            kind="user",
            id=identity.subject,
            name=identity.name,
            email=identity.email,
            until=identity.expires_at + timedelta(seconds=self._settings.leeway_s),
            grants=tuple(
                dict.fromkeys(
                    grant
                    for grant in granted
                    if identity.tenant is None or grant.scope.tenant == identity.tenant
                )
            ),
        )
