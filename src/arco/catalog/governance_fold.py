"""The fold of governance: statements, what assets inherit, and the glossary.

The directory and the assets' stage keep the statements of their namespaces and assets, and show
in their rows what is in effect (`Statements`). Two stages come after them:

    inheritance   one key for each namespace: owners and tags for notices of its assets
    terms         one key for each term: the term, and who uses it
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar

import msgspec

from arco.catalog import governance
from arco.catalog.events import AddressedNotice, Column
from arco.catalog.governance import (
    NOTHING,
    SOURCES,
    Source,
    Statement,
    SubjectKind,
    ValuePath,
    Values,
)
from arco.catalog.governance_events import (
    AssetNoticeAddressed,
    GovernedValue,
    NamespaceDefaulted,
    TermCreated,
    TermDropped,
    TermUpdated,
    TermUsed,
    ValueRef,
)
from arco.catalog.governance_tables import (
    ASSET_STATEMENTS,
    NAMESPACE_DEFAULTS,
    NAMESPACE_STATEMENTS,
    TERM_USES,
    TERMS,
    NamespaceDefaultsRow,
    TermRow,
    TermUseRow,
)
from arco.catalog.tables import ASSETS, COLUMNS, NAMESPACES
from arco.errors import Invalid
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused
from arco.state.table import Table
from servo.contract.keys import check_name

COLUMN_FIELDS = governance.FIELDS_OF["column"]

replace = msgspec.structs.replace


class Statements(ABC):
    """The statements about one namespace or asset while a fact is folded.

    `say` and `patch` change it; `changes` are then the rows and facts that follow.
    """

    subject: ClassVar[SubjectKind]
    table: ClassVar[Table[Any]]

    def __init__(self, rows: Rows, fact: Fact, key: str) -> None:
        self._rows = rows
        self._fact = fact
        self._key = key
        self._before: dict[Source, Statement] = dict.fromkeys(SOURCES, NOTHING)
        for row in rows.scan(self.table, key):
            self._before[row.source] = Statement(row.values, row.positions, row.authors, row.times)
        is_stated = any(statement.values for statement in self._before.values())
        self._now = self._before | ({} if is_stated else self._unattributed())
        self._split: dict[Source, dict[str, Values]] = {}

    @abstractmethod
    def _unattributed(self) -> dict[Source, Statement]:
        """The values of rows that were written before there were statements."""

    def values(self, source: Source) -> Values:
        return self._now[source].values

    def say(self, source: Source, values: Values) -> None:
        """Replace the statement of a source."""
        fact = self._fact
        self._split.pop(source, None)
        self._now[source] = self._now[source].with_values(
            values, fact.position, fact.actor, fact.received_at
        )

    def forget(self) -> None:
        for source in SOURCES:
            self.say(source, {})

    def set_fields(self, source: Source, fields: Mapping[str, Any], column_id: str = "") -> None:
        """Replace these fields as a whole; the others stay."""
        if fields:
            rest = governance.without(self.values(source), column_id, fields)
            self.say(source, rest | governance.values_at(column_id, **fields))

    def patch(
        self, sets: Sequence[GovernedValue], withdrawn: Sequence[ValueRef], column_id: str = ""
    ) -> None:
        """Change the statement of people, value by value. Raises Invalid for a bad value."""
        subject: SubjectKind = "column" if column_id else self.subject
        values = dict(self.values("people"))
        for ref in withdrawn:
            governance.check_field(subject, ref.field)
            for withdrawn_path in self._withdrawable(values, ref, column_id):
                del values[withdrawn_path]
        for each in sets:
            governance.check_value(subject, each.field, each.entry, each.value)
            path = ValuePath(each.field, each.entry, column_id)
            if governance.FIELDS[each.field] == "set":
                values = governance.with_member(values, path)
            else:
                values[str(path)] = each.value
        for field in {each.field for each in sets}:
            governance.check_entries(values, column_id, field)
        self.say("people", values)

    def _withdrawable(self, values: Values, ref: ValueRef, column_id: str) -> list[str]:
        path = ValuePath(ref.field, ref.entry, column_id)
        if ref.entry or governance.FIELDS[ref.field] == "text":
            paths = [str(path)] if str(path) in values else []
        else:
            members = governance.without(values, column_id, [ref.field])
            paths = [each for each in values if each not in members]
        if not paths:
            hint = "see `servo catalog show`"
            if str(path) in self.values("code"):
                hint = self._code_hint(column_id)
            elif str(path) in self.values("dbt"):
                hint = "dbt says it: change it there and import it, or set another value"
            raise Invalid(f"people have not set {path.names()}", hint=hint)
        return paths

    def _code_hint(self, column_id: str) -> str:
        """A hint about a value that code has set."""
        column = self._rows.get(COLUMNS, self._key, column_id) if column_id else None
        if column is not None and column.declared_by != "code":
            return (
                "code set it before it stopped declaring the column: "
                "set another value with `servo catalog set`"
            )
        return "it is in the code: change it there"

    def effective(self, column_id: str = "") -> dict[str, Any]:
        """The fields of the row of the subject, or of one of its columns."""
        subject: SubjectKind = "column" if column_id else self.subject
        code, people, dbt = (self._of_column(source, column_id) for source in SOURCES)
        return governance.effective(subject, code, people, dbt)

    def _of_column(self, source: Source, column_id: str) -> Values:
        if source not in self._split:
            self._split[source] = governance.by_column(self.values(source))
        return self._split[source].get(column_id, {})

    def changes(self) -> Iterator[Change]:
        for source in SOURCES:
            if self._now[source] != self._before[source]:
                yield self._put(source, self._now[source])
        before, now = map(_term_uses, (self._before, self._now))
        for term, column_id in sorted(before ^ now):
            yield Emit(self._term_used(term, column_id, (term, column_id) in now))

    def _put(self, source: Source, statement: Statement) -> Change:
        if not statement.values:
            return Delete(self.table, (self._key, source))
        return Put(self.table, self.table.row(self._key, source, *statement))

    @abstractmethod
    def _term_used(self, term: str, column_id: str, used: bool) -> TermUsed: ...


def _term_uses(statements: Mapping[Source, Statement]) -> set[tuple[str, str]]:
    return governance.term_uses(*(statement.values for statement in statements.values()))


class AssetStatements(Statements):
    subject = "asset"
    table = ASSET_STATEMENTS

    def _unattributed(self) -> dict[Source, Statement]:
        row = self._rows.get(ASSETS, self._key)
        if row is None:
            return {}
        fields = {field: getattr(row, field) for field in governance.FIELDS_OF["asset"]}
        values = governance.values_at(**fields)
        for column in self._rows.scan(COLUMNS, self._key):
            fields = {field: getattr(column, field) for field in COLUMN_FIELDS}
            values |= governance.values_at(column.column_id, **fields)
        position = self._rows.version(ASSETS, self._key)
        statement = NOTHING.with_values(values, position, row.updated_by, row.updated_at)
        return {"code" if row.project else "people": statement}

    def set_columns(self, source: Source, columns: Mapping[str, Column]) -> None:
        """Replace the values of a source for these columns, by their ids."""
        values = {
            path: value
            for path, value in self.values(source).items()
            if governance.column_of(path) not in columns
        }
        for column_id, column in columns.items():
            terms = () if column.terms is msgspec.UNSET else column.terms
            fields = {field: getattr(column, field) for field in COLUMN_FIELDS}
            values |= governance.values_at(column_id, **fields | {"terms": terms})
        self.say(source, values)

    def forget_columns(self, column_ids: Set[str]) -> None:
        for source in SOURCES:
            values = self.values(source)
            self.say(
                source,
                {p: v for p, v in values.items() if governance.column_of(p) not in column_ids},
            )

    def join_columns(self, column_id: str, into: str) -> None:
        """Move the values of one column to another; they take precedence there."""
        for source in SOURCES:
            values = self.values(source)
            moved = {path for path in values if governance.column_of(path) == column_id}
            rest = {path: value for path, value in values.items() if path not in moved}
            joined = {into + path.removeprefix(column_id): values[path] for path in moved}
            self.say(source, rest | joined)

    def _term_used(self, term: str, column_id: str, used: bool) -> TermUsed:
        return TermUsed(term=term, asset_id=self._key, column_id=column_id, used=used)


class NamespaceStatements(Statements):
    subject = "namespace"
    table = NAMESPACE_STATEMENTS

    def _unattributed(self) -> dict[Source, Statement]:
        row = self._rows.get(NAMESPACES, self._key)
        if row is None:
            return {}
        fields = {field: getattr(row, field) for field in governance.FIELDS_OF["namespace"]}
        position = self._rows.version(NAMESPACES, self._key)
        values = governance.values_at(**fields)
        statement = NOTHING.with_values(values, position, row.updated_by, row.updated_at)
        return {"people": statement}

    def changes(self) -> Iterator[Change]:
        yield from super().changes()
        before = governance.effective(
            "namespace", self._before["code"].values, self._before["people"].values
        )
        now = self.effective()
        if (before["owners"], before["tags"]) != (now["owners"], now["tags"]):
            yield Emit(
                NamespaceDefaulted(
                    namespace=self._key, owners=tuple(now["owners"]), tags=now["tags"]
                )
            )

    def _term_used(self, term: str, column_id: str, used: bool) -> TermUsed:
        return TermUsed(term=term, namespace=self._key, used=used)


# -- inheritance --------------------------------------------------------------------------


def _default(rows: Rows, fact: Fact, e: NamespaceDefaulted) -> Iterator[Change]:
    if e.owners or e.tags:
        yield Put(NAMESPACE_DEFAULTS, NamespaceDefaultsRow(e.namespace, list(e.owners), e.tags))
    else:
        yield Delete(NAMESPACE_DEFAULTS, (e.namespace,))


def _inherit(rows: Rows, fact: Fact, e: AssetNoticeAddressed) -> Iterator[Change]:
    notice = msgspec.structs.asdict(e)
    defaults = rows.get(NAMESPACE_DEFAULTS, _namespace_of(fact, e))
    if defaults is not None:
        notice["owners"] = e.owners or tuple(defaults.owners)
        notice["tags"] = {**defaults.tags, **e.tags}
    yield Emit(AddressedNotice(**notice))


def _namespace_of(fact: Fact, e: AssetNoticeAddressed) -> str:
    return e.asset.partition(".")[0]


INHERITANCE = Stage(
    "inheritance",
    (NAMESPACE_DEFAULTS,),
    (
        On(NamespaceDefaulted, by("namespace"), _default),
        On(AssetNoticeAddressed, _namespace_of, _inherit),
    ),
)


# -- terms --------------------------------------------------------------------------------


def _create_term(rows: Rows, fact: Fact, e: TermCreated) -> Iterator[Change]:
    try:
        check_name(e.term, "term")
    except Invalid as error:
        yield refused(fact, "invalid_name", str(error))
        return
    if rows.get(TERMS, e.term) is not None:
        yield refused(fact, "term_exists", f"the term {e.term} already exists")
        return
    now, actor = fact.received_at, fact.actor
    owners = list(e.owners)
    yield Put(TERMS, TermRow(e.term, e.description, owners, e.links, now, actor, now, actor))
    yield applied(fact)


def _update_term(rows: Rows, fact: Fact, e: TermUpdated) -> Iterator[Change]:
    row = rows.get(TERMS, e.term)
    if row is None:
        yield _no_term(fact, e.term)
    elif refusal := _changed_term(rows, fact, e):
        yield refusal
    else:
        changed = replace(
            row,
            description=row.description if e.description is None else e.description,
            owners=row.owners if e.owners is None else list(e.owners),
            links=row.links if e.links is None else e.links,
            updated_at=fact.received_at,
            updated_by=fact.actor,
        )
        yield Put(TERMS, changed)
        yield applied(fact)


def _drop_term(rows: Rows, fact: Fact, e: TermDropped) -> Iterator[Change]:
    if rows.get(TERMS, e.term) is None:
        yield _no_term(fact, e.term)
    elif refusal := _changed_term(rows, fact, e):
        yield refusal
    elif not e.force and (uses := rows.scan(TERM_USES, e.term)):
        times = "once" if len(uses) == 1 else f"{len(uses)} times"
        yield refused(
            fact,
            "term_used",
            f"the term {e.term} is used {times}: see `servo catalog terms show {e.term}`; "
            "withdraw it there, or drop it with --force",
        )
    else:
        yield Delete(TERMS, (e.term,))
        yield applied(fact)


def _changed_term(rows: Rows, fact: Fact, e: TermUpdated | TermDropped) -> Emit | None:
    """The refusal, if the term has another version than expected."""
    version = rows.version(TERMS, e.term)
    if e.expected_version in (None, version):
        return None
    message = (
        f"the term {e.term} has changed: its version is {version}, not "
        f"{e.expected_version}; read it again"
    )
    return refused(fact, "version_mismatch", message)


def _no_term(fact: Fact, term: str) -> Emit:
    return refused(fact, "term_not_found", f"there is no term {term}")


def _use_term(rows: Rows, fact: Fact, e: TermUsed) -> Iterator[Change]:
    if e.used:
        yield Put(TERM_USES, TermUseRow(e.term, e.namespace, e.asset_id, e.column_id))
    else:
        yield Delete(TERM_USES, (e.term, e.namespace, e.asset_id, e.column_id))


_by_term = by("term")
TERMS_STAGE = Stage(
    "terms",
    (TERMS, TERM_USES),
    (
        On(TermCreated, _by_term, _create_term),
        On(TermUpdated, _by_term, _update_term),
        On(TermDropped, _by_term, _drop_term),
        On(TermUsed, _by_term, _use_term),
    ),
)
STAGES = (INHERITANCE, TERMS_STAGE)
