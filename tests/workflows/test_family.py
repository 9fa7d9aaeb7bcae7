"""Parents and roots: what an execution knows of its family, and what listings tell of it."""

from __future__ import annotations

import pytest

import holdfast as hf


@pytest.fixture
def family(app):
    """Executions that tell who they, their parents and their roots are, three generations of them."""

    def me():
        info = hf.current()
        parent = None if info.parent is None else [info.parent.workflow, info.parent.id]
        return [parent, [info.root.workflow, info.root.id]]

    @app.workflow
    async def grandchild() -> list[object]:
        return me()

    @app.workflow
    async def detached() -> list[object]:
        return me()

    @app.workflow
    async def child(name: str) -> list[object]:
        return [me(), await grandchild.options(id=f"{name}-grandchild")()]

    @app.workflow
    async def parent(runs: int = 0) -> list[object]:
        if runs:
            hf.continue_as_new(runs - 1)
        handle = await detached.start(id="d")
        return [me(), await child.options(id="c")("c"), await handle]

    return parent, child, grandchild, detached


@pytest.mark.parametrize("runs", [0, 2])
async def test_bodies_know_their_parents_and_roots(app, family, runs):
    parent = family[0]
    async with app.worker():
        own, (child, grandchild), detached = await (await parent.start(runs, id="p"))
    assert own == [None, ["parent", "p"]]
    assert child == [["parent", "p"], ["parent", "p"]]
    assert grandchild == [["child", "c"], ["parent", "p"]]
    assert detached == [None, ["detached", "d"]]  # it lives on by itself


async def test_statuses_and_listings_tell_them(app, family):
    parent, child, grandchild, detached = family
    async with app.worker():
        handle = await parent.start(id="p")
        await handle
        top, below = hf.ExecutionRef("parent", "p"), hf.ExecutionRef("child", "c")
        told = {}
        for each in (handle, child.handle("c"), grandchild.handle("c-grandchild"), detached.handle("d")):
            status = await each.status()
            told[each.id] = (status.parent, status.root)
        assert told == {
            "p": (None, top),
            "c": (top, top),
            "c-grandchild": (below, top),
            "d": (None, hf.ExecutionRef("detached", "d")),
        }

        async def ids(**selection):
            return {each.id for each in (await app.executions(**selection)).executions}

        assert await ids(parent=handle) == {"c"}
        assert await ids(parent=below) == {"c-grandchild"}
        assert await ids(root=handle) == {"p", "c", "c-grandchild"}
        assert await ids(root=await handle.status(), workflow="child") == {"c"}
        assert await ids(root=below) == set()


async def test_outside_of_bodies_there_is_no_family(app):
    @app.step
    async def look() -> str:
        try:
            return str(hf.current().parent)
        except hf.InvalidInput as error:
            return str(error)

    @app.workflow
    async def job() -> str:
        return await look()

    async with app.worker():
        assert await job() == "hf.current().parent is not there in a step"


async def test_a_fork_is_at_the_top_of_its_own(app, family):
    _, child, *_ = family
    async with app.worker():
        await (await family[0].start(id="p"))
        fork = await child.handle("c").fork("f", before="grandchild#0")
        await fork
        status = await fork.status()
        assert (status.parent, status.root) == (None, hf.ExecutionRef("child", "f"))
