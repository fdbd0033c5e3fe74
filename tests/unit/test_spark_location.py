"""Stores by Hadoop's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from arco.errors import Invalid
from arco.spark.location import hadoop_options, local_path, spark_url
from arco.storage.http import HttpStore
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.storage.open import open_store
from arco.storage.scoped import ScopedStore
from tests.kit.clocks import SimClock

S3 = {
    "endpoint": "http://127.0.0.1:9",
    "access_key_id": "k",
    "secret_access_key": "s",
    "region": "r",
}


def test_a_folder_is_named_as_it_is(tmp_path: Path) -> None:
    store = ScopedStore(LocalStore(tmp_path / "a b"), "acme", "main")
    assert spark_url(store, "data/x") == f"file://{tmp_path}/a b/acme/main/data/x"
    assert local_path(store, "data/x") == f"{tmp_path}/a b/acme/main/data/x"


def test_buckets_have_hadoops_schemes() -> None:
    s3 = ScopedStore(open_store("s3://bucket/prefix", **S3), "acme", "main")
    assert spark_url(s3, "data") == "s3a://bucket/prefix/acme/main/data"
    assert local_path(s3, "data") is None
    azure = open_store("az://box", account_name="acct", account_key="a2V5")
    assert spark_url(azure, "data/x") == "abfss://box@acct.dfs.core.windows.net/data/x"
    assert spark_url(ScopedStore(azure, "acme", "main"), "data").endswith("/acme/main/data")


def test_the_options_of_a_store_are_given_to_hadoop() -> None:
    assert hadoop_options(ScopedStore(open_store("s3://bucket", **S3), "acme", "main")) == {
        "fs.s3a.endpoint": "http://127.0.0.1:9",
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s",
        "fs.s3a.endpoint.region": "r",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }


def test_memory_is_out_of_reach() -> None:
    with pytest.raises(Invalid) as caught:
        spark_url(MemoryStore(SimClock()), "data")
    assert caught.value.hint


def test_store_behind_a_server_is_where_the_worker_was_told() -> None:
    api = "https://arco.example/api/v1/workspaces/acme/prod/work"
    bucket = HttpStore(api, data_url="s3://lake/acme/prod")
    assert spark_url(bucket, "data/a") == "s3a://lake/acme/prod/data/a"
    assert (local_path(bucket, "data/a"), hadoop_options(bucket)) == (None, {})
    disk = HttpStore(api, data_url="file:///mnt/lake/acme/prod")
    assert spark_url(disk, "data/a") == "file:///mnt/lake/acme/prod/data/a"
    assert local_path(disk, "data/a") == "/mnt/lake/acme/prod/data/a"
    with pytest.raises(Invalid):
        spark_url(HttpStore(api), "data/a")
