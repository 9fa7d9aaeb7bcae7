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


async def test_a_terminated_parent_is_not_deleted_before_its_children_are_cancelled(world, reaches, eventually):
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
        with pytest.raises(hf.InvalidState, match="no worker has released its children yet"):
            await gone.delete()
        assert (await client.handle("child", "c").status()).status == "SUSPENDED"
    async with app.worker():
        await reaches(child.handle("c"), "CANCELLED")

        async def deleted():
            try:
                await parent.handle("p").delete()
            except hf.InvalidState:
                return False  # the worker is about to note that it has told the child
            return True

        await eventually(deleted)
        with pytest.raises(hf.NotFound):
            await parent.handle("p").status()


async def test_one_that_was_terminated_before_it_began_is_deleted_at_once(world):
    app = world.app()
    parent, _ = family(app)
    async with app:
        handle = await parent.start(id="p")
        await handle.terminate()
        await handle.delete()
        with pytest.raises(hf.NotFound):
            await handle.status()
