"""The one error tree; HTTP status and exit code follow from the kind.

Error
├── Invalid             the input is wrong; do not retry
├── NotFound            the thing named does not exist
├── Denied              not allowed; do not retry
│   └── Unauthenticated it is not known who asks: no token, or one that does not hold
├── Conflict            somebody else was first; look again, then retry
│   ├── AlreadyExists   create-if-absent found the object there
│   └── Refused         the fold refused a command, with its reason
├── Unavailable         try again later; a write's outcome is unknown
│   ├── NotYet          the thing asked for has not happened yet
│   ├── Contended       lost too many races in a row
│   ├── ClockSkew       this machine's clock differs from the store's
│   └── Unappended      a batch may or may not be in the log
├── Fenced              this attempt is too old; stop
└── Corrupt             stored bytes are wrong; page somebody
    └── Unreadable      written by a newer format than this program knows
"""

from __future__ import annotations

from servo.errors import Error as Error
from servo.errors import Invalid as Invalid


class NotFound(Error):
    kind = "not_found"


class Denied(Error):
    kind = "denied"


class Unauthenticated(Denied):
    """A key or a token is missing, wrong, expired or revoked."""


class Conflict(Error):
    kind = "conflict"


class AlreadyExists(Conflict):
    pass


class Refused(Conflict):
    """The fold decided against a command; `code` is stable, the message is for people."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Unavailable(Error):
    """The call failed in passing. If it was a write, it may have taken effect."""

    kind = "unavailable"


class NotYet(Unavailable):
    def __init__(self, message: str, *, retry_after_s: float = 1.0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class Contended(Unavailable):
    pass


class ClockSkew(Unavailable):
    """This machine's clock differs from the store's by more than is safe."""


class Unappended(Unavailable):
    """The outcome of an append is unknown. Append again under the same `batch`."""

    def __init__(self, batch: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.batch = batch


class Fenced(Error):
    kind = "fenced"


class Corrupt(Error):
    kind = "corrupt"


class Unreadable(Corrupt):
    pass
