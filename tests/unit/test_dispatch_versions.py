"""What requests are told of versions: of one moment, with one look for it."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from arco.dispatch.versions import CommittedVersions
from arco.errors import NotFound
from tests.kit.flows import deploy
from tests.kit.lake import PROJECT, Lake


def test_those_that_are_sent_together_share_one_look() -> None:
    lake = Lake()
    made = lake.make("city.source")
    w = lake.w
    asset_id = w.read.orchestration().deployed_assets()["city.source"].asset_id
    with patch.object(w.manifests, "head", wraps=w.manifests.head) as looks:
        versions = CommittedVersions(w.manifests, w.core.files)
        assert looks.call_count == 0
        current = versions.current(asset_id, "")
        assert current == versions.of(asset_id, made) == versions.all_current(asset_id)[0]
        assert looks.call_count == 1


def test_key_that_an_asset_had_before_its_rename_still_means_that_asset() -> None:
    w = Lake().w
    asset_id = w.read.orchestration().deployed_assets()["city.recent"].asset_id
    deploy(
        w,
        PROJECT.replace("days=20)", 'days=20), renamed_from="recent"').replace(
            "def recent", "def late"
        ),
    )
    versions = CommittedVersions(w.manifests, w.core.files)
    assert versions.asset_id("city.recent") == versions.asset_id("city.late") == asset_id
    with pytest.raises(NotFound, match="the name city"):
        versions.asset_id("city.never")
