"""Sends notifications of the command line: channels of `arco.toml`, and their secrets."""

from __future__ import annotations

from pathlib import Path

from arco.cli.session import Session
from arco.clock import SystemClock
from arco.config import resolve_channels
from arco.errors import Invalid
from arco.notifications.courier import ChannelCourier
from arco.tasks.failure import TaskFailed
from arco.worker.secrets import SecretRegistry
from servo.contract.manifest import SecretRef

_registry = SecretRegistry()
"""One for all channels: managers keep their access tokens."""


def channel_courier(session: Session) -> ChannelCourier:
    config = session.config()
    name = f"{config.tenant}/{config.workspace}"
    return ChannelCourier(resolve_channels(Path.cwd()), name, SystemClock(), channel_secret)


def channel_secret(ref: SecretRef) -> str:
    """A secret of a channel. Raises Invalid with the reference only."""
    try:
        return _registry.resolve({"value": ref})["value"]
    except TaskFailed as error:
        text = f"{ref} cannot be resolved ({error.info.code})"
        raise Invalid(text, hint="set it for the orchestrator") from None
