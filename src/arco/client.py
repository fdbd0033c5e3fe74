"""A client of the HTTP API, with a method for each operation and a type for each document.

    from arco.client import Client

    with Client("https://arco.example.com", token, tenant="acme", workspace="prod") as client:
        for run in client.list_runs(state=["FAILED"]):  # goes through all pages
            print(run["run_id"])

Documents are the typed dictionaries of `documents`. To read a store itself: `arco.open`.
"""

from __future__ import annotations

from arco.remote import documents
from arco.remote.client import Client

__all__ = ["Client", "documents"]
