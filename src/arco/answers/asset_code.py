"""The code of an asset, as it was deployed, and its SQL as Spark gets it for one partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from arco.answers.partition_names import PartitionCheck, deployed
from arco.errors import NotFound
from arco.orchestration.reader import Library, OrchestrationReader
from arco.spark.query import TaskQuery
from arco.state.snapshot import Snapshot
from arco.tasks.failure import TaskFailed
from servo.contract.config_values import WireValue, from_wire, text_of
from servo.contract.manifest import Asset


class RenderedSql(NamedTuple):
    text: str = ""
    problem: str = ""
    """Why the templates cannot be filled in."""


class AssetCode(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    kind: Literal["python", "sql"]
    code: str
    """The query or the function as it was deployed last."""
    place: str
    """The file and line of its declaration."""
    partition: str
    """The partition that `sql` is for."""
    sql: str
    """The query with its templates filled in, as Spark gets it: `ref("x")` is the view `@x`. Empty
    for Python."""
    sql_problem: str
    """Why the templates cannot be filled in."""
    config: dict[str, str]
    """What the asset declares."""


def asset_code(
    snapshot: Snapshot, library: Library, now: datetime, key: str, texts: Sequence[str] = ()
) -> AssetCode:
    """The code of an asset, for the partition that `name=value` texts name, or the last one."""
    asset = deployed(snapshot, library, key)
    asset_id = OrchestrationReader(snapshot).asset_id(key)
    if asset is None:
        raise NotFound(f"{key} is not deployed", hint="see `servo assets`")
    check = PartitionCheck(snapshot, library, now)
    partition = check.named(key, asset_id, texts) if texts else check.last(asset)
    if partition is None:
        sql = RenderedSql(problem=f"{key} has no partition yet" if asset.kind == "sql" else "")
    else:
        sql = rendered_sql(asset, partition, asset.config)
    return AssetCode(
        asset=key,
        kind=asset.kind,
        code=asset.sql or asset.source,
        place=declared_at(asset),
        partition=partition or "",
        sql=sql.text,
        sql_problem=sql.problem,
        config=config_texts(asset.config),
    )


def rendered_sql(asset: Asset, partition: str, config: Mapping[str, WireValue]) -> RenderedSql:
    """The query of an SQL asset for one partition; nothing for a function."""
    if asset.kind != "sql":
        return RenderedSql()
    values = {name: from_wire(value) for name, value in config.items()}
    try:
        return RenderedSql(TaskQuery(asset.sql, partition=partition, config=values).rendered.text)
    except TaskFailed as failure:
        return RenderedSql(problem=failure.info.message)


def declared_at(asset: Asset) -> str:
    return f"{asset.code.file}:{asset.code.line}" if asset.code.file else ""


def config_texts(config: Mapping[str, WireValue]) -> dict[str, str]:
    return {name: text_of(value) for name, value in sorted(config.items())}
