"""`servo catalog show`, `set`, `withdraw` and `deprecate`: what code and people say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.catalog_options import (
    WRITES,
    AssetArgument,
    Description,
    Expected,
    Owners,
    Tags,
    acknowledge,
    entries,
)
from arco.cli.options import argument, command, option

if deferral.LOADED:
    import msgspec

    from arco.catalog.governance import decode_sla, encode_sla, sla_text
    from arco.catalog.governance_events import GovernedValue, ValueRef
    from arco.catalog.governance_reader import GovernanceReader, SourcedValue, SubjectView
    from arco.catalog.reader import CatalogReader
    from arco.catalog.subjects import CatalogSubject
    from arco.cli import render
    from arco.cli.session import Session
    from arco.errors import Invalid
    from servo.policy import sla_spec
    from servo.rules.partitions import check_timezone
    from servo.suggest import did_you_mean

SubjectArgument = Annotated[
    str, argument("SUBJECT", "NAMESPACE, NAMESPACE.ASSET or NAMESPACE.ASSET.COLUMN.")
]
SLA_KEYS = ("max_age", "cron", "timezone", "availability", "text")


def register(app: typer.Typer) -> None:
    command(
        app,
        "show",
        example="servo catalog show sales.orders\nservo catalog show sales.orders.email --as-of 1d",
        takes=["at"],
    )(show)
    command(
        app,
        "set",
        example="servo catalog set sales.orders --owner ana --tag tier=gold --sla max_age=26h\n"
        "servo catalog set sales.orders.email --pii email --expected-version 12",
        takes=WRITES,
    )(set_)
    command(
        app,
        "withdraw",
        example="servo catalog withdraw sales.orders description owners:ana tags",
        takes=WRITES,
    )(withdraw)
    command(
        app,
        "deprecate",
        example='servo catalog deprecate sales.orders "use sales.purchases"',
        takes=WRITES,
    )(deprecate)


def show(session: Session, subject: SubjectArgument) -> None:
    """Show the metadata of a namespace, an asset or a column, and who set each value.

    Values from code and from people are stored separately. For description, SLA, deprecation, PII
    and sensitivity, people take precedence. Owners, tags, terms and links are combined; for the
    same tag or link, people take precedence. An asset inherits missing owners, SLA and tags from
    its namespace.
    """
    reader = session.open().read.governance(session.at())
    view = reader.view(subject)
    columns = _columns(reader, view)
    if session.json:
        document = render.plain(view) | {"effective": _decoded(view.effective)}
        more = {"columns": list(map(_with_row_version, columns))} if view.kind == "asset" else {}
        head = {"generation": reader.snapshot.generation}
        render.document(head | _with_row_version(document) | more)
        return
    fields: dict[str, object] = {view.kind: view.subject, "version": view.version}
    fields |= {field: _in_effect(view, field) for field in view.effective}
    render.show_fields(fields)
    for term in view.effective["terms"]:
        if not reader.has_term(term):
            render.note(f"the glossary has no term {term}")
    _show_sources(view)
    if columns:
        names = ("name", "pii", "sensitivity", "terms", "description")
        lines = [[_text(name, column[name]) for name in names] for column in columns]
        headers = ("column", *names[1:])
        render.show_table(headers, lines, title="columns")


def _show_sources(view: SubjectView) -> None:
    if view.values:
        headers = ("field", "value", "source", "in effect", "set by", "set", "generation")
        lines = map(_source_line, view.values)
        render.show_table(headers, lines, whole=["field", "set"], title="sources")


def _in_effect(view: SubjectView, field: str) -> str | None:
    """A field as text, with what of it is inherited."""
    text = _text(field, view.effective[field])
    if field not in view.inherited:
        return text
    tags = [v.entry for v in view.values if v.field == "tags" and v.inherited_from and v.in_effect]
    origin = f"inherited from {view.subject.partition('.')[0]}"
    return f"{text} ({', '.join(tags)} {origin})" if field == "tags" else f"{text} ({origin})"


def _columns(reader: GovernanceReader, view: SubjectView) -> list[dict[str, Any]]:
    if view.kind != "asset":
        return []
    rows = CatalogReader(reader.snapshot).asset_by_id(view.asset_id).columns
    names = ("name", "column_id", "description", "pii", "sensitivity", "terms")
    return [render.picked(row, *names) for row in rows]


def _source_line(value: SourcedValue) -> tuple[object, ...]:
    field = f"{value.field}:{value.entry}" if value.entry else value.field
    text = _promise(value.value) if value.field == "sla" else value.value
    of = f" of {value.inherited_from}" if value.inherited_from else ""
    source = f"{value.source}{of}"
    actor = value.set_by or None
    return field, text or None, source, value.in_effect, actor, value.set_at, value.generation


def _text(field: str, value: Any) -> str | None:
    if isinstance(value, dict):
        return render.pairs(value)
    if isinstance(value, list):
        return ", ".join(value) or None
    return _promise(value) if field == "sla" else value or None


def _with_row_version(view: object) -> dict[str, Any]:
    """A version is that of a partition: what changes are compared with is called otherwise."""
    document = render.plain(view)
    return {"row_version" if name == "version" else name: document[name] for name in document}


def _promise(encoded: str) -> str | None:
    sla = decode_sla(encoded)
    return None if sla is None else sla_text(sla)


def _decoded(effective: dict[str, Any]) -> dict[str, Any]:
    """With the SLA as an object, or null."""
    if "sla" not in effective:
        return effective
    sla = decode_sla(effective["sla"])
    return effective | {"sla": None if sla is None else msgspec.structs.asdict(sla)}


def set_(
    session: Session,
    subject: SubjectArgument,
    description: Description = None,
    owner: Owners = None,
    tag: Tags = None,
    sla: Annotated[
        list[str] | None,
        option(
            "K=V",
            "The SLA: max_age=26h, cron='0 8 * * *', timezone=Europe/Berlin, "
            "availability=99.5, text='...'. Repeatable.",
        ),
    ] = None,
    term: Annotated[list[str] | None, option("TERM", "A glossary term. Repeatable.")] = None,
    link: Annotated[list[str] | None, option("NAME=URL", "A link. Repeatable.")] = None,
    deprecated: Annotated[str | None, option("TEXT", "The replacement or the reason.")] = None,
    pii: Annotated[
        str | None, option("KIND", "Personal data: email, phone, custom:..., or none.")
    ] = None,
    sensitivity: Annotated[
        str | None, option("LEVEL", "public, internal, confidential or restricted.")
    ] = None,
    expected_version: Expected = None,
) -> None:
    """Set values as a person. Other values and those from code do not change.

    Owners, tags, terms and links are added; `servo catalog withdraw` removes values.
    """
    texts = {
        "description": description,
        "deprecated": deprecated,
        "pii": pii,
        "sensitivity": sensitivity,
        "sla": _sla(sla),
    }
    values = [GovernedValue(field=f, value=v) for f, v in texts.items() if v is not None]
    values += [GovernedValue(field="owners", entry=each) for each in owner or ()]
    values += [GovernedValue(field="terms", entry=each) for each in term or ()]
    for field, pairs in (("tags", entries(tag, "--tag")), ("links", entries(link, "--link"))):
        for entry, value in (pairs or {}).items():
            values.append(GovernedValue(field=field, entry=entry, value=value))
    if not values:
        raise Invalid("nothing to set", hint="give --description, --owner, --tag, …: see --help")
    outcome = session.open().commands.governance.change(
        subject,
        set=values,
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
    )
    fields = dict.fromkeys(value.field for value in values)
    acknowledge(session, outcome, f"set {', '.join(fields)} of {subject}", subject=subject)


def _sla(texts: Sequence[str] | None) -> str | None:
    fields = entries(texts, "--sla")
    if fields is None:
        return None
    for key in fields:
        if key not in SLA_KEYS:
            hint = did_you_mean(key, SLA_KEYS) or f"one of {', '.join(SLA_KEYS)}"
            raise Invalid(f"an SLA has no {key!r}", hint=hint)
    try:
        check_timezone(fields.get("timezone", "UTC"))
        return encode_sla(sla_spec(**fields))
    except Invalid as error:
        raise Invalid(f"--sla: {error.message}", hint=error.hint) from None


def withdraw(
    session: Session,
    subject: SubjectArgument,
    values: Annotated[
        list[str],
        argument("VALUE", "description, tags:tier, owners:ana, or tags for all tags. Repeatable."),
    ],
    expected_version: Expected = None,
) -> None:
    """Withdraw values that people have set. Values from code are in effect again."""
    refs = []
    for text in dict.fromkeys(values):
        field, _, entry = text.partition(":")
        refs.append(ValueRef(field=field, entry=entry))
    outcome = session.open().commands.governance.change(
        subject,
        withdraw=refs,
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, outcome, f"withdrew {', '.join(values)} of {subject}", subject=subject)


def deprecate(
    session: Session,
    key: AssetArgument,
    message: Annotated[str, argument("TEXT", "The replacement or the reason.")],
    expected_version: Expected = None,
) -> None:
    """Deprecate an asset. Projects that read it get a warning at validate and deploy.

    `servo catalog withdraw ASSET deprecated` removes the deprecation.
    """
    if CatalogSubject.parse(key).kind != "asset":
        raise Invalid(f"{key!r} is not an asset", hint="write namespace.asset")
    outcome = session.open().commands.governance.change(
        key,
        set=[GovernedValue(field="deprecated", value=message)],
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, outcome, f"deprecated {key}", subject=key)
