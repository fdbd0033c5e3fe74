"""Where keys and roles are valid: in the session's workspace, or in all of its tenant."""

from __future__ import annotations

from dataclasses import replace

from arco.app import Workspace
from arco.cli.session import Session
from arco.security.directory import TENANT_WORKSPACE


def open_scope(session: Session, *, tenant_wide: bool) -> Workspace:
    """The workspace whose log has the keys and roles in question."""
    return (replace(session, workspace=TENANT_WORKSPACE) if tenant_wide else session).open()
