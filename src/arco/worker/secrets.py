"""Secrets: resolved here, given to user code, and kept out of everything else (TRAPS 23).

Definitions, events and envelopes carry references. A worker resolves them for one
attempt, and every text that leaves that attempt (log lines, tracebacks, messages,
metadata, statistics) passes its `Redactor` first.
"""

from __future__ import annotations

import base64
import html
import importlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote, quote_plus

from arco.errors import Error, Invalid, NotFound
from arco.tasks import private
from arco.tasks.failure import TaskFailed, Verdict, failed
from servo.contract.manifest import SecretRef

MASK: Final = "***"
MIN_LENGTH: Final = 4
"""Shorter values occur by accident, and are not masked."""
MIN_CASELESS_LENGTH: Final = 8
"""Shorter values may be ordinary words: only their exact spelling is masked."""

SecretScalar = str | int | bool | None


OnRead = Callable[[str, SecretRef, str], None]
"""A secret's name, its reference, and the code of the failure; empty if there is a value."""


class SecretProvider(Protocol):
    def resolve(self, ref: SecretRef) -> str:
        """The secret's value, all of it: `SecretRegistry` takes a field of it.

        NotFound, Denied and Invalid are permanent; Unavailable may be retried. No error may contain
        a value.
        """


class EnvSecrets:
    """`env:NAME`."""

    def resolve(self, ref: SecretRef) -> str:
        value = private.variable(ref.path)
        if value is None:
            raise NotFound(f"the environment has no {ref.path}", hint="set it for the worker")
        return value


class FileSecrets:
    """`file:/run/secrets/name`, without the line break that editors leave at its end."""

    def resolve(self, ref: SecretRef) -> str:
        try:
            return Path(ref.path).read_text("utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise NotFound(
                f"cannot read the file: {reason}", hint="mount it for the worker"
            ) from None


_MANAGERS: Final = {
    "aws-secrets-manager": ("aws", "AwsSecrets"),
    "azure-key-vault": ("azure", "AzureSecrets"),
    "gcp-secret-manager": ("gcp", "GcpSecrets"),
    "vault": ("vault", "VaultSecrets"),
}
"""By provider, module and class in `arco.worker.secret_managers`."""


class SecretValues(Mapping[str, str]):
    """Values by name. Its text shows the names alone."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return "SecretValues(" + ", ".join(f"{name}={MASK}" for name in self._values) + ")"


class SecretRegistry:
    """Providers by name: `env`, `file`, the managers, and what the program adds.

    A manager's module is imported when the first of its secrets is resolved: slots and commands
    start without an HTTP client.
    """

    def __init__(self, providers: Mapping[str, SecretProvider] | None = None) -> None:
        self._providers: dict[str, SecretProvider] = {"env": EnvSecrets(), "file": FileSecrets()}
        self._providers.update(providers or {})
        self._lock = threading.Lock()

    def resolve(
        self, refs: Mapping[str, SecretRef], on_read: OnRead = lambda name, ref, code: None
    ) -> SecretValues:
        """All secrets. Raises TaskFailed with the first reference that cannot be resolved.

        `on_read` is called for each reference.
        """
        values: dict[str, str] = {}
        for name, ref in refs.items():
            try:
                values[name] = self._resolve(name, ref)
            except TaskFailed as failure:
                on_read(name, ref, failure.info.code)
                raise
            on_read(name, ref, "")
        return SecretValues(values)

    def _provider(self, name: str) -> SecretProvider | None:
        with self._lock:
            if name not in self._providers and name in _MANAGERS:
                module_name, cls = _MANAGERS[name]
                module = importlib.import_module(f"arco.worker.secret_managers.{module_name}")
                self._providers[name] = getattr(module, cls)()
            return self._providers.get(name)

    def _resolve(self, name: str, ref: SecretRef) -> str:
        label = f"the secret {name!r} ({ref})"
        try:
            provider = self._provider(ref.provider)
            if provider is None:
                providers = ", ".join(sorted(self._providers.keys() | _MANAGERS.keys()))
                message, hint = f"{label}: unknown provider", f"providers: {providers}"
                raise failed("configuration", "secret.provider", message, hint)
            value = provider.resolve(ref)
            return field_of(value, ref.field) if ref.field else value
        except TaskFailed:
            raise
        except Error as error:
            category, code, hint = _FAILURES.get(error.kind, _FAILURES["invalid"])
            message = f"{label}: {error.message}"
            raise failed(category, code, message, error.hint or hint) from None
        except Exception as error:
            message = (
                f"{label}: {type(error).__name__}"  # the error's own text may contain the value
            )
            raise failed("configuration", "secret.failed", message, "see the provider") from None


_FAILURES: Final[dict[str, Verdict]] = {
    "not_found": Verdict("configuration", "secret.missing", "create it, or correct the reference"),
    "denied": Verdict("configuration", "secret.denied", "let the worker's identity read it"),
    "invalid": Verdict("configuration", "secret.invalid", "correct the reference"),
    "unavailable": Verdict("transient", "secret.unavailable", "the manager may be down"),
}


def field_of(value: str, name: str) -> str:
    """A field of a secret that is a JSON object: a text as it is, anything else as JSON."""
    try:
        fields = json.loads(value)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise Invalid("it is not a JSON object", hint=f"leave out #{name}")
    if name not in fields:
        raise NotFound(f"it has no field {name!r}", hint="correct what follows # in the reference")
    field = fields[name]
    return field if isinstance(field, str) else json.dumps(field)


class Redactor:
    """Puts `***` in the place of every secret, as it is or in a usual encoding.

    Encodings: base64 (both alphabets) and base32, also in the middle of something longer;
    hexadecimal; URL-quoting; HTML's escapes; escapes as Python's `repr` and JSON write them,
    up to twice; UTF-16, as text or as `repr` shows it; backwards; and, of secrets that are
    long enough not to be a word by accident, upper and lower case. Of a secret of several
    lines each line counts, since a log is read by lines.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in _forms(value)}
        ordered = sorted((f for f in forms if len(f) >= MIN_LENGTH), key=lambda f: (-len(f), f))
        self.longest = len(ordered[0]) if ordered else 0
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._needles = _shortest(ordered)

    def __repr__(self) -> str:
        return "Redactor()"

    def __call__(self, text: str) -> str:
        if self._pattern is None or not self._occurs(text):
            return text
        # Repeated until nothing is found: the mask and its neighbours may spell a secret. Each time
        # the text gets shorter, as no form is as short as the mask.
        count = 1
        while count:
            text, count = self._pattern.subn(MASK, text)
        return text

    def _occurs(self, text: str) -> bool:
        """Whether there is anything to mask. Mostly there is not, and searching each form
        separately is several times faster than the pattern."""
        for needle in self._needles:  # noqa: SIM110 - twice as fast as any()
            if needle in text:
                return True
        return False

    def scalar(self, value: SecretScalar) -> SecretScalar:
        """A value of metadata; a number that is a secret becomes the mask."""
        if isinstance(value, str):
            return self(value)
        if self._pattern is None or value is None:
            return value
        text = str(value)
        return value if self(text) == text else self(text)

    def mapping(self, values: Mapping[str, SecretScalar]) -> dict[str, SecretScalar]:
        return {self(name): self.scalar(value) for name, value in values.items()}


