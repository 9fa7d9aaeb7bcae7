"""Starting with typed arguments. Each line marked ``wrong`` is a mistake that both checkers find."""

from __future__ import annotations

import holdfast as hf
from typing_extensions import assert_type

app = hf.App("shop")


@app.workflow
async def none() -> int:
    return 1


@app.workflow
async def two(order: str, n: int) -> int:
    return n


@app.workflow
async def optional(order: str | None, n: int = 1) -> list[str]:
    return []


@app.workflow
async def keywords(order: str, *, n: int = 1) -> int:
    return n


@app.workflow
async def many(*orders: str) -> int:
    return 1


@app.workflow
async def six(a: int, b: str, c: int, d: str, e: int, f: str) -> int:
    return a


async def main() -> None:
    assert_type(await none.start(), hf.Handle[int])
    assert_type(await none.start(id="x"), hf.Handle[int])
    assert_type(await two.start("o", 1), hf.Handle[int])
    assert_type(await two.start("o", 1, id="x", tags={"a": "b"}, timeout="5m"), hf.Handle[int])
    assert_type(await two.start(order="o", n=1), hf.Handle[int])
    assert_type(await two.start(order="o", n=1, id="x"), hf.Handle[int])
    assert_type(await optional.start(None, id="x"), hf.Handle[list[str]])
    assert_type(await optional.start("o", 2, timeout=5), hf.Handle[list[str]])
    assert_type(await keywords.start("o", id="x"), hf.Handle[int])
    assert_type(await keywords.start("o", n=3), hf.Handle[int])
    assert_type(await many.start("a", "b", "c", id="x"), hf.Handle[int])
    assert_type(await six.start(1, "b", 3, "d", 5, "f", id="x"), hf.Handle[int])
    await none.start(1)  # wrong
    await none.start(1, id="x")  # wrong
    await two.start("o")  # wrong
    await two.start("o", id="x")  # wrong
    await two.start("o", "1")  # wrong
    await two.start("o", "1", id="x")  # wrong
    await two.start("o", 1, 2, id="x")  # wrong
    await two.start("o", 1, id=7)  # wrong
    await two.start("o", 1, tags=["x"])  # wrong
    await two.start("o", 1, id="x", timeout=[])  # wrong
    await optional.start(7, id="x")  # wrong
    await many.start("a", 2, id="x")  # wrong
    await six.start(1, "b", 3, "d", 5, 6, id="x")  # wrong
    await two.start("o", n=1, id="x")  # wrong
