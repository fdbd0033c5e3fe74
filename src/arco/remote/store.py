"""The store of a workspace, read through the API. Nothing can be written to it.

All readers of a workspace work with it as with the store itself: objects have the same bytes. Of a
caller without the permissions for them, the tables of keys, roles and the audit log are not in the
manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn
from urllib.parse import quote

from arco.errors import Invalid, NotFound
from arco.remote.client import Client
from arco.storage import keys, paths
from arco.storage.port import Mode, Object, ObjectMeta

_OF_THE_STORE: Final = (paths.INBOX, paths.SEGMENTS, paths.REJECTED, "data/")
"""The API does not return these: their readers need the store."""


class ApiStore:
    parallelism = 8

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def url(self) -> str:
        return f"{self.client.url}/{self.client.tenant}/{self.client.workspace}"

    def get(self, path: str) -> Object:
        data = self._fetched(path)
        return Object(data, ObjectMeta(path, len(data), datetime(1970, 1, 1)))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        keys.check_range(path, start, length)
        if not length:
            return b""
        return self._fetched(path, {"Range": f"bytes={start}-{start + length - 1}"})

    def _fetched(self, path: str, headers: dict[str, str] | None = None) -> bytes:
        keys.check_key(path)
        if path.startswith(_OF_THE_STORE):
            refuse()
        try:
            return self.client.send("GET", f"/objects/{quote(path)}", headers=headers).content
        except NotFound:
            raise NotFound(f"{path} does not exist, or is not available through the API") from None

    def head(self, path: str) -> ObjectMeta:
        for meta in self.list(path):
            if meta.path == path:
                return meta
            break
        raise NotFound(f"{path} does not exist, or is not available through the API")

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        if prefix.startswith(_OF_THE_STORE):
            refuse()
        after = start_after or ""
        while True:
            page = self.client.list_stored_objects(prefix=prefix, start_after=after)
            for each in page["objects"]:
                time = datetime.fromisoformat(each["last_modified"]).astimezone(UTC)
                yield ObjectMeta(each["path"], each["size"], time.replace(tzinfo=None))
            if not page["truncated"]:
                return
            after = page["objects"][-1]["path"]

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        refuse()

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        refuse()

    def delete(self, path: str) -> None:
        refuse()

    def copy(self, source: str, target: str) -> None:
        refuse()

    def sign(self, path: str, expiry: timedelta) -> str:
        refuse()


def refuse(*_: Any) -> NoReturn:
    raise Invalid(
        "this command needs the store itself: it does not work through the API",
        hint="unset ARCO_API, and give --store",
    )
