"""The questions that a workspace answers, at one generation and one time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from arco.answers.asset_code import AssetCode, asset_code
from arco.answers.asset_health import AssetHealth, HealthReader, HealthStatus
from arco.answers.explain_asset import AssetExplainer
from arco.answers.explain_run import RunExplainer
from arco.answers.inputs_above import InputReader
from arco.answers.partition_names import PartitionCheck
from arco.answers.past import past_explanation, past_recommendations
from arco.answers.recommend import Recommender
from arco.answers.shapes import AssetExplanation, Recommendation, RunExplanation
from arco.answers.task_plan import TaskPlanBody, task_plan
from arco.dispatch.waiting import Occupied, Waiting, older_runs, read_liveness, waiting
from arco.errors import NotFound
from arco.orchestration.reader import MIN_CHARS, Library, OrchestrationReader
from arco.orchestration.selection import Graph, select
from arco.orchestration.states import RUN_ACTIVE
from arco.orchestration.tables import RunRow, TaskRow
from arco.orchestration.world import World
from arco.state.snapshot import Snapshot
from arco.storage.port import Store

RANK = {status: rank for rank, status in enumerate(HealthStatus)}


class Answers:
    def __init__(
        self, snapshot: Snapshot, library: Library, now: datetime, store: Store | None = None
    ) -> None:
        """`store` shows what active runs wait for now; None for a moment in the past, for which
        remedies suggest no changes."""
        self.snapshot = snapshot
        self._library = library
        self._now = now
        self._store = store
        self._runs = OrchestrationReader(snapshot)
        self._inputs = InputReader(snapshot, library, now)

    def explain(
        self, subject: str, partition: Sequence[str] = ()
    ) -> AssetExplanation | RunExplanation:
        """An asset by its key, or a run by its id or the beginning of it."""
        if "." in subject:
            return self.explain_asset(subject, partition)
        return self.explain_run(subject)

    def explain_asset(self, asset: str, partition: Sequence[str] = ()) -> AssetExplanation:
        asset_id = self._inputs.asset_id(asset)
        check = PartitionCheck(self.snapshot, self._library, self._now)
        key = check.named(asset, asset_id, partition) if partition else None
        explanation = AssetExplainer(self._inputs, self._now).explain(asset, key)
        return past_explanation(explanation) if self._store is None else explanation

    def explain_run(self, run: str) -> RunExplanation:
        if len(run) < MIN_CHARS:
            raise NotFound(
                f"{run!r} names neither an asset nor a run",
                hint="give an asset as namespace.name, or the first characters of a run's id",
            )
        try:
            row = self._runs.find_run(run)
        except NotFound as error:
            hint = f"{error.hint}; an asset is written namespace.name"
            raise NotFound(error.message, hint=hint) from None
        explanation = RunExplainer(self._inputs).explain(row, self._waiting(row))
        return past_explanation(explanation) if self._store is None else explanation

    def code(self, asset: str, partition: Sequence[str] = ()) -> AssetCode:
        """Its code as deployed, and its SQL as Spark gets it for a partition."""
        return asset_code(self.snapshot, self._library, self._now, asset, partition)

    def task_plan(self, run: RunRow, task: TaskRow) -> TaskPlanBody:
        return task_plan(self.snapshot, self._library, run, task)

    def health(
        self, selection: Sequence[str] = (), *, statuses: Collection[str] = ()
    ) -> list[AssetHealth]:
        """Of the selected assets, or of all, the worst first. Runs are not looked up."""
        reader = HealthReader(self.snapshot, self._now)
        healths = [
            each
            for each in reader.all(self._selected(selection))
            if not statuses or each.status in statuses
        ]
        return sorted(healths, key=lambda each: (RANK[each.status], each.asset))

    def with_runs(self, healths: Sequence[AssetHealth]) -> list[AssetHealth]:
        """The same, with the outcomes of their last runs."""
        reader = HealthReader(self.snapshot, self._now)
        return [reader.with_run(each) for each in healths]

    def recommend(self, selection: Sequence[str] = ()) -> list[Recommendation]:
        recommendations = Recommender(self.snapshot).all(self._selected(selection))
        if self._store is None:
            return list(past_recommendations(recommendations, self.snapshot.generation))
        return recommendations

    def _selected(self, selection: Sequence[str]) -> dict[str, str]:
        """The ids of assets by key. One that is named is looked up; otherwise all are read."""
        if selection and all(self._is_key(each) for each in selection):
            return {key: self._runs.asset_id(key) for key in selection}
        rows = self._runs.deployed_assets()
        ids = {key: row.asset_id for key, row in sorted(rows.items()) if row.active}
        if not selection:
            return ids
        world = World.of(self._runs, self._library)
        return {key: ids[key] for key in select(Graph(world.manifest), list(selection))}

    def _is_key(self, text: str) -> bool:
        row = self._runs.deployed_asset(text) if text.count(".") == 1 else None
        return row is not None and row.active

    def _waiting(self, run: RunRow) -> list[Waiting]:
        if self._store is None or run.state not in RUN_ACTIVE:
            return []
        tasks = self._runs.tasks(run.run_id)
        return waiting(
            run,
            tasks,
            read_liveness(self._store, run, tasks),
            self._now,
            Occupied.read(self.snapshot),
            older_runs(self.snapshot, run, tasks),
        )
