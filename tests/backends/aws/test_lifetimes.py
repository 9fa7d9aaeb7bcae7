"""Every kind of item has an end, or a reason to stay: the table of docs/aws.md names all that the code has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.aws.layout import encode
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Item
from holdfast.patterns.lease_list import KINDS
from holdfast.ports import LATE_MS

ROOT = Path(__file__).parents[3]
KEY = re.compile(r"[a-z]+#([a-z]+#)?")


@cache
def kinds_in_code() -> dict[str, str]:
    """What the keys of items begin with, by every constant text that looks like it; and where it is."""
    found = {f"{kind}#": "patterns/lease_list.py" for kind in KINDS}
    for path in sorted((ROOT / "src" / "holdfast").rglob("*.py")):
        if "testing" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value):
                    found[node.value.partition("#")[0] + "#"] = str(path)
    return found


def rows() -> list[tuple[str, str]]:
    """The kinds of items and their ends, by the page."""
    page = (ROOT / "docs" / "aws.md").read_text()
    section = page.partition("## How everything ends")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(line[0].strip(), line[-1].strip()) for line in lines[1:] if len(line) == 3] or pytest.fail("no table")


def test_the_page_tells_how_each_kind_of_item_ends():
    told = {word for kinds, _ in rows() for word in re.findall(r"[a-z]+#", kinds)}
    assert len(told) > 25
    missing = {kind: where for kind, where in kinds_in_code().items() if kind not in told}
    assert not missing, "say in docs/aws.md how these end, or why they stay"
    assert told <= kinds_in_code().keys(), "there are none of these any more"
    assert all(len(end) >= 5 for _, end in rows())


def test_a_kind_that_is_not_on_the_page_is_noticed():
    assert {"wf#", "j#", "lease#", "session#", "home#"} <= kinds_in_code().keys()
    assert any("retention" in end for kinds, end in rows() if "wf#" in kinds)


async def test_what_ends_by_ttl_has_one():
    data = MemoryData()

    async def open_home():
        return replace(open_memory_home(data=data), heads_go_first=True)

    app = hf.App("shop", home=open_home)
    sessions = app.session("web", idle="1h", lifetime="2h")

    @app.workflow(retention="30d")
    async def brief() -> None: ...

    @app.idempotent(key="order")
    async def pay(order: str) -> str:
        return order

    class Till(hf.Actor, app=app):
        async def add(self) -> int:
            return 1

    async with app.worker():
        await (await brief.start(id="b"))
        await pay("o-1")
        await Till.at("t", request_id="r-1").add()
        await sessions.start({"user": "u"})
        await app.blobs.put(b"bytes", keep="1h")
    ending = [item for entity in data.partitions.values() for item in entity.values() if item.expires_at is not None]
    kinds = {(item.partition.partition("#")[0], item.sort[:2]) for item in ending}
    assert {("wf", HEAD), ("actor", "r#"), ("session", "s"), ("blob", HEAD)} <= kinds
    assert "key" in {kind for kind, _ in kinds}
    for item in ending:
        late_ms = LATE_MS if item.sort == HEAD else 0
        assert 0 <= int(encode(item, b"")["x"]["N"]) * 1000 - item.expires_at - late_ms < 1000


def test_what_does_not_expire_has_no_ttl():
    assert "x" not in encode(Item("wf#a#1"), b"")
    assert "x" not in encode(Item("wf#a#1", "j#0"), b"")
