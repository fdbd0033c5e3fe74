"""Large rules of schemas and contracts: objects beside the lists of inputs.

Up to `INLINE_CHARS` of a packed rule are in the request. A longer one is put once for all tasks
of a run, as `inputs/{run}/{sha256}.zlib`. That of a schema is read only by a worker whose output
has another schema than the current one.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final, TypeVar

import msgspec

from arco.errors import Corrupt, NotFound
from arco.storage import paths
from arco.storage.port import Mode, Store
from arco.storage.seal import read_checked
from arco.storage.unique_objects import put_own
from servo.contract.task import ContractRule, ObjectRef, SchemaRule

INLINE_CHARS: Final = 64 * 1024

R = TypeVar("R", bound=SchemaRule | ContractRule)


def put_rule(store: Store, run_id: str, rule: R, *, overwrite: bool = False) -> R:
    """The rule for a request. `overwrite` overwrites the stored object, which may be damaged."""
    if len(rule.packed) <= INLINE_CHARS:
        return rule
    body = base64.b64decode(rule.packed)
    digest = hashlib.sha256(body).hexdigest()
    path = paths.schema_rule(run_id, digest)
    if overwrite:
        store.put(path, body, Mode.OVERWRITE)
    else:
        put_own(store, path, body, mode=Mode.CREATE)
    ref = ObjectRef(path, digest, len(body))
    return msgspec.structs.replace(rule, packed="", stored_in=ref)


def whole_rule(store: Store, rule: R) -> R:
    """The complete rule. Raises NotFound or Corrupt for its object."""
    ref = rule.stored_in
    if ref is None:
        return rule

    def checked(raw: bytes) -> str:
        if hashlib.sha256(raw).hexdigest() != ref.sha256:
            raise Corrupt(f"{ref.path} does not match its checksum")
        return base64.b64encode(raw).decode()

    packed = read_checked(store, ref.path, checked)
    return msgspec.structs.replace(rule, packed=packed, stored_in=None)


def is_readable(store: Store, rule: SchemaRule) -> bool:
    try:
        whole_rule(store, rule)
    except (NotFound, Corrupt):
        return False
    return True
