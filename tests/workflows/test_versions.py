"""Changed code continues an old journal correctly, or blocks the execution and names both sides (G13)."""

from __future__ import annotations

import asyncio
import textwrap

import pytest

import holdfast as hf
from holdfast.workflows.record import decode_record

ONCE = hf.Retry(max_attempts=1)


@pytest.fixture
def deploy(world, ran, eventually, reaches):
    """Run one version of the body up to a signal, then let another one go on with it.

    A body is given its steps as ``do`` (a step that answers its argument), and ``go`` (the wait in its middle).
    """

    def code(app, body, **options):
        @app.step(name="do", retry=ONCE)
        async def do(what: str) -> str:
            ran[what] += 1
            return what

        @app.step(name="other", retry=ONCE)
        async def other(what: str) -> str:
            ran[f"other {what}"] += 1
            return what

        async def go() -> str:
            ran["waiting"] += 1
            return await hf.signal("go", str)

        async def job() -> list[str]:
            return await body(do, other, go)

        # Versions are digests of the source, which is the same here for every body.
        options = {"version": body.__name__} | options
        return app.workflow(name="job", **options)(job)

    async def run(old, new, **options):
        first, second = world.app(), world.app()
        before, after = code(first, old, **options), code(second, new, **options)
        async with first.worker():
            await before.start(id="j")
            await eventually(lambda: ran["waiting"])
            await asyncio.sleep(0.005)
        async with second.worker():
            handle = after.handle("j")
            await handle.signal("go", "gone")
            return await handle.result("60s")

    async def blocked(old, new, **options) -> str:
        """Why the execution is blocked by the new code. The old code goes on with it by itself, as if nothing was."""
        first, second, third = world.app(), world.app(), world.app()
        before, after, again = code(first, old, **options), code(second, new, **options), code(third, old, **options)
        async with first.worker():
            await before.start(id="j")
            await eventually(lambda: ran["waiting"])
            await reaches(before.handle("j"), "SUSPENDED")
            history = await before.handle("j").history()
        async with second.worker():
            handle = after.handle("j")
            await handle.signal("go", "gone")
            await reaches(handle, "BLOCKED")
            head = await second.runtime().home.store.get("wf#job#j")
            assert await handle.history() == history
        async with third.worker():
            assert (await again.handle("j").result("60s"))[-2:] == ["gone", "c"]
        assert (ran["a"], ran["b"], ran["c"]) == (1, 1, 1)
        return str(decode_record(head.body).blocked)

    run.code = code
    run.blocked = blocked
    return run


async def base(do, other, go):
    return [await do("a"), await do("b"), await go(), await do("c")]


# ── The compatible policy ───────────────────────────────────────────────────────────────────────────────────────────


async def test_the_same_code_goes_on(deploy, ran):
    assert await deploy(base, base) == ["a", "b", "gone", "c"]
    assert (ran["a"], ran["b"], ran["c"]) == (1, 1, 1)


async def test_a_step_added_later_on_is_run(deploy, ran):
    async def new(do, other, go):
        return [await do("a"), await do("b"), await go(), await do("c"), await do("d")]

    assert await deploy(base, new) == ["a", "b", "gone", "c", "d"]
    assert (ran["a"], ran["b"], ran["c"], ran["d"]) == (1, 1, 1, 1)


async def test_another_step_inserted_before_is_run_and_nothing_is_repeated(deploy, ran):
    async def new(do, other, go):
        return [await other("x"), await do("a"), await do("b"), await go(), await do("c")]

    assert await deploy(base, new) == ["x", "a", "b", "gone", "c"]
    assert (ran["other x"], ran["a"], ran["b"], ran["c"]) == (1, 1, 1, 1)


