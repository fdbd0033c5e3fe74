"""`io=` of an asset, as far as Spark's writes go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from arco.tasks.failure import TaskFailed, failed

COMPRESSIONS: Final = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "none": "uncompressed",
    "lz4": "lz4_raw",
}
_SIZE: Final = re.compile(r"(\d+)\s*(|B|KB|MB|GB|KIB|MIB|GIB)")
_UNITS: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}
_MAX_FILES: Final = 100_000


class SortKey(NamedTuple):
    column: str
    descending: bool = False


class WriteOptions(NamedTuple):
    compression: str = "zstd"
    target_bytes: int = 128 << 20
    files: int | None = None
    """The exact number of files, if there are enough rows for them. It takes a shuffle."""
    sort_by: tuple[SortKey, ...] = ()
    """Inside of each file; over all of them where their number is given."""

    @classmethod
    def of(cls, io: Mapping[str, str], target_bytes: int) -> WriteOptions:
        """Raises TaskFailed for an unknown key or an invalid value."""
        options = cls(target_bytes=target_bytes)
        for key, value in io.items():
            match key:
                case "compression":
                    options = options._replace(compression=_compression(value))
                case "target_file_size":
                    options = options._replace(target_bytes=_size(value))
                case "files":
                    options = options._replace(files=_files(value))
                case "sort_by":
                    options = options._replace(sort_by=_keys(value))
                case _:
                    allowed = "compression, target_file_size, files and sort_by"
                    raise _invalid(f"there is no option {key!r}", f"there are {allowed}")
        return options


def _compression(value: str) -> str:
    if value not in COMPRESSIONS:
        raise _invalid(f"compression is {value!r}", f"use one of {', '.join(COMPRESSIONS)}")
    return value


def _size(value: str) -> int:
    match = _SIZE.fullmatch(value.strip().upper())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if not size:
        raise _invalid(f"target_file_size is {value!r}", "write it like 64MiB")
    return size


def _files(value: str) -> int:
    count = int(value) if value.isascii() and value.isdigit() else 0
    if not 0 < count <= _MAX_FILES:
        raise _invalid(f"files is {value!r}", f"give a number from 1 to {_MAX_FILES}")
    return count


def _keys(value: str) -> tuple[SortKey, ...]:
    """`a, b desc`."""
    keys = []
    for part in value.split(","):
        name, _, order = part.strip().rpartition(" ")
        if order.lower() not in ("asc", "desc") or not name:
            name, order = part.strip(), "asc"
        if not name:
            raise _invalid(f"sort_by is {value!r}", "write columns, like: date, amount desc")
        keys.append(SortKey(name.strip(), order.lower() == "desc"))
    return tuple(keys)


def _invalid(what: str, hint: str) -> TaskFailed:
    return failed("configuration", "io.invalid", f"io: {what}", hint)
