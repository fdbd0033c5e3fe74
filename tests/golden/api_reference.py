"""`docs/reference/api.md`, from the OpenAPI document."""

from __future__ import annotations

from typing import Any

PREFIX = "/api/v1/workspaces/{tenant}/{workspace}"
HEAD = """# The HTTP API

Generated from `tests/golden/openapi.json`, which the server returns at `/api/v1/openapi.json`. That
document also has the types of request and response bodies. [The guide](../guides/api.md) describes
how to run and use a server; [errors](errors.md) are `application/problem+json`.

Paths are below `/api/v1/workspaces/{tenant}/{workspace}`. Every read accepts `generation`, `as_of`
or `as_of_run`; every list `page_size` and `page_token`; every write the header `Idempotency-Key`.
"""
COMMON = {"tenant", "workspace", "generation", "as_of", "as_of_run", "page_size", "page_token"}
COMMON |= {"Idempotency-Key"}


def api_reference(document: dict[str, Any]) -> str:
    tags: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            tags.setdefault(operation["tags"][0], []).append(_line(path, method, operation))
    parts = [HEAD]
    for tag, lines in tags.items():
        header = "| operation | permission | parameters | what it does |\n|---|---|---|---|"
        parts.append("\n".join([f"## {tag}", "", header, *lines, ""]))
    return "\n".join(parts)


def _line(path: str, method: str, operation: dict[str, Any]) -> str:
    short = path.removeprefix(PREFIX) or "(the workspace)"
    own = [each["name"] for each in operation.get("parameters", []) if each["name"] not in COMMON]
    own = [name for name in own if f"{{{name}}}" not in path]
    named = ", ".join(f"`{name}`" for name in own) or "–"
    permission = operation.get("x-permission")
    right = f"`{permission}`" if permission else "–"
    return f"| `{method.upper()} {short}` | {right} | {named} | {operation['summary']} |"