async def test_a_step_inserted_before_steps_that_the_body_names_itself_is_run(deploy, ran):
    """Their names are not among the app's steps, in neither version: that is no reason to miss them."""

    async def noted(what: str) -> str:
        ran[what] += 1
        return what

    async def old(do, other, go):
        named = await hf.step(noted, "b", name="charge:17")
        return [await hf.step("inline", noted, "a"), named, await go(), await do("c")]

    async def new(do, other, go):
        return [await other("x"), *await old(do, other, go)]

    assert await deploy(old, new) == ["x", "a", "b", "gone", "c"]
    assert (ran["a"], ran["b"], ran["c"], ran["other x"]) == (1, 1, 1, 1)


async def test_a_finished_step_that_was_removed_blocks(deploy, ran):
    async def new(do, other, go):
        return [await do("a"), await go(), await do("c")]

    told = await deploy.blocked(base, new)
    assert "earlier code finished or began do#1" in told
    assert "waits for a message" in told
    assert "test_versions.py:" in told
    assert 'hf.removed("do")' in told


async def test_a_step_that_is_declared_removed_is_forgotten(deploy, ran):
    async def old(do, other, go):
        return [await other("x"), await do("a"), await go()]

    async def new(do, other, go):
        hf.removed("other")
        return [await do("a"), await go()]

    assert await deploy(old, new) == ["a", "gone"]
    assert (ran["other x"], ran["a"]) == (1, 1)


async def test_a_step_that_is_declared_removed_and_called_all_the_same_blocks(deploy, ran):
    async def new(do, other, go):
        hf.removed("do")
        return [await do("a"), await do("b"), await go(), await do("c")]

    assert "do#0 was passed over" in await deploy.blocked(base, new)


async def test_moved_steps_of_different_names_keep_their_results(deploy, ran):
    async def old(do, other, go):
        return [await do("a"), await other("x"), await go()]

    async def new(do, other, go):
        return [await other("x"), await do("a"), await go()]

    assert await deploy(old, new) == ["x", "a", "gone"]
    assert (ran["other x"], ran["a"]) == (1, 1)


async def test_a_finished_step_moved_behind_the_wait_blocks(deploy, ran):
    """What is signalled now must not overtake the step that was finished before."""

    async def new(do, other, go):
        first = await do("a")
        answer = await go()
        return [first, answer, await do("b")]

    assert "do#1" in await deploy.blocked(base, new)


async def test_sequential_steps_made_concurrent_block(deploy, ran):
    """In tasks of their own they have other names, and would run again."""

    async def new(do, other, go):
        found = list(await asyncio.gather(do("a"), do("b")))
        return [*found, await go()]

    told = await deploy.blocked(base, new)
    assert "earlier code asked for do#0, and this code asks for do#0/do#0 instead" in told
    assert ran["a"] == 1


async def test_one_more_call_with_the_same_arguments_blocks(deploy, ran):
    """Nobody can tell which of the two the recorded result belongs to."""

    async def old(do, other, go):
        return ["", await do("a"), await do("b"), await go(), await do("c")]

    async def new(do, other, go):
        return [await do("a"), await do("b"), await do("b"), await go(), await do("c")]

    told = await deploy.blocked(old, new)
    assert "calls 'do' once more than earlier code did (do#2), with the arguments of do#1" in told


async def test_a_step_of_the_same_name_inserted_before_is_told_by_its_arguments(deploy, ran):
    async def new(do, other, go):
        return [await do("x"), await do("a"), await do("b"), await go()]

    told = await deploy.blocked(base, new)
    assert "do#0" in told
    assert "is called with other arguments now" in told
    assert "hf.patched" in told
    assert ran["x"] == 0


async def test_other_arguments_are_an_error_that_names_both_sides(deploy, ran):
    async def new(do, other, go):
        return [await do("a"), await do("B"), await go()]

    assert "do#1: the journal and the code disagree" in await deploy.blocked(base, new)
    assert ran["B"] == 0