def _shortest(forms: Sequence[str]) -> tuple[str, ...]:
    """Of forms, the longest first, those that contain no other: where none is, no form is."""
    needles: list[str] = []
    for form in reversed(forms):
        if not any(needle in form for needle in needles):
            needles.append(form)
    return tuple(needles)


def _forms(value: str) -> set[str]:
    if len(value) < MIN_LENGTH:
        return set()
    parts = {value, value.strip(), *value.splitlines(), *(s.strip() for s in value.splitlines())}
    plain = {part for part in parts if len(part) >= MIN_LENGTH}
    once = {form for part in plain for form in _escaped(part)}
    twice = {form for part in once - plain for form in _escaped(part)}
    encodings = (_quoted, _base64, _base32, _hexadecimal, _html, _utf16, _turned)
    coded = {form for part in plain for encode in encodings for form in encode(part)}
    return plain | once | twice | coded


def _escaped(text: str) -> Iterator[str]:
    yield repr(text)[1:-1]
    yield ascii(text)[1:-1]
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text.encode("utf-8", "surrogatepass"))[2:-1]
    # Inside of something that holds both kinds of quotes, the single ones are escaped.
    yield repr("'\"" + text)[4:-1]
    yield repr(b"'\"" + text.encode("utf-8", "surrogatepass"))[5:-1]


def _quoted(text: str) -> Iterator[str]:
    for coded in (
        quote(text, safe="", errors="replace"),
        quote(text, errors="replace"),
        quote_plus(text, errors="replace"),
    ):
        yield coded
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), coded)


def _base64(text: str) -> Iterator[str]:
    data = _utf8(text)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(data).decode()
        yield from _inside(data, encode, bits=6, group=3)


def _base32(text: str) -> Iterator[str]:
    data = _utf8(text)
    for form in (base64.b32encode(data).decode(), *_inside(data, base64.b32encode, 5, 5)):
        yield form
        yield form.lower()


def _inside(data: bytes, encode: Callable[[bytes], bytes], bits: int, group: int) -> Iterator[str]:
    """The digits that depend on the secret alone, not on the text before and after it."""
    for lead in range(group):
        first = -(-lead * 8 // bits)
        last = (lead + len(data)) * 8 // bits
        yield encode(bytes(lead) + data).decode()[first:last]


def _hexadecimal(text: str) -> Iterator[str]:
    digits = _utf8(text).hex()
    yield digits
    yield digits.upper()


def _html(text: str) -> Iterator[str]:
    for escaped in (html.escape(text), html.escape(text, quote=False)):
        yield escaped
        yield escaped.encode("ascii", "xmlcharrefreplace").decode()


def _utf16(text: str) -> Iterator[str]:
    """Without the zero byte at an end: it depends on the order of the bytes."""
    for codec in ("utf-16-le", "utf-16-be"):
        data = text.encode(codec, "surrogatepass").strip(b"\0")
        yield data.decode("latin-1")
        yield repr(data)[2:-1]


def _turned(text: str) -> Iterator[str]:
    yield text[::-1]
    if len(text) >= MIN_CASELESS_LENGTH:
        yield text.upper()
        yield text.lower()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


NO_REDACTION: Final = Redactor()
