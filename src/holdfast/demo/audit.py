"""The books of a demonstration, compared: what the shop says, what the bank wrote down, and what is on the shelf.

Nothing here trusts the run. It reads what is on the disk afterwards, so it can be repeated on a folder that was
kept, and on one that was tampered with.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

import holdfast as hf
from holdfast.crew.audit import Charge, Due, entries_by_order, problems
from holdfast.crew.ledger import ACCEPTED, LEDGER_FILE, REFUND, REPEAT, Entry
from holdfast.demo.shop import InvalidCart, Order, OutOfStock
from holdfast.errors import ConfigurationError, NotFound, StepTimeout
from holdfast.replay.entries import Failed, Tried
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.record import COMPLETED, ENDED, FAILED, partition_of

T = TypeVar("T")

ORDERS_FILE: Final = "orders.jsonl"
HOME_FILE: Final = "shop.db"

CONFIRMED: Final = "confirmed"
COMPENSATED: Final = "compensated"
REJECTED: Final = "rejected"
LOST: Final = "lost"

CHARGES: Final[dict[str, Charge]] = {
    CONFIRMED: "kept",
    COMPENSATED: "refunded",
    REJECTED: "absent",
    LOST: "absent",
}

REJECTIONS: Final = frozenset({InvalidCart.__name__, OutOfStock.__name__})
"""The errors of orders without an effect, so that there is nothing to undo."""

READ_TABLES: Final = {
    "sales": "SELECT order_id, payment FROM sales",
    "reservations": "SELECT order_id, sku, quantity FROM reservations",
    "stock": "SELECT sku, initial, free FROM stock",
}


class Tables(Struct, frozen=True):
    """The shop's own tables, row by row."""

    sales: list[tuple[str, str]]
    reservations: list[tuple[str, str, int]]
    stock: list[tuple[str, int, int]]


class Audit(Struct, frozen=True, kw_only=True):
    """What the books say. ``problems`` is empty if they agree with each other and with every order."""

    orders: int
    confirmed: int
    compensated: int
    rejected: int
    lost: int
    reasons: dict[str, int]
    """Why orders were compensated or rejected: class of error, and how often."""
    time_outs_survived: int
    charges_attempted: int
    charges_accepted: int
    repeats_recognised: int
    duplicate_charges_accepted: int
    refunds: int
    problems: list[str]


def home_url(folder: Path) -> str:
    """The home in a demonstration's folder."""
    return f"sqlite:///{folder / HOME_FILE}"


async def audit(folder: Path) -> Audit:
    """Compare the books in ``folder``."""
    orders = read_lines(folder / ORDERS_FILE, Order)
    ledger = read_lines(folder / LEDGER_FILE, Entry)
    app = hf.App("audit", home=home_url(folder))
    async with app:
        home = app.runtime().home
        executions: dict[str, Recorded | None] = {}
        for order in orders:
            try:
                executions[order.id] = await load(home.store, partition_of("checkout", order.id))
            except NotFound:
                executions[order.id] = None
        assert home.transactions is not None
        tables: Tables = await home.transactions.transact(_read_tables)
    return compare(orders, ledger, executions, tables)


def compare(orders: list[Order], ledger: list[Entry], executions: dict[str, Recorded | None], tables: Tables) -> Audit:
    """Compare books that were read already; an execution that is ``None`` was not found."""
    books = _Books(orders, ledger, executions, tables)
    books.check_charges()
    books.check_sales()
    books.check_stock()
    return books.audit()


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """The lines of a file of JSON lines. Raises ``ConfigurationError``."""
    try:
        return [msgspec.json.decode(line, type=kind) for line in path.read_bytes().splitlines()]
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{path} cannot be read, so there is nothing to compare: {error}") from error


def _read_tables(sql: hf.SqlCursor) -> tuple[tuple[()], Tables]:
    rows = {name: [*sql.execute(text)] for name, text in READ_TABLES.items()}
    return (), msgspec.convert(rows, Tables)


