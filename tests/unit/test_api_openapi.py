"""The OpenAPI document: current, valid, and kept by the server.

To update it: ARCO_UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/unit/test_api_openapi.py
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
import schemathesis.openapi
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import checks

from arco.api.openapi import document
from arco.api.problems import STATUS
from arco.api.table import ROUTES
from tests.golden.api_reference import api_reference
from tests.golden.client_source import documents_source, operations_source
from tests.kit.api import ApiWorld, Company
from tests.kit.depth import scaled

GOLDEN = Path(__file__).parents[1] / "golden" / "openapi.json"
ERRORS = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
CLIENT = Path(__file__).parents[2] / "src" / "arco" / "remote"
EXAMPLES = scaled(1, 40)


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    world = ApiWorld(Company().town.fresh())
    yield world
    world.close()


def test_the_golden_file_is_current() -> None:
    text = json.dumps(document(ROUTES), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text


def test_the_document_is_valid() -> None:
    assert list(OpenAPIV31SpecValidator(json.loads(GOLDEN.read_text())).iter_errors()) == []


def test_the_reference_page_is_current() -> None:
    text = api_reference(document(ROUTES))
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        REFERENCE.write_text(text)
    assert REFERENCE.read_text() == text


@pytest.mark.parametrize(
    ("module", "source"), [("documents", documents_source), ("methods", operations_source)]
)
def test_the_client_has_all_operations(module: str, source: Callable[[Any], str]) -> None:
    text = source(document(ROUTES))
    path = CLIENT / f"{module}.py"
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


def test_every_operation_has_a_permission() -> None:
    for path, item in json.loads(GOLDEN.read_text())["paths"].items():
        for operation in item.values():
            assert "{workspace}" not in path or operation["x-permission"]


def test_every_kind_of_error_has_a_section() -> None:
    sections = set(re.findall(r"^## (\w+)$", ERRORS.read_text(), re.MULTILINE))
    assert sections == {*STATUS, "Codes"}


CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@functools.cache
def _schema() -> Any:
    return schemathesis.openapi.from_dict(json.loads(GOLDEN.read_text()))


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (path, method)
        for path, item in document(ROUTES)["paths"].items()
        for method in item
        if not path.endswith("/events")  # it does not end
    ],
)
def test_generated_requests_are_answered_as_documented(
    world: ApiWorld, path: str, method: str
) -> None:
    operation = _schema()[path][method.upper()]

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy())
    def check(case: schemathesis.Case[Any]) -> None:
        if "{tenant}" in path:
            case.path_parameters |= {"tenant": "acme", "workspace": "prod"}
        prepared = case.as_transport_kwargs(base_url="http://arco")
        sent = world.owner.request(prepared)
        case.validate_response(sent, checks=CHECKS)

    check()
