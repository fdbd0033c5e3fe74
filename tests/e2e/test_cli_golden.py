"""A session at the terminal, kept as a file. To update it, see `test_cli_help.py`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.cli import app
from arco.orchestration.plan import PlanRequest
from tests.e2e.golden import check_golden, normalised


class Terminal:
    """Types commands into this process, and keeps what is seen."""

    def __init__(self, capsys: pytest.CaptureFixture[str], directory: Path) -> None:
        self._capsys = capsys
        self._directory = directory
        self.seen: list[str] = []

    def type(self, line: str) -> None:
        code = app.run(shlex.split(line)[1:])
        out, err = self._capsys.readouterr()
        shown = f"$ {line}\n{out}{err}"
        self.seen.append(shown + (f"[exit {code}]\n" if code else ""))

    def text(self) -> str:
        return normalised("\n".join(self.seen), directory=str(self._directory))


@pytest.fixture
def terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Terminal:
    for name in [name for name in os.environ if name.startswith("ARCO_")]:
        if name != "ARCO_UPDATE_GOLDEN":
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ARCO_ACTOR", "ana")
    monkeypatch.chdir(tmp_path)
    return Terminal(capsys, tmp_path)


CATALOG = r"""
servo catalog namespace list
servo admin init --store lake --save
servo catalog namespace list
servo catalog namespace create sales --owner ana --tag tier=gold --description 'What we sold'
servo catalog asset create sales.orders --column id:bigint:not_null --column mail:string
servo catalog asset create sales.orders
servo catalog asset show sales.order
servo catalog column add sales.orders amount:double --description 'how much'
servo catalog column update sales.orders mail --name email --pii email --sensitivity restricted
servo catalog column drop sales.orders mail
servo catalog asset update sales.orders --tag pii=yes --owner ana --owner bo
servo catalog asset rename sales.orders purchases
servo catalog asset list
servo catalog asset show sales.purchases
servo search purchase
servo search purchsaes
servo search orders --json
servo search email has:pii tag:pii=yes
servo search email --generation 4
servo search colour:red
servo search nothing
servo catalog namespace show sales
servo catalog namespace list
servo catalog namespace drop sales
servo catalog asset drop sales.purchases
"""

ADMIN = r"""
servo admin log tail -n 3
servo admin log show 2
servo admin snapshot
servo admin snapshot --history 3
servo admin diff 2 3
servo admin sql "SELECT namespace, name, tags, owners, created_at FROM catalog.assets"
servo admin sql "SELECT * FROM catalog.assets WHERE name = 'orders'"
servo admin sql "SELECT * FROM range(5)" --limit 2
servo admin sql "SELECT repeat('x', 100) AS long, 1 AS one"
servo admin sql --tables
servo admin sql "SELECT nope FROM catalog.assets"
servo admin fsck
servo admin rebuild --check
servo admin pin quarter-end 2 --reason 'the books' --days 90
servo admin pins
servo admin unpin quarter-end
servo admin merge
servo admin merge --all
servo admin gc
servo admin backup backup
servo admin rollback 3 --reason 'wrong workspace'
servo admin log tail -n 4
servo admin restore backup --store copy
servo admin rejected
servo admin rejected broken
servo admin compact --once
servo admin fsck
"""

SECURITY = r"""
servo admin init --store lake --save
servo auth keys list
servo roles list
servo roles grant user:Ann@example.com owner
servo roles grant group:sales-team editor --namespace sales --reason 'their own'
servo roles grant group:platform viewer --tenant-wide
servo roles grant ann owner
servo roles grant user:ann@example.com king
servo roles revoke user:ann@example.com
servo roles list
servo roles show group:sales-team
servo roles show group:platform --json
servo roles show group:nobody
servo auth keys create ci --role operator --namespace sales --expires never
servo auth keys create workers --role admin --scope workers.work --kind worker --expires 2099-01-01
servo auth keys create bad --role operator --scope runs.tigger
servo auth keys create bad --role operator --expires 2001-01-01
servo auth keys list --wide
servo auth keys revoke ci --reason lost
servo auth keys list --all
servo auth keys revoke ci --json
servo auth keys revoke nobody
servo audit list --wide
servo audit list --action UpdateRoles --namespace sales --json
servo audit list --outcome denied
servo audit show 2 --wide
servo audit show 99
servo audit verify
servo audit verify --head 1:0000000000000000000000000000000000000000000000000000000000000000
servo audit verify --head yesterday
servo audit verify --generation 1 --json
servo audit export --by ana --action CreateApiKey
servo admin sql "SELECT action, count(*) AS records FROM security.audit GROUP BY ALL ORDER BY ALL"
"""

FLOW = r"""
servo validate
servo deploy
servo admin init --store lake --save
servo status
servo logs
servo assets
servo plan shop.totals
servo deploy -m 'first version'
servo deploy
servo plan '*' -p date=2025-01-01..2025-01-02
servo plan shop.totals -p date=2025-01-02
servo run '*' -p date=2025-01-01
servo run '*' -p date=2025-01-01
servo run '*' -p date=2025-01-02 --config broken=true
servo status
servo status --limit 1 --generation 1
servo logs shop.orders
servo logs shop.orders shop.totals
servo logs shop.nothing
servo assets
servo assets 'shop.t*' --json --generation 1
servo assets nothing
servo runs list
servo runs list --state failed
servo deployments
servo rollback 7
servo runs cancel 01K
servo run shop.ordrs
servo run '*' -p day=2025-01-01
"""

SHOP = '''
from servo import AssetContext, AssetIn, asset, daily

NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")


@asset(partitions=DAYS, owners=["ana"])
def orders(ctx: AssetContext) -> None:
    """What was ordered on a day."""
    if ctx.config.get("broken"):
        raise ValueError("the shop is closed")


@asset(partitions=DAYS, deps=["orders"])
def totals() -> None:
    """How much that was."""
'''

CODE = r"""
servo code shop.sums
servo code shop.sums -p date=2025-01-07
servo code shop.sums -p date=2025-01-07 --json
servo code shop.sums --as-written
servo code shop.orders
servo code shop.sums -p date=2025-02-01
servo code shop.sums -p region=eu
servo code shop.sms
servo runs task RUN shop.sums -p date=2025-01-02
servo runs task RUN shop.sums -p date=2025-01-02 --sql
servo runs task RUN shop.sums -p date=2025-01-02 --json
servo runs task RUN shop.sums
servo runs task RUN shop.orders -p date=2025-01-01 --sql
servo runs task RUN shop.nothing
"""

QUERIES = '''
from servo import asset, daily, sql_asset

NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")


@asset(partitions=DAYS)
def orders() -> None:
    """What was ordered on a day."""


sums = sql_asset(
    "sums",
    """