async def test_a_wait_that_became_a_step_is_an_error_that_names_both_sides(world, eventually, reaches):
    first, second = world.app(), world.app()

    @first.workflow(name="task", version="1")
    async def child() -> str:
        return "child"

    @first.workflow(name="job", version="1")
    async def before() -> str:
        return await child() + await hf.signal("go", str)

    @second.step(name="task")
    async def step() -> str:
        return "step"

    @second.workflow(name="job", version="2")
    async def after() -> str:
        return await step() + await hf.signal("go", str)

    async with first.worker():
        handle = await before.start(id="j")
        await eventually(lambda: _suspended(handle))
    async with second.worker():
        await after.handle("j").signal("go", "x")
        await reaches(after.handle("j"), "BLOCKED")
        head = await second.runtime().home.store.get("wf#job#j")
        assert "task#0: the journal and the code disagree: it was a child and is now a step" in (
            decode_record(head.body).blocked
        )


async def _suspended(handle):
    return (await handle.status()).status == "SUSPENDED"


async def sleeping(do, other, go):
    first = await do("a")
    await hf.sleep("5ms")
    return [first, await do("b"), await go(), await do("c")]


async def sleeping_longer(do, other, go):
    first = await do("a")
    await hf.sleep("30d")
    return [first, await do("b"), await go(), await do("c")]


async def sleeping_before(do, other, go):
    await hf.sleep("1h")
    return await sleeping(do, other, go)


async def in_a_group(do, other, go):
    async def wait() -> None:
        await hf.sleep("5ms")

    first = await do("a")
    async with asyncio.TaskGroup() as group:
        group.create_task(wait())
    return [first, await do("b"), await go(), await do("c")]


async def longer_in_a_group(do, other, go):
    async def wait() -> None:
        await hf.sleep("1h")

    first = await do("a")
    async with asyncio.TaskGroup() as group:
        group.create_task(wait())
    return [first, await do("b"), await go(), await do("c")]


@pytest.mark.parametrize(
    ("old", "new", "lasts"),
    [
        (sleeping, sleeping_longer, "lasted 5 ms and now lasts 2592000000 ms"),
        (sleeping, sleeping_before, "lasted 5 ms and now lasts 3600000 ms"),
        (in_a_group, longer_in_a_group, "lasted 5 ms and now lasts 3600000 ms"),
    ],
)
async def test_a_sleep_that_is_over_is_not_taken_for_one_of_another_length(deploy, old, new, lasts):
    assert lasts in await deploy.blocked(old, new)


async def test_a_sleep_that_is_over_stays_over_for_code_that_changed_elsewhere(deploy, ran):
    async def one_more(do, other, go):
        return [*await sleeping(do, other, go), await do("d")]

    assert await deploy(sleeping, one_more) == ["a", "b", "gone", "c", "d"]
    assert ran["a"] == 1


async def test_catching_the_error_does_not_help_the_body_along(deploy, ran):
    """An execution whose code disagrees with its journal stops, whatever its handlers say. Silently wrong is worse."""

    async def new(do, other, go):
        try:
            first = await do("A")
        except Exception:
            first = "swallowed"
        return [first, await other("after"), await go()]

    await deploy.blocked(base, new)
    assert ran["other after"] == 0


async def test_what_newer_code_has_finished_blocks_older_code_again(world, deploy, ran, eventually, reaches):
    """Both are code that changes under an execution: that the first one began it makes no difference."""

    async def old(do, other, go):
        return [await do("a"), await go(), await go(), await do("c")]

    async def new(do, other, go):
        return [await do("a"), await other("x"), await go(), await go(), await do("c")]

    async def old_again(do, other, go):
        hf.removed("other")
        return [await do("a"), await go(), await go(), await do("c")]

    first, second, third, fourth = world.app(), world.app(), world.app(), world.app()
    one, two = deploy.code(first, old), deploy.code(second, new)
    three, four = deploy.code(third, old), deploy.code(fourth, old_again)
    async with first.worker():
        await one.start(id="j")
        await eventually(lambda: ran["waiting"] == 1)
        await reaches(one.handle("j"), "SUSPENDED")
    async with second.worker():
        await two.handle("j").signal("go", "1")
        await eventually(lambda: ran["other x"])
        await reaches(two.handle("j"), "SUSPENDED")
    async with third.worker():
        await three.handle("j").signal("go", "2")
        await reaches(three.handle("j"), "BLOCKED")
    async with fourth.worker():
        assert await four.handle("j").result("60s") == ["a", "1", "2", "c"]


