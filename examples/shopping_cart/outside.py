"""The world outside: a payment service and a post office, fakes that keep their own books in a file of their own.

Both do what real ones do for their callers: under one key they act once, and answer a repeat as they did before. They
also write down each request, so that one can see afterwards how often they were asked.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from examples.shopping_cart.shop import Refused, app

BOOKS_VARIABLE = "SHOPPING_CART_OUTSIDE"

TABLES = """
CREATE TABLE IF NOT EXISTS requests (what TEXT NOT NULL, key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, card TEXT, cents INTEGER, status TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS letters (key TEXT PRIMARY KEY, recipient TEXT NOT NULL, text TEXT NOT NULL);
"""


class Outside:
    """Both services. Every method blocks, and may be called by any thread."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        with closing(sqlite3.connect(path)) as books:
            books.executescript(TABLES)

    def charge(self, key: str, card: str, cents: int) -> str:
        """Take the money, and answer the payment's number. Raises ``Refused`` if the card has none, or the key is void.

        Cards that begin with ``declined`` have none.
        """
        first = (0, "declined") if card.startswith("declined") else (cents, "charged")
        with self._books("charge", key) as books:
            books.execute("INSERT INTO payments VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", (key, card, *first))
            ((status,),) = books.execute("SELECT status FROM payments WHERE key = ?", (key,))
        if status != "charged":
            raise Refused("the card was declined" if status == "declined" else "this payment was called off")
        return f"payment-{key}"

    def void(self, key: str) -> None:
        """Give back what was paid under this key, and take nothing under it any more, however late it comes."""
        with self._books("void", key) as books:
            books.execute(
                "INSERT INTO payments VALUES (?, NULL, 0, 'void')"
                " ON CONFLICT (key) DO UPDATE SET status = 'refunded' WHERE status = 'charged'",
                (key,),
            )

    def post(self, key: str, recipient: str, text: str) -> None:
        """Send a letter."""
        with self._books("post", key) as books:
            books.execute("INSERT INTO letters VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (key, recipient, text))

    def payments(self) -> dict[str, tuple[int, str]]:
        """By key: how many cents, and whether they are charged, declined, refunded or void."""
        with closing(sqlite3.connect(self._path)) as books:
            return {key: (cents, status) for key, _, cents, status in books.execute("SELECT * FROM payments")}

    def letters(self) -> dict[str, str]:
        """By key: what was written."""
        with closing(sqlite3.connect(self._path)) as books:
            return {key: text for key, _, text in books.execute("SELECT * FROM letters")}

    def requests(self, what: str) -> list[str]:
        """The keys of all requests of a kind, repeats included."""
        with closing(sqlite3.connect(self._path)) as books:
            return [key for (key,) in books.execute("SELECT key FROM requests WHERE what = ?", (what,))]

    @contextmanager
    def _books(self, what: str, key: str) -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as books:
            books.execute("INSERT INTO requests VALUES (?, ?)", (what, key))
            books.execute("BEGIN IMMEDIATE")
            try:
                yield books
            except BaseException:
                books.execute("ROLLBACK")
                raise
            books.execute("COMMIT")


@app.resource
async def outside() -> AsyncGenerator[Outside]:
    """Both services, opened once by each process."""
    yield Outside(Path(os.environ.get(BOOKS_VARIABLE) or ".holdfast/outside.db"))
