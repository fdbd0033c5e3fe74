"""Types of the modules that write the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
SchemaOf = Callable[[Any], Json]
"""Returns a reference to the schema of a type."""
