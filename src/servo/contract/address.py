"""E-mail addresses, as far as they are taken: no comments, no quoted parts, no line breaks."""

from __future__ import annotations

import re
from typing import Final

MAX_LENGTH: Final = 254
_LOCAL: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"{_LOCAL}@{_LABEL}(?:\.{_LABEL})*")


def is_address(text: str) -> bool:
    return len(text) <= MAX_LENGTH and _ADDRESS.fullmatch(text) is not None
