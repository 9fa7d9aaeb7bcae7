"""Where a coroutine waits, for people: the line of their own, whatever library it waits in."""

from __future__ import annotations

import asyncio
from types import CodeType

from holdfast.replay import places
from holdfast.replay.places import user_code_of, waiting_place

HERE = "tests/replay/test_places.py"


async def waits_inside_of_a_library() -> None:
    await asyncio.Event().wait()  # the line to be named


async def calls() -> None:
    await waits_inside_of_a_library()


async def test_it_is_the_innermost_line_outside_of_pythons_own_library():
    task = asyncio.create_task(calls())
    await asyncio.sleep(0)
    line = waits_inside_of_a_library.__code__.co_firstlineno + 1
    assert waiting_place(task.get_coro()) == f"{HERE}:{line}"
    task.cancel()
    await asyncio.wait([task])


async def test_of_a_library_alone_it_is_the_librarys_line():
    task = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    assert "locks.py:" in waiting_place(task.get_coro())
    task.cancel()
    await asyncio.wait([task])


async def test_what_has_no_frame_is_nowhere():
    ended = calls()
    ended.close()
    assert waiting_place(ended) == ""
    assert waiting_place(None) == ""


async def test_it_looks_into_awaited_generators():
    async def spins() -> None:
        await asyncio.sleep(0)

    coroutine = spins()
    coroutine.send(None)
    assert waiting_place(coroutine) == f"{HERE}:{spins.__code__.co_firstlineno + 1}"
    coroutine.close()


async def test_looking_asks_for_the_frame_of_the_users_innermost_coroutine_alone(monkeypatch):
    task, asked, frame = asyncio.create_task(calls()), list[CodeType](), places._Held.frame.fget
    monkeypatch.setattr(places._Held, "frame", property(lambda held: asked.append(held.code) or frame(held)))
    await asyncio.sleep(0)
    assert waiting_place(task.get_coro())
    assert user_code_of(task.get_coro())
    assert asked == [waits_inside_of_a_library.__code__] * 2
    task.cancel()
    await asyncio.wait([task])
