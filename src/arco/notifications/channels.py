"""Channels: where notifications go. They are in `arco.toml`; rules name them.

    [notifications]
    base_url = "https://arco.example.org"   # links in messages; without it they name a command
    owners = "mail"                         # the channel that writes to the owners of assets

    [notifications.channels.ops]
    type = "webhook"
    url = "https://example.org/hooks/arco"
    secret = "env:OPS_SECRET"               # signs what is sent

    [notifications.channels.chat]
    type = "slack"
    url = "env:CHAT_URL"                    # such a URL is a secret

    [notifications.channels.mail]
    type = "smtp"
    host = "mail.example.org"
    sender = "arco@example.org"
    to = ["ops@example.org"]
    username = "arco"
    password = "file:/run/secrets/mail"

Secrets are references, which are resolved for each message, and never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from arco.errors import Invalid
from arco.notifications.addresses import private_address
from servo.contract.address import is_address
from servo.contract.keys import check_name
from servo.contract.manifest import CONSUMERS, OWNERS, Notification, SecretRef, is_secret_reference
from servo.project import Problem
from servo.suggest import did_you_mean

S = TypeVar("S", bound=Struct)

MAX_TIMEOUT_S: Final = 30
"""An attempt must end long before its claim expires."""

Resolve = Callable[[SecretRef], str]
"""The value of a secret. Raises Invalid, which names the reference."""


class WebhookChannel(Struct, frozen=True, kw_only=True, tag_field="type", tag="webhook"):
    """A POST with JSON. With `secret`, its body and time are signed (HMAC-SHA256)."""

    url: str
    secret: str = ""
    allow_private: bool = False
    """Also addresses that only this network has."""
    timeout_s: float = 10


class SlackChannel(Struct, frozen=True, kw_only=True, tag_field="type", tag="slack"):
    """An incoming webhook of Slack, or of what takes the same JSON."""

    url: str
    allow_private: bool = False
    timeout_s: float = 10


class SmtpChannel(Struct, frozen=True, kw_only=True, tag_field="type", tag="smtp"):
    host: str
    sender: str
    port: int = 587
    to: tuple[str, ...] = ()
    """The recipients of this channel; it may be only for owners of assets."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: str = ""
    timeout_s: float = 20


Channel = WebhookChannel | SlackChannel | SmtpChannel


class NotificationSettings(Struct, frozen=True, kw_only=True):
    base_url: str = ""
    owners: str = ""
    channels: dict[str, Channel] = {}

    @property
    def secret_variables(self) -> set[str]:
        """The variables of the environment that channels name as secrets."""
        texts = (
            text
            for channel in self.channels.values()
            for name in ("url", "secret", "password")
            if (text := getattr(channel, name, "")).startswith("env:")
        )
        return {text.removeprefix("env:") for text in texts}

    def channel(self, name: str) -> Channel:
        channel = self.channels.get(name)
        if channel is None:
            raise Invalid(f"there is no channel {name!r}", hint=_channels_hint(name, self.channels))
        return channel

    @property
    def owners_channel(self) -> str:
        """The name of the channel that writes to owners; empty if none does."""
        if self.owners:
            return self.owners
        mail = [name for name, each in self.channels.items() if isinstance(each, SmtpChannel)]
        return mail[0] if len(mail) == 1 else ""


def _channels_hint(name: str, channels: Mapping[str, Channel]) -> str:
    if not channels:
        return "declare it in arco.toml under [notifications.channels]"
    return did_you_mean(name, channels) or f"channels: {', '.join(sorted(channels))}"


# -- reading ------------------------------------------------------------------------------


def parse_channels(
    table: Mapping[str, Any], where: str = "[notifications]"
) -> NotificationSettings:
    """The settings in a TOML table. Raises Invalid for unknown keys and invalid values."""
    _check_keys(table, NotificationSettings, where)
    channels = table.get("channels", {})
    for name, values in channels.items() if isinstance(channels, Mapping) else ():
        cls = _TYPES.get(values.get("type")) if isinstance(values, Mapping) else None
        if cls is None:
            types = ", ".join(_TYPES)
            raise Invalid(f"{where}: channel {name!r} needs a type", hint=f"one of {types}")
        _check_keys([key for key in values if key != "type"], cls, f"{where}, channel {name!r}")
        _converted(values, cls, f"{where}: channel {name!r}")
    settings = _converted(table, NotificationSettings, where)
    if settings.base_url:
        _check_url(settings.base_url, f"{where}: base_url", allow_private=True)
    for name, channel in settings.channels.items():
        _check_channel(name, channel, f"{where}: channel {name!r}")
    if settings.owners and not isinstance(settings.channel(settings.owners), SmtpChannel):
        raise Invalid(
            f"{where}: owners = {settings.owners!r} is not a channel that sends e-mail",
            hint='name a channel with type = "smtp"',
        )
    return settings


