"""Files of tables on a cloud: the server redirects to a URL of the cloud, which gives ranges."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.app import Workspace
from arco.catalog.events import Column
from tests.kit.api import ApiWorld
from tests.kit.backends import CLOUDS, Servers
from tests.kit.workspace import NAME, TENANT

COLUMNS = 300
"""So many changed rows of a table get a file of their own."""


@pytest.mark.parametrize("cloud", [each for each in CLOUDS if each.values != ("gcs",)])
def test_a_file_is_read_from_the_cloud_by_its_presigned_url(
    cloud: str, servers: Servers, tmp_path: Path
) -> None:
    backend = servers.get(cloud)
    workspace = Workspace.open(
        f"{backend.url}/{tmp_path.name}", TENANT, NAME, options=backend.options
    )
    columns = [Column(name=f"c{number}", type="string") for number in range(COLUMNS)]
    workspace.commands.catalog.create_namespace("sales")
    workspace.commands.catalog.create_asset("sales.wide", columns=columns)
    world = ApiWorld(workspace)
    try:
        (table,) = world.owner.get("/files", table="catalog.columns")["tables"]
        file = next(each for each in table["files"] if each["kind"] != "change")
        size = world.owner.send("HEAD", file["url"])
        assert (size.status_code, size.headers["content-length"]) == (206, str(file["bytes"]))
        answer = world.owner.send("GET", file["url"])
        assert (answer.status_code, answer.content) == (307, b"")
        location = answer.headers["location"]
        assert urlsplit(location).path.endswith(file["path"])
        assert urlsplit(location).hostname == "127.0.0.1"
        assert world.owner.token not in location
        part = httpx.get(location, headers={"Range": "bytes=0-3"})
        assert (part.status_code, part.content) == (206, b"PAR1")
        whole = httpx.get(location)
        assert (whole.status_code, len(whole.content)) == (200, file["bytes"])
        assert pq.read_table(pa.BufferReader(whole.content)).num_rows == COLUMNS
        other = location.replace(file["path"], "manifests/head.json")
        assert httpx.get(other).status_code == 403
        assert httpx.get(location.partition("?")[0]).status_code in (401, 403, 404)
    finally:
        world.close()
