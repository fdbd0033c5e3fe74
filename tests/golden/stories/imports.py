"""What another tool knows."""

from __future__ import annotations

import msgspec

from arco.catalog.events import Column
from arco.imports.events import ImportCreated, ImportedAsset, ImportInstalled, ImportPart
from arco.imports.fold import packed
from servo.contract.task import ColumnLineage, ColumnSource, Lineage
from tests.golden.stories.catalog import governed
from tests.golden.stories.recorded_log import Log

replace = msgspec.structs.replace


def imported() -> Log:
    """dbt says what it makes, twice; code and people have their word too."""
    log = governed()
    lineage = Lineage(
        columns=(
            ColumnLineage(
                column="total", sources=(ColumnSource("I1", "cents", "aggregation"),), method="dbt"
            ),
        ),
        influences=(ColumnSource("I1", "id", "group_by"),),
        method="dbt",
        confidence="high",
        coverage_percent=100,
    )
    raw = ImportedAsset(
        node="source.shop.payments",
        key="raw.payments",
        asset_id="I1",
        fingerprint="f1",
        description="Payments",
        columns=(Column(name="id", type="bigint"), Column(name="cents", type="bigint")),
    )
    mart = ImportedAsset(
        node="model.shop.totals",
        key="mart.totals",
        asset_id="I2",
        fingerprint="f2",
        kind="view",
        owners=("finance@example.org",),
        tags={"nightly": ""},
        columns=(Column(name="total", type="bigint", description="Paid"),),
        inputs=("I1",),
        lineage=lineage,
    )
    moved = replace(mart, key="mart.sums", moved_from="mart.totals")

    def install(number: int, parent: str, *parts: ImportPart) -> None:
        id = f"P{number}"
        for at, part in enumerate(parts):
            log.do(replace(part, import_id=id, number=at))
        log.do(
            ImportCreated(
                source="dbt/shop",
                import_id=id,
                parent=parent,
                parts=len(parts),
                nodes=2,
                tool_version="1.12.0",
                generated_at="2026-01-31T12:00:00Z",
            )
        )
        log.do(ImportInstalled(source="dbt/shop", import_id=id))

    part = ImportPart(source="dbt/shop", import_id="", number=0)
    install(
        1,
        "",
        replace(part, packed=packed([raw])),
        replace(part, packed=packed([mart])),
    )
    install(2, "", part)  # another import has come before it
    install(
        3,
        "P1",
        replace(part, packed=packed([moved])),
        replace(part, removed=("source.shop.payments",)),
    )
    log.do(replace(part, import_id="P4"))  # the rest of it never came
    return log