# ── Strict replay ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def why_blocked(world, deploy, ran, reaches):
    """Why the very code that began an execution cannot replay it."""

    async def why(body) -> str:
        first, second = world.app(), world.app()
        before, after = deploy.code(first, body), deploy.code(second, body)
        async with first.worker():
            await before.start(id="j")
            await reaches(before.handle("j"), "SUSPENDED")
        async with second.worker():
            await after.handle("j").signal("go", "gone")
            await reaches(after.handle("j"), "BLOCKED")
            head = await second.runtime().home.store.get("wf#job#j")
            return str(decode_record(head.body).blocked)

    return why


async def test_the_same_code_on_another_path_is_blocked_and_told_where_to_look(why_blocked):
    turns = iter([True, False])

    async def moody(do, other, go):
        first = await do("a") if next(turns, False) else await other("a")
        return [first, await go()]

    told = await why_blocked(moody)
    assert "the journal says that do#0 (step) came next" in told
    assert "the code now waits for other#0" in told
    assert "hf.random()" in told


async def test_a_body_that_ends_too_early_on_replay_is_blocked(why_blocked):
    turns = iter([True, False])

    async def moody(do, other, go):
        if next(turns, False):
            return [await do("a"), await go()]
        return []

    told = await why_blocked(moody)
    assert "do#0" in told
    assert "nothing and has ended" in told


async def test_chance_taken_from_outside_is_caught(why_blocked):
    import random  # the module whose use is the mistake

    async def moody(do, other, go):
        return [await do(str(random.random())), await go()]

    assert "is called with other arguments now" in await why_blocked(moody)


# ── patched ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_patch_is_off_for_executions_that_have_passed_and_on_for_new_ones(world, deploy, ran, eventually):
    async def new(do, other, go):
        first = await do("A") if hf.patched("capital") else await do("a")
        return [first, await do("b"), await go(), await do("c")]

    assert await deploy(base, new) == ["a", "b", "gone", "c"]
    app = world.app("later")
    job = deploy.code(app, new)
    async with app.worker():
        handle = await job.start(id="j-2")
        await handle.signal("go", "x")
        assert await handle.result("60s") == ["A", "b", "x", "c"]


async def test_a_patch_is_on_for_executions_that_have_not_reached_it_yet(deploy, ran):
    async def new(do, other, go):
        found = [await do("a"), await do("b"), await go()]
        return [*found, await do("C") if hf.patched("capital") else await do("c")]

    assert await deploy(base, new) == ["a", "b", "gone", "C"]


async def test_a_patch_keeps_its_answer_over_replays(world, deploy, ran):
    async def patched(do, other, go):
        answers = []
        for n in range(4):
            answers.append(str(hf.patched("it")))
            await do(f"{n}")
            await hf.sleep("1ms")
        return answers

    app = world.app()
    job = deploy.code(app, patched)
    async with app.worker():
        handle = await job.start(id="j")
        assert await handle.result("60s") == ["True"] * 4
        assert [event.outcome for event in await handle.history() if event.kind == "patch"] == ["marked"]


async def test_a_patch_can_be_dropped_when_nothing_old_is_left(deploy, ran):
    async def with_patch(do, other, go):
        first = await do("A") if hf.patched("capital") else await do("a")
        return [first, await go()]

    async def without(do, other, go):
        return [await do("A"), await go()]

    assert await deploy(with_patch, without) == ["A", "gone"]


