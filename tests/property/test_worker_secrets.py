"""A secret that user code knows is in nothing that leaves its attempt, in no usual form."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arco.storage.memory import MemoryStore
from arco.worker.capture import LogCapture
from arco.worker.failures import classify
from arco.worker.output import metadata_of
from arco.worker.secrets import MASK, Redactor
from tests.kit.clocks import SimClock
from tests.kit.depth import examples

Form = Callable[[str], str]

FORMS: dict[str, Form] = {
    "plain": lambda s: s,
    "repr": repr,
    "nested repr": lambda s: repr({"k": ["it's \"", s + "'\""]}),
    "json": json.dumps,
    "json text": lambda s: json.dumps(s, ensure_ascii=False),
    "json of repr": lambda s: json.dumps(repr(s)),
    "bytes": lambda s: repr(s.encode()),
    "quoted": quote,
    "quoted whole": lambda s: quote(s, safe=""),
    "form": quote_plus,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "urlsafe base64": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base32": lambda s: base64.b32encode(s.encode()).decode(),
    "hexadecimal": lambda s: s.encode().hex(),
    "HTML": html.escape,
    "utf-16": lambda s: repr(s.encode("utf-16-le")),
    "backwards": lambda s: s[::-1],
}

characters = st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cs"])
secrets = st.text(characters, min_size=4, max_size=24).filter(
    lambda s: len(s.strip()) >= 4 and MASK not in s and len(s.splitlines()) == 1
)
around = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=20)


def survivors(text: str, planted: list[str]) -> list[str]:
    """Which plain or disguised secrets can be found in a text."""
    forms = (
        "plain",
        "json",
        "json text",
        "quoted whole",
        "form",
        "base64",
        "urlsafe base64",
        "base32",
        "hexadecimal",
        "HTML",
        "backwards",
    )
    found = []
    for secret in planted:
        spelled = {FORMS[form](secret).strip('"') for form in forms} | {repr(secret)[1:-1]}
        found += [form for form in spelled if len(form) >= 4 and form in text]
    return found


@settings(max_examples=examples(150))
@given(st.lists(secrets, min_size=1, max_size=3), st.data(), around, around)
def test_no_form_of_a_secret_survives(
    planted: list[str], data: st.DataObject, before: str, after: str
) -> None:
    form = data.draw(st.sampled_from(sorted(FORMS)))
    secret = data.draw(st.sampled_from(planted))
    text = before + FORMS[form](secret) + after
    masked = Redactor(planted)(text)
    assert MASK in masked
    assert survivors(masked, planted) == []
    assert Redactor(planted)(masked) == masked


@settings(max_examples=examples(70))
@given(secrets, st.binary(max_size=9), st.binary(max_size=9))
def test_base64_of_something_longer_is_seen_through(
    secret: str, before: bytes, after: bytes
) -> None:
    coded = base64.b64encode(before + secret.encode() + after).decode()
    masked = Redactor([secret])(f"Basic {coded}")
    assert MASK in masked


@settings(max_examples=examples(50))
@given(secrets, st.sampled_from(sorted(FORMS)), st.lists(st.integers(1, 30), max_size=8))
def test_nothing_that_leaves_an_attempt_holds_it(secret: str, form: str, cuts: list[int]) -> None:
    assume("\n" not in FORMS[form](secret))
    clock, redact = SimClock(), Redactor([secret])
    store = MemoryStore(clock)
    capture = LogCapture(store, "log", clock, redact)
    said = f"the secret is {FORMS[form](secret)} here"
    for piece in _pieces(said, cuts):
        capture.write("stdout", piece.encode("utf-8", "surrogatepass"))
    capture.line("WARNING", f"it is {said}")
    try:
        raise ValueError(said, {"also": secret})
    except ValueError as error:
        info = classify(error, redact=redact)
    capture.close(f"failed: {said}")
    metadata = metadata_of({"said": said, said: 1}, redact)
    parts = b"".join(store.get(meta.path).data for meta in store.list("log"))
    lines = parts.decode().split("\n")
    logged = "\n".join(line[len("2026-01-01T00:00:00.000000Z stdout  ") :] for line in lines)
    told = [logged, info.message, info.traceback, f"{metadata}"]
    assert [survivors(text, [secret]) for text in told] == [[], [], [], []]


def _pieces(text: str, cuts: list[int]) -> list[str]:
    pieces = []
    for cut in cuts:
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text + "\n"]
