"""ETags: the generation of an answer, the version of its row, and what the caller sees.

An answer is the same as long as its generation is. A change of a row is compared with the version
of the row alone: other commits do not matter.
"""

from __future__ import annotations

import hashlib
import re

from arco.api.problems import ApiError
from arco.security.visibility import Visible

_ETAG = re.compile(r'(?:W/)?"g(\d+)(?:\.v(\d+))?(?:-[0-9a-f]+)?"')


def etag_of(generation: int, version: int | None, visible: Visible) -> str:
    row = "" if version is None else f".v{version}"
    if visible.namespaces is None:
        return f'"g{generation}{row}"'
    digest = hashlib.sha256(",".join(sorted(visible.namespaces)).encode()).hexdigest()[:8]
    return f'"g{generation}{row}-{digest}"'


def matched_version(text: str | None) -> int | None:
    """The version of the row in an ETag; the generation in it does not matter."""
    if text is None or text.strip() == "*":
        return None
    match = _ETAG.fullmatch(text.strip())
    if match is None or match[2] is None:
        raise ApiError(
            "precondition_failed",
            "If-Match is not the ETag of a row of this server",
            code="invalid_if_match",
            hint="read the row, and repeat its ETag",
        )
    return int(match[2])
