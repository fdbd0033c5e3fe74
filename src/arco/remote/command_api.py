"""Requests and answers of commands through the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arco.remote.client import Client
from arco.state.tier1 import Acknowledged


class CommandApi:
    """A client, and its answers in the form of commands."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def key(self, idempotency_key: str) -> str:
        return idempotency_key or self.client.new_key()

    def done(self, answer: Mapping[str, Any], key: str) -> Acknowledged:
        event_id = self.client.get_command(key).get("event_id", "")
        return Acknowledged(answer["generation"], event_id, bool(answer.get("replayed", False)))


def body_of(details: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if value is not None}


def if_match(version: int | None) -> str:
    return "" if version is None else f'"g0.v{version}"'


def generation_of(answer: Mapping[str, Any]) -> Acknowledged:
    return Acknowledged(answer["generation"], "", replayed=False)
