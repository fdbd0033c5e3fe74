"""Which columns answers mask: what is personal now is masked in old generations too."""

from __future__ import annotations

from arco.answers.version_data import personal_columns
from arco.api.views import View
from arco.state.snapshot import Snapshot


def masked_columns(view: View, asset_id: str) -> frozenset[str]:
    """What the catalog calls personal or restricted, at the view's generation or now."""
    if view.is_current:
        return personal_columns(asset_id, view.snapshot)
    newest = Snapshot.open(view.manifests, view.snapshot.files)
    return personal_columns(asset_id, view.snapshot, newest)