_TYPES: Final[dict[Any, type[Struct]]] = {
    "webhook": WebhookChannel,
    "slack": SlackChannel,
    "smtp": SmtpChannel,
}


def _converted(values: Mapping[str, Any], cls: type[S], where: str) -> S:
    try:
        return msgspec.convert(values, cls)
    except msgspec.ValidationError as error:
        raise Invalid(f"{where}: {error}") from None


def _check_keys(keys: Any, cls: type[Struct], where: str) -> None:
    allowed = cls.__struct_fields__
    for key in keys:
        if key not in allowed:
            hint = did_you_mean(key, allowed) or f"known: {', '.join(allowed)}"
            raise Invalid(f"unknown key {key!r} in {where}", hint=hint)


def _check_channel(name: str, channel: Channel, where: str) -> None:
    check_name(name, "name of a channel")
    if name in (OWNERS, CONSUMERS):
        raise Invalid(f"{where}: a channel cannot be called {name!r}", hint="rename it")
    if not 0 < channel.timeout_s <= MAX_TIMEOUT_S:
        raise Invalid(f"{where}: timeout_s is {channel.timeout_s}", hint=f"at most {MAX_TIMEOUT_S}")
    if isinstance(channel, SmtpChannel):
        _check_mail(channel, where)
        return
    if not is_secret_reference(channel.url):
        _check_url(channel.url, f"{where}: url", allow_private=channel.allow_private)
    if isinstance(channel, WebhookChannel) and channel.secret:
        _check_reference(channel.secret, f"{where}: secret")


def _check_mail(channel: SmtpChannel, where: str) -> None:
    for address in (channel.sender, *channel.to):
        if not is_address(address):
            raise Invalid(f"{where}: {address!r} is not an e-mail address", hint="correct it")
    if not channel.host or any(c.isspace() for c in channel.host):
        raise Invalid(f"{where}: host is {channel.host!r}", hint="name the mail server")
    if not 0 < channel.port < 65_536:
        raise Invalid(f"{where}: port is {channel.port}", hint="give a number from 1 to 65535")
    if channel.password:
        _check_reference(channel.password, f"{where}: password")
    if bool(channel.username) != bool(channel.password):
        raise Invalid(f"{where}: username and password go together", hint="give both, or none")
    if channel.password and channel.security == "none":
        raise Invalid(
            f"{where}: a password would be sent without encryption",
            hint='use security = "starttls" or "tls"',
        )


def _check_reference(text: str, where: str) -> None:
    if not is_secret_reference(text):
        raise Invalid(f"{where} is not a reference", hint="write env:NAME or file:/path")
    try:
        SecretRef.parse(text)
    except Invalid as error:
        raise Invalid(f"{where} is not a reference", hint=error.hint) from None


def _check_url(url: str, where: str, *, allow_private: bool) -> None:
    try:
        check_url(url, allow_private=allow_private)
    except Invalid as error:
        raise Invalid(f"{where}: {error.message}", hint=error.hint) from None


def check_url(url: str, *, allow_private: bool) -> None:
    """Raise Invalid for a URL that is not allowed. The message does not repeat the URL."""
    if any(ord(c) <= 32 or ord(c) >= 127 for c in url):
        raise Invalid("the URL has blanks or other characters that must be quoted")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("it is not a URL", hint="write https://host/path") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise Invalid("it is not a URL of http or https", hint="write https://host/path")
    if parts.username is not None or parts.fragment or port == 0:
        raise Invalid("a user, a fragment or port 0 in the URL", hint="leave them out")
    reason = "" if allow_private else private_address(parts.hostname)
    if reason:
        raise Invalid(f"{parts.hostname} is {reason}", hint="set allow_private = true to allow it")


# -- rules --------------------------------------------------------------------------------


def channel_problems(
    rules: Iterable[Notification], settings: NotificationSettings
) -> Iterator[Problem]:
    """Of rules that name channels which are not there."""
    for rule in rules:
        for name in rule.to:
            if name in (OWNERS, CONSUMERS):
                if not settings.owners_channel:
                    yield Problem.at(
                        rule.code,
                        f"{rule.name!r} notifies {name}, but no channel sends e-mail",
                        'declare one with type = "smtp" in arco.toml, and name it in '
                        '[notifications] as owners = "…" if there are several',
                    )
            elif name not in settings.channels:
                message = f"{rule.name!r} names the unknown channel {name!r}"
                yield Problem.at(rule.code, message, _channels_hint(name, settings.channels))
            elif isinstance(mail := settings.channels[name], SmtpChannel) and not mail.to:
                message = f"{rule.name!r} names the channel {name!r}, which has no recipients"
                yield Problem.at(
                    rule.code, message, 'give the channel to = ["…"], or tell "owners"'
                )
