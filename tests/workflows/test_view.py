"""What is shown of an execution, and what is said of its troubles: in virtual time, from heads and journals alone."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

import pytest
from tests.workflows.waiting_shop import Shop

import holdfast as hf
from holdfast.clock import moment
from holdfast.commands import Context, perform
from holdfast.commands.execution import ListExecutions, Show
from holdfast.errors import InvalidInput
from holdfast.testing import run_virtual
from holdfast.workflows.diagnosis import diagnose
from holdfast.workflows.view import View, for_readers, meant_by


def titles(view: View) -> list[str]:
    return [each.title for each in view.troubles]


async def shown(shop: Shop, workflow: Any, id: str = "1", **options: Any) -> View:
    return await perform(Show(workflow.name, id, **options), shop.app)


async def rested(shop: Shop, body: Any, **options: Any) -> View:
    """An execution of this body, once it is suspended."""
    workflow = shop.app.workflow(body, name="order")
    async with shop.app.worker():
        await shop.rest(workflow)
        return await shown(shop, workflow, **options)


def test_a_mistyped_signal_stands_next_to_the_awaited_one():
    async def body() -> None:
        await hf.signal("approval", str)

    async def main() -> View:
        shop = Shop()
        workflow = shop.app.workflow(body, name="order")
        async with shop.app.worker():
            await shop.rest(workflow)
            await workflow.handle("1").signal("aproval", "yes")
            while not (view := await shown(shop, workflow)).untaken:
                await asyncio.sleep(0.1)
            return view

    view = run_virtual(main)
    assert [(each.name, each.meant) for each in view.untaken] == [("aproval", "approval")]
    (trouble,) = view.troubles
    assert trouble.title == "it waits for signal approval, and aproval came" and trouble.tone == "warn"
    assert trouble.line == "holdfast signal order 1 approval JSON" and trouble.commands == ("signal",)
    assert "It stands at " in trouble.text and " in body" in trouble.text


def test_a_signal_whose_name_is_like_none_is_told_as_it_is():
    assert meant_by("refund", ["approval"]) is None
    assert meant_by("approval", ["approval", "aproval"]) is None


def test_a_step_that_is_retried_says_why_and_when():
    shop = Shop()

    @shop.app.step(retry=hf.Retry(max_attempts=4, initial="1h"))
    async def charge(card: str) -> None:
        raise OSError("the bank is closed")

    async def body() -> None:
        await charge("visa")

    view = run_virtual(lambda: rested(shop, body, payloads=True))
    (trouble,) = view.troubles
    assert trouble.title.startswith("step charge is tried again in ") and "OSError: the bank is closed" in trouble.text
    assert "Next is attempt 2 of 4" in trouble.text and trouble.line == "holdfast retry order 1 --now"
    assert view.execution.waits[0].arguments == '["visa"]'


def test_arguments_are_told_only_with_payloads():
    shop = Shop()

    @shop.app.step(retry=hf.Retry(max_attempts=4, initial="1h"))
    async def charge(card: str) -> None:
        raise OSError("no")

    async def body() -> None:
        await charge("canary-4242")

    view = run_virtual(lambda: rested(shop, body))
    assert "canary-4242" not in str(view)


def test_a_callback_names_the_command_that_answers_it_and_never_its_token():
    tokens: list[str] = []

    async def body() -> None:
        callback = hf.callback(str)
        tokens.append(callback.token)
        await callback

    view = run_virtual(lambda: rested(Shop(), body))
    (trouble,) = view.troubles
    assert trouble.commands == ("callback answer",)
    assert trouble.line.startswith("holdfast callback answer order 1 ")
    assert tokens and tokens[0] not in str(view)


def test_a_child_is_told_with_what_it_waits_for():
    shop = Shop()

    @shop.app.workflow
    async def parcel() -> None:
        await hf.signal("picked", str)

    async def body() -> None:
        await parcel()

    async def main() -> View:
        workflow = shop.app.workflow(body, name="order")
        async with shop.app.worker():
            await shop.rest(workflow)
            while not (view := await shown(shop, workflow)).others[0].waits:
                await asyncio.sleep(0.1)
            return view

    view = run_virtual(main)
    (trouble,) = view.troubles
    (child,) = view.others
    assert trouble.title == "it waits for child parcel, which is SUSPENDED" and "signal picked" in trouble.text
    assert trouble.line == shlex.join(["holdfast", "show", "parcel", child.id])


def test_what_ended_it_is_said_with_the_way_back():
    shop = Shop()

    @shop.app.step(retry=hf.Retry(max_attempts=2, initial="1s"))
    async def charge() -> None:
        raise OSError("the bank is closed")

    @shop.app.workflow
    async def order() -> None:
        await charge()

    async def main() -> View:
        async with shop.app.worker():
            with pytest.raises(hf.ExecutionFailed):
                await (await order.start(id="1")).result()
            return await shown(shop, order)

    view = run_virtual(main)
    (trouble,) = view.troubles
    assert trouble.tone == "bad" and trouble.title == "FAILED: OSError: the bank is closed"
    assert "step charge#0, after 2 attempts" in trouble.text and trouble.line == "holdfast retry order 1"
    reader = for_readers(view, lambda _status: "OSError")
    assert "the bank is closed" not in str(reader) and "bank is closed" in str(view)
    assert diagnose(reader, moment(0))[0].title == "FAILED: OSError"


def test_a_step_whose_worker_stopped_is_not_said_to_run():
    async def main() -> tuple[View, View]:
        shop = Shop()

        @shop.app.step
        async def ask() -> None:
            await asyncio.sleep(3_600)

        @shop.app.workflow
        async def order() -> None:
            await ask()

        async with shop.app.worker(grace="1ms"):
            await order.start(id="1")
            await shop.told(order)
            runs = await shown(shop, order)
        async with shop.app:
            return runs, await shown(shop, order)

    runs, stopped = run_virtual(main)
    assert titles(runs) == ["step ask runs"]
    assert titles(stopped) == ["step ask was interrupted"]
    assert "during attempt 1 of 3" in stopped.troubles[0].text


def test_ids_and_names_that_look_like_options_are_none_in_a_command():
    async def body() -> None:
        await asyncio.gather(hf.signal("--json", str), hf.callback(str))

    async def main() -> View:
        shop = Shop()
        workflow = shop.app.workflow(body, name="order")
        async with shop.app.worker():
            await workflow.start(id="-x")
            await shop.told(workflow, "-x")
            return await shown(shop, workflow, "-x")

    assert {each.line for each in run_virtual(main).troubles} == {
        "holdfast signal -- order -x --json JSON",
        "holdfast callback answer --value JSON -- order -x 'callback#0'",
    }


def test_an_execution_without_a_worker_says_what_to_start():
    shop = Shop()

    @shop.app.workflow
    async def order() -> None: ...

    async def main() -> tuple[View, View]:
        async with shop.app:
            await order.start(id="1")
            early = await shown(shop, order)
            await asyncio.sleep(120)
            return early, await shown(shop, order)

    early, late = run_virtual(main)
    assert titles(early) == ["it waits for a worker"]
    assert titles(late) == ["no worker works on it"] and late.troubles[0].tone == "bad"
    assert late.troubles[0].line == "holdfast run"


@pytest.mark.parametrize(
    ("control", "title", "line"),
    [("pause", "it is paused", "holdfast resume order 1"), ("terminate", "it was terminated", None)],
)
def test_what_was_done_to_it_is_said(control, title, line):
    shop = Shop()

    @shop.app.workflow
    async def order() -> None:
        await hf.sleep("1d")

    async def main() -> View:
        async with shop.app.worker():
            await shop.rest(order)
            await getattr(order.handle("1"), control)()
            return await shown(shop, order)

    found = next(each for each in run_virtual(main).troubles if each.title == title)
    assert found.line == line


def test_executions_are_found_by_what_they_wait_for():
    shop = Shop()

    @shop.app.workflow
    async def order(name: str) -> None:
        await hf.signal(name, str)

    async def main() -> list[list[str]]:
        async with shop.app.worker():
            for name in ("approval", "payment"):
                await order.start(name, id=name)
            while not all([await shop.waits(order, name) for name in ("approval", "payment")]):
                await asyncio.sleep(0.1)
            wishes = ("signal", "signal:payment", "timer")
            pages = [await shop.app.executions(waits_for=wish) for wish in wishes]
            pages.append(await perform(ListExecutions(waits_for="signal:approval"), shop.app))
            with pytest.raises(InvalidInput, match="there are: signal, callback"):
                await ListExecutions(waits_for="a bus").perform(Context(shop.app))
            return [sorted(each.id for each in page.executions) for page in pages]

    assert run_virtual(main) == [["approval", "payment"], ["payment"], [], ["approval"]]