SELECT shop, sum(amount) AS amount
FROM {{ ref("orders") }}
WHERE day = {{ partition("date") }} AND amount > {{ config("least") }}
GROUP BY shop
""",
    partitions=DAYS,
    config={"least": 100},
)
'''


def type_all(terminal: Terminal, lines: str) -> None:
    for line in lines.strip().splitlines():
        terminal.type(line)


def prepare(workspace: Workspace, facts: Sequence[AssetObserved] = ()) -> None:
    workspace.commands.catalog.create_namespace("sales", owners=["ana"])
    orders = workspace.commands.catalog.create_asset("sales.orders", tags={"tier": "gold"})
    workspace.commands.catalog.update_asset(
        "sales.orders", owners=["ana", "bo"], description="All of them"
    )
    fact = AssetObserved(asset_id=orders.event_id, row_count=1200, size_bytes=64_000)
    workspace.ledger.append([fact])
    workspace.committer.commit()
    workspace.store.put("ledger/inbox/broken.json", b'{"hello": 1}')
    workspace.committer.commit()


def test_session_with_the_catalog(terminal: Terminal) -> None:
    type_all(terminal, CATALOG)
    check_golden("session_catalog.txt", terminal.text())


def test_session_of_an_administrator(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCO_STORE", "lake")
    prepare(Workspace.open("lake", "default", "main", actor="ana"))
    type_all(terminal, ADMIN)
    check_golden("session_admin.txt", terminal.text())


def test_session_with_keys_roles_and_the_audit_log(terminal: Terminal) -> None:
    type_all(terminal, SECURITY)
    check_golden("session_security.txt", terminal.text())


def test_session_with_a_project(terminal: Terminal) -> None:
    Path("shop.py").write_text(SHOP)
    type_all(terminal, FLOW)
    check_golden("session_flow.txt", terminal.text())


def test_session_about_code(terminal: Terminal) -> None:
    Path("shop.py").write_text(QUERIES)
    type_all(terminal, "servo admin init --store lake --save\nservo deploy")
    workspace = Workspace.open("lake", "default", "main", actor="ana")
    days = ("date=2025-01-01..2025-01-02",)
    request = PlanRequest(selection=("shop.*",), partitions=days, config={"least": "5"})
    run = workspace.commands.orchestration.trigger(request)
    type_all(terminal, CODE.replace("RUN", run.run_id))
    check_golden("session_code.txt", terminal.text())
