"""What a worker of the API may do for one attempt: tokens, and the objects that each may access.

With each message that a server claims for a worker it gives two tokens:

| token | who has it | with it |
|---|---|---|
| claim | the supervisor, with its API key | renew, release, report; put the attempt's log |
| task | the slot, alone | read the inputs; write the output; commit it |

Both name the attempt, the delivery, and the claim in the queue: a token counts as long as that
claim does. User code can find the task's token in its process; it gives access to the task's
objects only, and no other route of the server accepts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from arco.errors import Denied, Invalid, Unauthenticated
from arco.security.events import SecretRead
from arco.storage import paths
from arco.storage.keys import check_scoped
from arco.storage.signing import TokenSigner
from arco.transport.queues.port import Delivery, Message, Weight
from servo.contract.task import TaskRequest, TaskResult

Audience = Literal["claim", "task"]

LIFE_S: Final = 24 * 3600
"""Maximum validity of a task token, unless the task has a longer timeout."""
CLAIM_LIFE_S: Final = 30 * 24 * 3600
"""Validity of a claim token, which is useless without the worker's key."""
AFTER_TIMEOUT_S: Final = 3600


class WorkGrant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a token."""

    audience: Audience
    tenant: str
    workspace: str
    worker: str
    caller: str
    """Whose key the worker has: `kind:id`."""
    expires: int
    """Seconds since 1970."""
    run_id: str
    task_id: str
    attempt: int
    attempt_id: str
    asset_id: str
    partition: str = ""
    output: str = ""
    """The folder of the partition's versions."""
    version: str = ""
    """The id of the version that the attempt writes."""
    sensor_id: str = ""
    message: str
    priority: int = 0
    slots: int = 1
    memory_mib: int = 0
    number: int
    nonce: str
    """Of the claim in the queue."""

    @property
    def delivery(self) -> Delivery:
        weight = Weight(self.slots, self.memory_mib)
        return Delivery(Message(self.message, b"", self.priority, weight), self.number)

    @property
    def names(self) -> tuple[str, str, str]:
        """Of the attempt."""
        return self.run_id, self.task_id, self.attempt_id

    @property
    def own_folder(self) -> str:
        return f"{self.output}/{self.version}" if self.output else ""


_decoder = msgspec.json.Decoder(WorkGrant)


class GrantSigner:
    """Makes and reads the tokens of all servers of a store."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._signers: dict[Audience, TokenSigner] = {
            "claim": TokenSigner("claim", secrets),
            "task": TokenSigner("task", secrets),
        }

    def sign(self, grant: WorkGrant) -> str:
        return self._signers[grant.audience].sign(msgspec.json.encode(grant))

    def is_task_token(self, token: str) -> bool:
        return self._signers["task"].signs(token)

    def read(self, token: str, audience: Audience, now: datetime) -> WorkGrant:
        """The content of a token. Raises Denied for an invalid or expired one."""
        body = self._signers[audience].verify(token)
        grant = None if body is None else _decoder.decode(body)
        if grant is None or grant.audience != audience:
            # A task token is used alone; a claim token comes with an API key.
            refusal = Unauthenticated if audience == "task" else Denied
            raise refusal(f"this is no {audience} token of this server")
        if now.replace(tzinfo=UTC).timestamp() >= grant.expires:
            raise Denied(
                f"the {audience} token has expired",
                hint="give the asset a timeout that is as long as it may take",
            )
        return grant


def grant_of(
    request: TaskRequest,
    delivery: Delivery,
    *,
    worker: str,
    caller: str,
    version: str,
    nonce: str,
    now: datetime,
) -> WorkGrant:
    """The claim on a message, as a grant to the worker that it was claimed for."""
    weight = delivery.message.weight
    return WorkGrant(
        audience="claim",
        tenant=request.tenant_id,
        workspace=request.workspace_id,
        worker=worker,
        caller=caller,
        expires=int(now.replace(tzinfo=UTC).timestamp()) + CLAIM_LIFE_S,
        run_id=request.run_id,
        task_id=request.task_id,
        attempt=request.attempt,
        attempt_id=request.attempt_id,
        asset_id=request.asset_id,
        partition=request.partition,
        output=request.output,
        version=version,
        sensor_id="" if request.sensor is None else request.sensor.sensor_id,
        message=delivery.message.name,
        priority=delivery.message.priority,
        slots=weight.slots,
        memory_mib=weight.memory_mib,
        number=delivery.number,
        nonce=nonce,
    )


def task_grant_of(claim: WorkGrant, request: TaskRequest) -> WorkGrant:
    """The grant for the slot: valid for the duration of the task."""
    life_s = max(LIFE_S, request.timeout_s + AFTER_TIMEOUT_S)
    expires = claim.expires - CLAIM_LIFE_S + life_s
    return msgspec.structs.replace(claim, audience="task", expires=expires)


def is_result_of(grant: WorkGrant, result: TaskResult) -> bool:
    """Whether a result is of the attempt, and its output where the attempt's may be."""
    if grant.sensor_id or grant.names != (result.run_id, result.task_id, result.attempt_id):
        return False
    output = result.materialization
    if output is None:
        return True
    named = (output.run_id, output.task_id, output.asset_id, output.partition)
    if named != (grant.run_id, grant.task_id, grant.asset_id, grant.partition):
        return False
    folder = f"{grant.output}/{output.materialization_id}"
    files = [*output.files, *([output.details.path] if output.details else [])]
    is_own = output.path == folder and _is_below(grant.output, folder)
    return is_own and all(_is_below(folder, file) for file in files)


