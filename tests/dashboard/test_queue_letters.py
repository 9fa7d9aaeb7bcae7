"""The dead letters of queues in the dashboard: among those of the home, by the same actions."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace
from tests.dashboard.conftest import Person

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.letters import DeadLetter, Looked
from holdfast.ports import Home

CALL = '{"actor": "Till", "method": "add", "args": ["tea"]}'


class Letters:
    """Those of two queues, one of which cannot be read."""

    def __init__(self) -> None:
        self.there = {id: self._letter(id, CALL if id < "ordered:3" else "{") for id in ("ordered:1", "ordered:3")}
        self.sent: list[tuple[str, str | None]] = []

    @staticmethod
    def _letter(id: str, body: str) -> DeadLetter:
        return DeadLetter(id=id, queue="shop-ordered.fifo", is_ordered=True, group="u1", body=body, sent_at=1)

    def names(self, id: str, /) -> bool:
        return id.startswith("ordered:")

    async def look(self, _limit: int, /) -> Looked:
        return Looked(tuple(self.there.values()), ("the dead letters in other cannot be read: AccessDenied",))

    async def find(self, id: str, /) -> DeadLetter | None:
        return self.there.get(id)

    async def send_back(self, id: str, body: str | None, /) -> DeadLetter | None:
        self.sent.append((id, body))
        return self.there.pop(id, None)

    async def drop(self, id: str, /) -> DeadLetter | None:
        return self.there.pop(id, None)


async def test_letters_of_queues_are_shown_redriven_and_discarded() -> None:
    letters: Any = Letters()

    async def open_home() -> Home:
        return replace(open_memory_home(), dead_letters=letters)

    app = hf.App("shop", home=open_home)
    person = Person(app, authenticate=lambda _request: "ann")
    async with app:
        listed = await person.get("/dashboard/letters")
        rows = [row.text for row in listed.main.all("tr", **{"data-key": "ordered:1"})]
        assert len(rows) == 1
        assert "Till" in rows[0] and "add" in rows[0]
        assert "cannot be read: AccessDenied" in listed.main.text
        one = await person.get(f"/dashboard/letter?{urlencode({'id': 'ordered:1'})}")
        assert "shop-ordered.fifo" in one.main.text
        assert (await person.act(one, "dlq redrive", args='["milk"]')).status == 303
        assert letters.sent == [("ordered:1", '{"actor":"Till","method":"add","args":["milk"]}')]
        other = await person.get(f"/dashboard/letter?{urlencode({'id': 'ordered:3'})}")
        await person.confirm(await person.act(other, "dlq discard"))
        assert letters.there == {}
        assert (await person.get(f"/dashboard/letter?{urlencode({'id': 'ordered:3'})}")).status == 404
