"""`servo pii`: where personal data is, why, and where it may be."""

from __future__ import annotations

from typing import Annotated, Any

from arco.cli import deferral
from arco.cli.options import argument, command, flag, group, option

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.lineage import parsed_node
    from arco.cli.older_version import note_older_version
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.lineage.personal_flow import SENSITIVITY
    from arco.lineage.reader import Link
    from arco.orchestration.personal_data import Explanation, PersonalDataReader
    from arco.orchestration.personal_suggestions import suggested_columns
    from arco.remote.data_answers import RemoteAsset, remote_suggestions
    from servo.contract.keys import AssetKey

app = group("pii", "Show where personal data is and how it got there.")


@command(app, "list", example="servo pii list --namespace mart", takes=["at"])
def list_(
    session: Session,
    namespace: Annotated[str, option("NAME", "Only assets of this namespace.")] = "",
) -> None:
    """List columns with personal or sensitive data, declared or inherited.

    A column inherits from the columns whose values flow into it; see `servo pii explain`.
    """
    reader = PersonalDataReader(session.open().read.snapshot(session.at()))
    columns = reader.everything(namespace)
    note_older_version(session, reader.snapshot)
    if session.json:
        render.document({"generation": reader.snapshot.generation, "columns": columns})
        return
    if not columns:
        render.say("no column is classified as personal data")
        return
    headers = ("asset", "column", "personal", "sensitivity", "from")
    lines = [
        (
            each.asset,
            each.column,
            ", ".join(each.pii) or None,
            each.sensitivity or None,
            "other columns" if each.inherited else "declared",
        )
        for each in columns
    ]
    render.show_table(headers, lines, whole=["asset", "column"])
    assets = len({each.asset for each in columns})
    render.say(f"{render.count(len(columns), 'column')} of {render.count(assets, 'asset')}")


@command(app, "explain", example="servo pii explain mart.mails.email", takes=["at"])
def explain(
    session: Session,
    target: Annotated[str, argument("ASSET.COLUMN", "The column: namespace.name.column.")],
) -> None:
    """Show why a column is personal, or why it is not.

    An explicit classification takes precedence. Otherwise the column inherits through lineage.
    """
    node = parsed_node(target)
    if not node.column:
        raise Invalid(f"{target} is an asset, not a column", hint=f"name a column: {target}.column")
    reader = PersonalDataReader(session.open().read.snapshot(session.at()))
    explanation = reader.explain(node.asset, node.column)
    note_older_version(session, reader.snapshot)
    if session.json:
        render.document(_document(reader.snapshot.generation, explanation))
        return
    label, own = explanation.label, explanation.own
    render.say(
        f"{explanation.node}: {', '.join(sorted(label.pii)) or _without_kind(explanation)}"
        f"{f', {label.sensitivity}' if label.sensitivity else ''}"
    )
    if own.pii or own.sensitivity:
        texts = [text for text in (own.pii, own.sensitivity) if text]
        render.say(f"set for the column itself: {', '.join(texts)}", "dim")
    for kind, path in explanation.paths.items():
        if path:
            what = label.sensitivity if kind == SENSITIVITY else kind
            render.say(f"{what} comes from {path[0].source}:")
            for link in path:
                render.say(f"  {_step(link)}", "dim")
    for stopped in explanation.stopped:
        render.say(
            f"stopped at {stopped.link.target}: {stopped.reason} (from {stopped.link.source})",
            "yellow",
        )


@command(
    app,
    "suggest",
    example="servo pii suggest shop.customers\nservo pii suggest shop.customers --samples",
    takes=["at"],
)
def suggest(
    session: Session,
    asset: Annotated[str, argument("ASSET", "The asset: namespace.name.")],
    samples: Annotated[
        bool, flag("--samples", "Also read values of the newest version; they are not shown.")
    ] = False,
) -> None:
    """Suggest columns of an asset that may contain personal data.

    Suggestions are based on names, types and, with --samples, values. They have no effect;
    columns that are classified or inherit a classification are not listed.
    """
    key = str(AssetKey.parse(asset))
    workspace = session.open()
    snapshot = workspace.read.snapshot(session.at())
    workspace.read.catalog(session.at()).asset_id(AssetKey.parse(asset))
    if samples and session.api:
        columns = remote_suggestions(RemoteAsset(workspace, key, snapshot.generation))
    else:
        columns = list(suggested_columns(snapshot, key, workspace.store if samples else None))
    note_older_version(session, snapshot)
    if session.json:
        render.document({"generation": snapshot.generation, "asset": key, "suggestions": columns})
        return
    if not columns:
        render.say(f"no other column of {key} looks like personal data")
        return
    headers = ("column", "suggested", "score", "reason", "recognizer")
    lines = [(c.column, c.pii, f"{c.score:.2f}", c.reason, c.recognizer) for c in columns]
    render.show_table(headers, lines, right=["score"], whole=["column"])
    render.note(
        f"these are suggestions; accept one with `servo catalog column update {key} COLUMN "
        "--pii KIND`, or with pii= in the code; --pii none says that it is not personal"
    )


def _without_kind(explanation: Explanation) -> str:
    if explanation.own.pii or not explanation.unknown:
        return "not personal"
    first = explanation.unknown[0]
    whose = "its sources" if first == explanation.node else f"the sources of {first}"
    return f"not known: {whose} are unknown"


def _step(link: Link) -> str:
    masked = ", masked" if link.masked else ""
    doubt = f", {link.confidence} confidence" if link.confidence not in ("", "high") else ""
    return f"{link.source} → {link.target}  {link.kind}{masked}{doubt}"


def _document(generation: int, explanation: Explanation) -> dict[str, Any]:
    def step(link: Link) -> dict[str, Any]:
        ends = {"source": str(link.source), "target": str(link.target)}
        return ends | render.picked(link, "kind", "masked", "method", "confidence")

    return {
        "generation": generation,
        "column": str(explanation.node),
        "pii": sorted(explanation.label.pii),
        "sensitivity": explanation.label.sensitivity,
        "unknown_sources": [str(node) for node in explanation.unknown],
        "own": explanation.own._asdict(),
        "ways": {kind: [step(link) for link in path] for kind, path in explanation.paths.items()},
        "stopped": [
            step(stopped.link) | {"reason": stopped.reason} for stopped in explanation.stopped
        ],
    }