# ── Pinned ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_pinned_execution_waits_for_its_own_code_and_is_reported(world, deploy, ran, eventually, reaches):
    async def new(do, other, go):
        return ["new", await go()]

    with pytest.raises(hf.WaitTimeout):
        first, second = world.app(), world.app()
        blocked = []
        second.telemetry.subscribe(lambda event, fields: blocked.append(fields) if event == "blocked" else None)
        before = deploy.code(first, base, versions="pinned")
        after = deploy.code(second, new, versions="pinned")
        async with first.worker():
            await before.start(id="j")
            await eventually(lambda: ran["waiting"])
        async with second.worker():
            await after.handle("j").signal("go", "gone")
            await reaches(after.handle("j"), "BLOCKED")
            assert "is pinned to version base; this worker has new" in str(blocked[0])
            await after.handle("j").result("10ms")
    third = world.app()
    again = deploy.code(third, base, versions="pinned")
    async with third.worker():
        await again.handle("j").resume()
        assert await again.handle("j").result("60s") == ["a", "b", "gone", "c"]


async def test_a_pinned_execution_can_be_moved_to_other_code(world, deploy, ran, eventually, reaches):
    async def new(do, other, go):
        return [await do("a"), await do("b"), await go(), await do("d")]

    first, second = world.app(), world.app()
    before, after = deploy.code(first, base, versions="pinned"), deploy.code(second, new, versions="pinned")
    async with first.worker():
        handle = await before.start(id="j")
        await reaches(handle, "SUSPENDED")
    async with second.worker():
        handle = after.handle("j")
        await handle.signal("go", "gone")
        await reaches(handle, "BLOCKED")
        for _ in range(2):
            await handle.move()
        assert await handle.result("60s") == ["a", "b", "gone", "d"]
        assert (await handle.status()).version == "new"
        with pytest.raises(hf.InvalidState, match="COMPLETED"):
            await handle.move()
    assert (ran["a"], ran["b"], ran["c"], ran["d"]) == (1, 1, 0, 1)


async def test_a_pinned_execution_that_was_moved_is_told_where_code_and_journal_disagree(
    world, deploy, ran, eventually, reaches
):
    async def new(do, other, go):
        return [await do("A"), await go()]

    first, second = world.app(), world.app()
    before, after = deploy.code(first, base, versions="pinned"), deploy.code(second, new, versions="pinned")
    async with first.worker():
        handle = await before.start(id="j")
        await reaches(handle, "SUSPENDED")
    async with second.worker():
        handle = after.handle("j")
        await handle.move()
        await eventually(lambda: _why_blocked(second, "do#0"))
    assert ran["A"] == 0


async def _why_blocked(app, told):
    head = await app.runtime().home.store.get("wf#job#j")
    return head.status == "BLOCKED" and told in decode_record(head.body).blocked


async def test_one_that_is_paused_is_moved_and_stays_paused(world, deploy, ran, reaches):
    async def new(do, other, go):
        return [await do("a"), await do("b"), await go()]

    first, second = world.app(), world.app()
    before, after = deploy.code(first, base, versions="pinned"), deploy.code(second, new, versions="pinned")
    async with first.worker():
        handle = await before.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.pause()
    async with second.worker():
        handle = after.handle("j")
        await handle.move()
        assert (await handle.status()).status == "PAUSED"
        await handle.signal("go", "gone")
        await handle.resume()
        assert await handle.result("60s") == ["a", "b", "gone"]


async def test_a_next_run_of_one_that_was_moved_is_pinned_to_the_code_that_began_it(world, reaches):
    def release(version):
        app = world.app()

        @app.workflow(name="rounds", version=version, versions="pinned")
        async def rounds(left: int) -> str:
            await hf.signal("go")
            if left:
                hf.continue_as_new(left - 1)
            return version

        return app, rounds

    first, rounds = release("1")
    async with first.worker():
        handle = await rounds.start(1, id="j")
        await reaches(handle, "SUSPENDED")
    second, rounds = release("2")
    async with second.worker():
        handle = rounds.handle("j")
        await handle.move()
        await handle.signal("go")
        await handle.signal("go")
        assert await handle.result("60s") == "2"
        status = await handle.status()
        assert (status.run, status.version) == (1, "2")