def is_read_of(grant: WorkGrant, read: SecretRead) -> bool:
    """Whether a secret was read for the attempt, or for the sensor, of a grant."""
    if grant.sensor_id or read.sensor_id:
        return grant.sensor_id == read.sensor_id and not (read.asset or read.attempt_id)
    # data/{namespace}/{asset}/{partition}: the asset says who may see the record.
    asset = ".".join(grant.output.split("/")[1:3])
    names = (read.run_id, read.task_id, read.attempt_id)
    return grant.names == names and (read.asset, read.partition) == (asset, grant.partition)


def _is_below(folder: str, file: str) -> bool:
    """Whether a file is below a folder; not with `..` in its path."""
    path = file if "/" in file else f"{folder}/{file}"
    try:
        check_scoped(path)
    except Invalid:
        return False
    return path.startswith(f"{folder}/")


# -- objects ------------------------------------------------------------------------------


class ObjectRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of the workspace may be used, and how. Everything else is refused."""

    objects: frozenset[str] = frozenset()
    """That may be read."""
    folders: frozenset[str] = frozenset()
    """All below them may be read and listed."""
    created: frozenset[str] = frozenset()
    """That may be created if they are absent, and read."""
    own: str = ""
    """The folder that may be written, read and listed."""
    put: str = ""
    """Objects whose path begins so may be put."""

    def may_read(self, path: str) -> bool:
        return path in self.objects or path in self.created or self._is_below(path)

    def may_list(self, prefix: str) -> bool:
        """A prefix that may list less than a folder, and nothing beside it."""
        return self._is_below(prefix)

    def may_create(self, path: str) -> bool:
        return path in self.created or self.may_write(path)

    def may_write(self, path: str) -> bool:
        """Whether a path may be created, overwritten and deleted."""
        return self.is_own(path) or (bool(self.put) and path.startswith(self.put))

    def is_own(self, path: str) -> bool:
        return bool(self.own) and path.startswith(f"{self.own}/")

    def _is_below(self, path: str) -> bool:
        if self.is_own(path):
            return True
        folder = path
        while folder := folder.rpartition("/")[0]:
            if folder in self.folders:
                return True
        return False


def supervisor_rules(grant: WorkGrant) -> ObjectRules:
    """The rules for the holder of the claim: the log of the attempt, and its commit marker."""
    return ObjectRules(
        objects=frozenset({paths.output_commit(grant.run_id, grant.task_id)}),
        put=f"{paths.LOGS}{grant.run_id}/{grant.task_id}/{grant.attempt}.",
    )


def task_rules(grant: WorkGrant, request: TaskRequest) -> ObjectRules:
    """For the attempt itself; `request` has all of its inputs."""
    refs = (*request.inputs, *request.references)
    objects = {ref.listed_in.path for ref in refs if ref.listed_in is not None}
    for rule in (request.schema, request.promise):
        if rule is not None and rule.stored_in is not None:
            objects.add(rule.stored_in.path)
    folders = {version.path for ref in refs for version in ref.materializations}
    if request.previous is not None:
        folders.add(request.previous.path)
    folders.discard("")
    created = {paths.output_commit(grant.run_id, grant.task_id)} if grant.output else set()
    return ObjectRules(
        objects=frozenset(objects),
        folders=frozenset(folders),
        created=frozenset(created),
        own=grant.own_folder,
    )
