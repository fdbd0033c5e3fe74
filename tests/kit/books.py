"""A third project of the company of `tests.kit.api`: SQL with templates, columns that come from
others, checks, costs, and a run that fails with a hostile log.

    books.receipts ─► books.sums ─► books.report ─► books.summary
                           └──────► books.audit, which fails
    books.visits        one partition, whose key is hostile
"""

from __future__ import annotations

import msgspec

from arco.app import Workspace
from arco.storage import paths
from arco.worker.supervise import Control
from servo.contract.task import (
    CheckResult,
    ColumnInfo,
    ColumnLineage,
    ColumnSource,
    Cost,
    ErrorInfo,
    Influence,
    Lineage,
    TaskRequest,
    TaskResult,
    Usage,
)
from tests.kit.api import Company
from tests.kit.flows import Outcome, ScriptedExecutor

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> "
    "[click](javascript:alert(1)) ![pixel](https://evil.example/x.png) \u202egnp.exe \x1b[31mred"
)
HOSTILE_KEY = "<img src=x onerror=\"document.title='owned'\">"
BOOKS = """
from servo import *

days = daily('date', start='2026-01-01', end='2026-01-05')
checked = [not_null('amount')]

receipts = sql_asset(
    'receipts', 'SELECT 1 AS id, 2 AS shop, 3.5 AS amount', namespace='books', partitions=days,
    columns=[
        column('id', 'int64'), column('shop', 'string', pii='name'), column('amount', 'double')
    ],
    checks=checked, owners=['bea'], description='What was paid in shops.',
)
sums = sql_asset(
    'sums',
    '''SELECT shop, sum(amount) AS amount, {{ partition("date") }} AS day
FROM {{ ref("books.receipts") }}
WHERE amount > {{ config("least") }} AND shop <> {{ config("without") }}
GROUP BY shop''',
    namespace='books', partitions=days, config={'least': 100, 'without': "Bob's"},
    columns=[column('shop', 'string'), column('amount', 'double')], checks=checked,
)
report = sql_asset(
    'report', 'SELECT shop, amount AS total FROM {{ ref("books.sums") }}', namespace='books',
    inputs={'books.sums': all_upstream},
    columns=[column('shop', 'string'), column('total', 'double')],
)
summary = sql_asset(
    'summary', 'SELECT sum(total) AS total FROM {{ ref("books.report") }}', namespace='books',
    columns=[column('total', 'double')],
)
visits = sql_asset(
    'visits', 'SELECT {{ partition("shop") }} AS shop', namespace='books',
    partitions=dynamic('shop', keys='books_shops'), columns=[column('shop', 'string')],
)
audit = sql_asset(
    'audit', 'SELECT amount FROM {{ ref("books.sums") }}', namespace='books',
    inputs={'books.sums': all_upstream}, columns=[column('amount', 'double')],
)
"""
PARTITIONS = "date=2026-01-01..2026-01-04"
_FROM: dict[str, dict[str, tuple[tuple[str, str, Influence], ...]]] = {
    "books.sums": {
        "shop": (("books.receipts", "shop", "identity"),),
        "amount": (("books.receipts", "amount", "aggregation"),),
    },
    "books.report": {
        "shop": (("books.sums", "shop", "identity"),),
        "total": (("books.sums", "amount", "identity"),),
    },
    "books.summary": {"total": (("books.report", "total", "aggregation"),)},
    "books.audit": {"amount": (("books.sums", "amount", "identity"),)},
}
"""By output and its column: the columns that it comes from."""
LOG = f"""2026-01-05 08:01:00 INFO reads 4 partitions
downloading  10%\rdownloading 100%
{HOSTILE}
=HYPERLINK("https://evil.example")
WARNING a column has no values
Traceback (most recent call last):
  File "../../etc/passwd", line 3, in audit
    raise ValueError("<b>bold</b>")
ValueError: <b>bold</b>
"""


class BookExecutor(ScriptedExecutor):
    """Reports what a real worker would: columns, their origin, checks, costs, and a log."""

    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        result = super().run(request, control, again=again)
        log = paths.attempt_log(request.run_id, request.task_id, request.attempt, self._w.ids())
        self._w.store.put(f"{log}.000000.log", LOG.encode())
        usage = Usage(
            wall_ms=1_500, cpu_ms=900, peak_memory_kib=65_536, bytes_read=2_048, bytes_written=512
        )
        cost = Cost(cpu=2_500_000, memory=500_000)
        return msgspec.structs.replace(
            result,
            usage=usage,
            cost=cost,
            lineage=_lineage(request) if result.outcome == "succeeded" else None,
            checks=tuple(
                CheckResult(name=check.name, kind=check.kind, passed=True, rows=40)
                for check in request.checks
            ),
            materialization=result.materialization
            and msgspec.structs.replace(
                result.materialization,
                rows=40,
                bytes=512,
                schema=tuple(ColumnInfo(name=c.name, type=c.type) for c in request.columns),
            ),
        )


def _lineage(request: TaskRequest) -> Lineage:
    columns = tuple(
        ColumnLineage(column=name, sources=tuple(ColumnSource(*source) for source in sources))
        for name, sources in _FROM.get(request.asset, {}).items()
    )
    influences: tuple[ColumnSource, ...] = ()
    if request.asset == "books.sums":
        influences = (ColumnSource("books.receipts", "amount", "filter"),)
    return Lineage(
        read=request.inputs,
        columns=columns,
        influences=influences,
        method="plan",
        confidence="high",
        coverage_percent=100,
    )


def _outcome(request: TaskRequest) -> Outcome:
    if request.asset != "books.audit":
        return None
    message = f"the amounts do not add up: {HOSTILE}"
    return ErrorInfo(category="user_code", code="user_code.ValueError", message=message)


class Books:
    """The project's runs in a company."""

    def __init__(self, company: Company) -> None:
        self._company = company
        company.deploy(BOOKS, "books")
        workers = list(company.town.crowd.workers)
        company.town.crowd.workers.clear()
        company.town.crowd.worker(executor=self._executor)
        orchestration = company.town.fresh().commands.orchestration
        orchestration.change_partition_keys("books_shops", add=[HOSTILE_KEY])
        self.hostile_run = company.town.run("shop=all", selection="books.visits")
        self.run = company.town.run(PARTITIONS, selection="+books.summary")
        self.failed_run = company.town.run(selection="books.audit")
        company.town.crowd.workers[:] = workers

    @staticmethod
    def _executor(workspace: Workspace) -> ScriptedExecutor:
        return BookExecutor(workspace, "bookkeeper", _outcome)

    def task(self, run_id: str, asset: str, partition: str = "") -> str:
        tasks = self._company.town.fresh().read.orchestration().tasks(run_id)
        return next(
            t.task_id for t in tasks if (t.asset_key, t.partition_key) == (asset, partition)
        )
