"""Signed envelopes: a worker runs what the dispatcher of its workspace sent, and nothing else.

The signature is an HMAC-SHA-256 over the canonical JSON of

    {"expires_at": ..., "key_id": ..., "request": ...}

and is checked over the request's bytes as they came, before anything in them is read. So a field
that a newer dispatcher added does not break it, and an invalid signature reveals nothing else. Keys
rotate: put the new one first, and keep the old ones until what they signed has expired.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from arco.clock import Clock
from arco.errors import Denied, Invalid
from arco.storage import paths
from servo.contract import canonical
from servo.contract.identity import attempt_id
from servo.contract.partition import PartitionKey
from servo.contract.task import CONTRACT, SENSING, Auth, TaskRequest, needed_contract

ENV: Final = "ARCO_TASK_KEYS"

_MIN_SECRET_BYTES: Final = 16
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class EnvelopeKey(NamedTuple):
    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"EnvelopeKey(id={self.id!r}, secret=***)"


class UnknownKey(Denied):
    """Signed with a key that this worker does not have; another one may."""


class _Sealed(msgspec.Struct, frozen=True):
    request: msgspec.Raw
    auth: Auth


class _ContractVersion(msgspec.Struct, frozen=True):
    contract: int = 1


_sealed = msgspec.json.Decoder(_Sealed)
_version = msgspec.json.Decoder(_ContractVersion)
_request = msgspec.json.Decoder(TaskRequest)


def parse_keys(text: str) -> tuple[EnvelopeKey, ...]:
    """Keys from `id:hexsecret,id2:hexsecret2`, the current one first. Never shows a secret."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    keys = tuple(_parse_key(part, number) for number, part in enumerate(parts, 1))
    _check_keys(keys)
    return keys


def _parse_key(part: str, number: int) -> EnvelopeKey:
    key_id, colon, secret = part.partition(":")
    if not colon or _KEY_ID.fullmatch(key_id) is None:
        raise Invalid(f"key {number} of {ENV} has no id", hint="write id:hexsecret,id2:hexsecret2")
    try:
        return EnvelopeKey(key_id, bytes.fromhex(secret))
    except ValueError:
        raise Invalid(
            f"the secret of key {key_id!r} in {ENV} is not hex",
            hint="make one: openssl rand -hex 32",
        ) from None


def _check_keys(keys: Sequence[EnvelopeKey]) -> None:
    if not keys:
        raise Invalid("there is no key for envelopes", hint=f"set {ENV}=id:hexsecret")
    if len({key.id for key in keys}) != len(keys):
        raise Invalid("two keys for envelopes have one id", hint="give each its own")
    for key in keys:
        if len(key.secret) < _MIN_SECRET_BYTES:
            raise Invalid(
                f"the secret of key {key.id!r} is short",
                hint=f"use {_MIN_SECRET_BYTES} bytes or more",
            )


class EnvelopeSigner:
    """Signs with the first key and accepts all of them."""

    def __init__(self, keys: Sequence[EnvelopeKey], clock: Clock) -> None:
        _check_keys(keys)
        self._current = keys[0]
        self._secrets = {key.id: key.secret for key in keys}
        self._clock = clock

    def seal(self, request: TaskRequest, ttl: timedelta) -> bytes:
        """The envelope's bytes, which `open` accepts until `ttl` has passed."""
        if ttl <= timedelta(0):
            raise Invalid(f"an envelope cannot be valid for {ttl}")
        expires_at = math.ceil(_unix(self._clock.now() + ttl))
        body = canonical.encode(request)
        signature = _signature(self._current, body, expires_at)
        auth = Auth(key_id=self._current.id, expires_at=expires_at, signature=signature)
        # Canonical JSON of both, without encoding the request twice.
        return b'{"auth":' + canonical.encode(auth) + b',"request":' + body + b"}"

    def open(self, raw: bytes, *, tenant: str, workspace: str) -> TaskRequest:
        """The request, if it is intact and signed for this workspace. Denied or Invalid."""
        sealed = _decoded(raw)
        self._check_auth(sealed)
        return check_request(_parsed(sealed.request), tenant=tenant, workspace=workspace)

    def _check_auth(self, sealed: _Sealed) -> None:
        auth = sealed.auth
        secret = self._secrets.get(auth.key_id)
        if secret is None:
            raise UnknownKey(
                f"the envelope was signed with key {auth.key_id[:64]!r}, which is not in use here",
                hint=f"see {ENV}",
            )
        key = EnvelopeKey(auth.key_id, secret)
        expected = _signature(key, bytes(sealed.request), auth.expires_at)
        if not hmac.compare_digest(expected.encode(), auth.signature.encode("utf-8", "replace")):
            raise Denied("the signature of the envelope does not match its content")
        if _unix(self._clock.now()) >= auth.expires_at:
            raise Denied("the envelope has expired", hint="the dispatcher sends it again")


def open_unsigned(raw: bytes, *, tenant: str, workspace: str) -> TaskRequest:
    """For a worker inside the dispatcher's own process: all of `open` but the signature."""
    return check_request(_parsed(_decoded(raw).request), tenant=tenant, workspace=workspace)


def check_request(request: TaskRequest, *, tenant: str, workspace: str) -> TaskRequest:
    """The request itself, if it is for this workspace and its parts agree (TRAPS 16)."""
    if not 1 <= request.contract <= CONTRACT:
        raise Invalid(
            f"the envelope has contract {request.contract}; this worker supports up to {CONTRACT}",
            hint="upgrade the worker",
        )
    if (request.tenant_id, request.workspace_id) != (tenant, workspace):
        raise Denied(
            f"the envelope is for {request.tenant_id}/{request.workspace_id}, "
            f"and this worker serves {tenant}/{workspace}"
        )
    if request.attempt_id != attempt_id(request.run_id, request.task_id, request.attempt):
        raise Invalid(f"{request.attempt_id!r} does not name attempt {request.attempt} of its task")
    refs = (*request.inputs, *request.references)
    if request.contract < needed_contract(refs, request.config):
        raise Invalid("the envelope has inputs or values that its contract does not support")
    if request.sensor is not None and request.contract < SENSING:
        raise Invalid("the envelope has a sensor, which its contract does not support")
    for ref in refs:
        listed = ref.listed_in
        if listed and listed.path != paths.input_list(request.run_id, listed.sha256):
            raise Denied(f"the list of {ref.asset} that the envelope names is not of its run")
    PartitionKey.parse(request.partition)
    return request


def _decoded(raw: bytes) -> _Sealed:
    try:
        return _sealed.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Invalid("this is not a task envelope") from None


def _parsed(body: msgspec.Raw) -> TaskRequest:
    try:
        contract = _version.decode(body).contract
        if 1 <= contract <= CONTRACT:
            return _request.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the envelope has no valid task request: {error}") from None
    raise Invalid(
        f"the envelope has contract {contract}; this worker supports up to {CONTRACT}",
        hint="upgrade the worker",
    )


def _signature(key: EnvelopeKey, request: bytes, expires_at: int) -> str:
    # Canonical JSON sorts these three names so, and `request` is canonical already.
    head = canonical.encode({"expires_at": expires_at, "key_id": key.id})
    message = head[:-1] + b',"request":' + request + b"}"
    return hmac.new(key.secret, message, hashlib.sha256).hexdigest()


def _unix(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()