async def test_a_compatible_execution_need_not_be_moved(app):
    @app.workflow
    async def job() -> None:
        await hf.signal("go")

    async with app:
        handle = await job.start(id="j")
        with pytest.raises(hf.InvalidState, match="not pinned"):
            await handle.move()


async def test_new_executions_of_a_pinned_workflow_take_the_new_code(world, deploy, ran):
    async def new(do, other, go):
        return ["new"]

    app = world.app()
    job = deploy.code(app, new, versions="pinned")
    async with app.worker():
        assert await job() == ["new"]


async def test_a_policy_that_is_none_is_refused(app):
    async def job() -> None: ...

    with pytest.raises(hf.HoldfastError, match="compatible"):
        app.workflow(versions="strict")(job)


# ── What counts as other code ───────────────────────────────────────────────────────────────────────────────────────


def version_of(app, tmp_path, source):
    """The version of a workflow that is written so."""
    path = tmp_path / f"code_{len(list(tmp_path.iterdir()))}.py"
    path.write_text("import holdfast as hf\n" + textwrap.dedent(source))
    names: dict[str, object] = {"app": app}
    exec(compile(path.read_text(), str(path), "exec"), names)  # noqa: S102 - it was written just above
    return names["job"].version  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "other",
    [
        "@app.workflow\nasync def job() -> int:\n    return 1  # a comment",
        "@app.workflow\nasync def job() -> int:\n\n    return (1)",
        '@app.workflow\nasync def job() -> int:\n    """A docstring."""\n    return 1',
        "@app.workflow(timeout='1h')\nasync def job() -> int:\n    return 1",
    ],
)
async def test_comments_layout_docstrings_and_decorators_are_no_other_code(memory_world, tmp_path, other):
    plain = "@app.workflow\nasync def job() -> int:\n    return 1"
    assert version_of(memory_world.app(), tmp_path, plain) == version_of(memory_world.app(), tmp_path, other)


async def test_another_body_is_other_code(memory_world, tmp_path):
    one = "@app.workflow\nasync def job() -> int:\n    return 1"
    two = "@app.workflow\nasync def job() -> int:\n    return 2"
    assert version_of(memory_world.app(), tmp_path, one) != version_of(memory_world.app(), tmp_path, two)


async def test_an_explicit_version_is_kept(app):
    @app.workflow(version="2026-01")
    async def job() -> None: ...

    async with app.worker():
        handle = await job.start(id="j")
        await handle
        assert (await handle.status()).version == "2026-01"


async def test_parameters_added_with_defaults_read_old_input(world):
    first, second = world.app(), world.app()

    @first.workflow(name="job", version="1")
    async def before(a: int) -> list[int]:
        return [a]

    @second.workflow(name="job", version="2")
    async def after(a: int, b: int = 7) -> list[int]:
        return [a, b]

    async with first:
        await before.start(1, id="j")
    async with second.worker():
        assert await after.handle("j").result("60s") == [1, 7]


async def test_input_the_new_code_cannot_read_blocks_until_code_comes_that_can(world, eventually):
    first, second, third = world.app(), world.app(), world.app()

    @first.workflow(name="job", version="1")
    async def before(a: int, b: int) -> int:
        return a + b

    @second.workflow(name="job", version="2")
    async def after(a: int) -> int:
        return a

    @third.workflow(name="job", version="3")
    async def mended(a: int, b: int) -> int:
        return a * b

    async with first:
        await before.start(2, 5, id="j")
    async with second.worker():
        await eventually(lambda: _why_blocked(second, "does not fit its parameters"))
    async with third.worker():
        assert await mended.handle("j").result("60s") == 10
