"""What requests are told of versions: of one moment, with one look for it."""

from __future__ import annotations

from unittest.mock import patch

from arco.dispatch.versions import CommittedVersions
from tests.kit.lake import Lake


def test_those_that_are_sent_together_share_one_look() -> None:
    lake = Lake()
    made = lake.make("city.source")
    w = lake.w
    asset_id = w.read_orchestration().deployed_assets()["city.source"].asset_id
    with patch.object(w.manifests, "head", wraps=w.manifests.head) as looks:
        versions = CommittedVersions(w.manifests, w.files)
        assert looks.call_count == 0
        current = versions.current(asset_id, "")
        assert current == versions.of(asset_id, made) == versions.all_current("city.source")[0]
        assert looks.call_count == 1