class _Books:
    """All the books, and what is wrong with them."""

    def __init__(
        self,
        orders: list[Order],
        ledger: list[Entry],
        executions: dict[str, Recorded | None],
        tables: Tables,
    ) -> None:
        self.orders = {order.id: order for order in orders}
        self.ledger = ledger
        self.executions = executions
        self.tables = tables
        self.problems: list[str] = []
        self.outcomes = {id: self._outcome(id, recorded) for id, recorded in executions.items()}
        self.accepted = entries_by_order(ledger, ACCEPTED)

    def _outcome(self, id: str, recorded: Recorded | None) -> str:
        if recorded is None:
            self.problems.append(f"{id}: there is no execution of it")
            return LOST
        status, error = recorded.head.status, recorded.record.error
        if status not in ENDED:
            self.problems.append(f"{id}: it has not ended, it is {status}")
            return LOST
        if status == COMPLETED:
            return CONFIRMED
        if status != FAILED or error is None:
            self.problems.append(f"{id}: it ended as {status}")
            return LOST
        return REJECTED if _class_name(error.type) in REJECTIONS else COMPENSATED

    # ── Checks ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def check_charges(self) -> None:
        """Every confirmed order is paid once and in full, every other one not at all or paid back."""
        due = {id: Due(order.total_cents, CHARGES[self.outcomes[id]]) for id, order in self.orders.items()}
        self.problems += problems(due, self.ledger)

    def check_sales(self) -> None:
        """The shop's own table has each confirmed order exactly once, with the bank's payment."""
        wanted = Counter(
            (id, entry.payment)
            for id, outcome in self.outcomes.items()
            if outcome == CONFIRMED
            for entry in self.accepted[id]
        )
        found: Counter[tuple[str, str | None]] = Counter(self.tables.sales)
        for (id, payment), count in (found - wanted).items():
            self._say(id, f"{payment} is in the table of sales {count} times too often")
        for id, payment in wanted - found:
            self._say(id, f"{payment} is missing from the table of sales")

    def check_stock(self) -> None:
        """The free goods and those that confirmed orders have reserved are all the goods, line by line."""
        wanted = Counter(
            (id, line.sku, line.quantity)
            for id, order in self.orders.items()
            if self.outcomes[id] == CONFIRMED
            for line in order.lines
        )
        found = Counter(self.tables.reservations)
        for id, sku, quantity in (found - wanted) + (wanted - found):
            self._say(id, f"the reservation of {quantity} × {sku} does not fit the order, which is {self.outcomes[id]}")
        for sku, initial, free in self.tables.stock:
            reserved = sum(quantity for _, its_sku, quantity in self.tables.reservations if its_sku == sku)
            if free + reserved != initial:
                self._say(sku, f"there were {initial}; {free} are free and {reserved} reserved")

    def _say(self, about: str, problem: str) -> None:
        self.problems.append(f"{about}: {problem}")

    # ── The result ──────────────────────────────────────────────────────────────────────────────────────────────────

    def audit(self) -> Audit:
        outcomes = Counter(self.outcomes.values())
        whats = Counter(entry.what for entry in self.ledger)
        recorded = [each for each in self.executions.values() if each is not None]
        reasons = Counter(_reason(each) for each in recorded if each.head.status == FAILED)
        return Audit(
            orders=len(self.orders),
            confirmed=outcomes[CONFIRMED],
            compensated=outcomes[COMPENSATED],
            rejected=outcomes[REJECTED],
            lost=outcomes[LOST],
            reasons=dict(reasons.most_common()),
            time_outs_survived=sum(_timed_out(entry) for each in recorded for entry in each.entries),
            charges_attempted=sum(entry.key is not None for entry in self.ledger),
            charges_accepted=whats[ACCEPTED],
            repeats_recognised=whats[REPEAT],
            duplicate_charges_accepted=sum(len(entries) - 1 for entries in self.accepted.values() if entries),
            refunds=whats[REFUND],
            problems=self.problems,
        )


def _reason(recorded: Recorded) -> str:
    """The class of the error in which an order ended; for an error from outside, its name there."""
    error = recorded.record.error
    assert error is not None
    name = _class_name(error.type)
    return str(error.args[0]) if name == hf.StepFailed.__name__ and error.args else name


def _timed_out(entry: Any) -> bool:
    return isinstance(entry, (Tried, Failed)) and _class_name(entry.error.type) == StepTimeout.__name__


def _class_name(type_name: str) -> str:
    return type_name.rpartition(".")[2]
