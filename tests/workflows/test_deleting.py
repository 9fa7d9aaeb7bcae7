"""Deleting an execution: one that was terminated only once its children have been cancelled, as the end promises."""

from __future__ import annotations

import pytest

import holdfast as hf


def family(app):
    @app.workflow
    async def child() -> None:
        await hf.signal("never")

    @app.workflow
    async def parent() -> None:
        await child.options(id="c")()

    return parent, child


async def test_a_terminated_parent_is_not_deleted_before_its_children_are_cancelled(world, reaches):
    app, client = world.app(), world.app()
    parent, child = family(app)
    family(client)
    async with app.worker():
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        await reaches(child.handle("c"), "SUSPENDED")
    async with client:
        gone = client.handle("parent", "p")
        await gone.terminate("enough")
        with pytest.raises(hf.InvalidState, match="no worker has cancelled the executions that it waits for yet"):
            await gone.delete()
        assert (await client.handle("child", "c").status()).status == "SUSPENDED"
    async with app.worker():
        await reaches(child.handle("c"), "CANCELLED")

        await parent.handle("p").delete()
        with pytest.raises(hf.NotFound):
            await parent.handle("p").status()


async def test_a_deletion_waits_a_moment_for_the_worker_that_tells_the_children(world, reaches):
    app = world.app()
    parent, child = family(app)
    async with app.worker():
        handle = await parent.start(id="p")
        await reaches(handle, "SUSPENDED")
        await handle.terminate()
        await handle.delete()
        await reaches(child.handle("c"), "CANCELLED")


async def test_one_that_was_terminated_before_it_began_is_deleted_at_once(world):
    app = world.app()
    parent, _ = family(app)
    async with app:
        handle = await parent.start(id="p")
        await handle.terminate()
        await handle.delete()
        with pytest.raises(hf.NotFound):
            await handle.status()
