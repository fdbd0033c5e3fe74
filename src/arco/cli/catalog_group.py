"""`servo catalog`: its commands are in the modules `catalog_*`."""

from __future__ import annotations

from arco.cli import (
    catalog_asset,
    catalog_column,
    catalog_governance,
    catalog_namespace,
    catalog_terms,
)
from arco.cli.options import group

app = group("catalog", "Show and change namespaces, assets, columns and terms.")
catalog_governance.register(app)
for section in (catalog_namespace, catalog_asset, catalog_column, catalog_terms):
    app.add_typer(section.app)
