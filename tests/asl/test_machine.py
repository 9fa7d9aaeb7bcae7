"""State machines end to end: what they ask for, and how they fail, retry and catch."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import msgspec
import pytest
from tests.asl.machines import app_in_virtual_time, ended, history, outcome, passing, states, task

import holdfast as hf
from holdfast.asl import jsonata
from holdfast.asl.events import recorded
from holdfast.testing import run_virtual


class Declined(Exception):
    pass


def declining(times):
    """A task that is declined so often, and then paid."""
    calls = []

    async def pay(order):
        calls.append(order)
        if len(calls) <= times:
            raise Declined("no money")
        return "paid"

    return pay


def test_a_task_is_a_step_named_by_its_state():
    def pay(order: dict) -> str:
        return f"paid {order['cents']}"

    assert history(states("Pay it", **{"Pay it": task("pay:live")}), {"cents": 5}, pay=pay) == (
        "paid 5",
        ["Pay it#0/pay#0"],
    )


def test_an_error_is_known_by_its_class_and_retried_after_growing_delays():
    retrying = task("pay", Retry=[{"ErrorEquals": ["Declined"], "IntervalSeconds": 2, "BackoffRate": 3}])
    decline, at = declining(3), []

    async def pay(order):
        at.append(asyncio.get_running_loop().time())
        return await decline(order)

    answer, names = history(states("Pay", Pay=retrying), {}, pay=pay)
    assert answer == "paid"
    assert [round(later - before) for before, later in pairwise(at)] == [2, 6, 18]
    assert names == [f"Pay#0/{kind}#{n}" for n in range(3) for kind in ("pay", "sleep")] + ["Pay#0/pay#3"]


def test_an_error_of_ones_own_has_its_name_and_cause():
    def pay(_order):
        raise hf.asl.Error("Card.Declined", "no money")

    assert outcome(states("Pay", Pay=task("pay")), pay=pay) == ("Card.Declined", "no money")


def test_a_resource_that_nothing_is_mapped_for_is_refused_by_name():
    with pytest.raises(hf.ConfigurationError, match="function:pay.*state 'Pay'"):
        app_in_virtual_time().state_machine("checkout", states("Pay", Pay=task("pay")), tasks={"refund": print})


@pytest.mark.parametrize(
    "key", ["Pay", "pay", "arn:aws:lambda:eu-west-1:123456789012:function:pay", "arn:aws:lambda:*:function:p*"]
)
def test_a_resource_is_mapped_by_its_whole_its_last_part_the_state_or_a_pattern(key):
    app = app_in_virtual_time()
    machine = app.state_machine("m", states("Pay", Pay=task("pay")), tasks={key: lambda _given: "paid"})

    async def main():
        async with app.worker():
            return await machine({})

    assert run_virtual(main) == "paid"


def test_a_failure_of_the_interpreter_names_the_state_and_its_event():
    failing = states("One", One=passing(Next="Two"), Two=passing(Parameters={"total.$": "$.price"}))
    error, cause = outcome(failing, {"cost": 7})
    assert error == "States.Runtime"
    assert cause == (
        "An error occurred while executing the state 'Two' (entered at the event id #4). The JSONPath '$.price' "
        "specified for the field 'total.$' could not be found in the input '{\"cost\":7}'"
    )


def test_a_regular_expression_without_end_fails_the_state(monkeypatch):
    monkeypatch.setattr(jsonata, "SECONDS", 0.05)
    error, cause = outcome(states("One", One=passing(InputPath="$[?(@.s =~ /(a+)+b/)]")), [{"s": "a" * 60}])
    assert error == "States.Runtime"
    assert cause.endswith(" : its regular expression takes more than 0.05 seconds")


@pytest.mark.parametrize("name", ["States.ALL", "States.Runtime", "States.TaskFailed"])
def test_nothing_catches_what_the_interpreter_cannot_evaluate(name):
    catching = task("pay", Parameters={"total.$": "$.price"}, Catch=[{"ErrorEquals": [name], "Next": "Caught"}])
    error, _ = outcome(states("Pay", Pay=catching, Caught=passing()), {}, pay=print)
    assert error == "States.Runtime"


def test_a_catcher_gets_the_error_beside_the_input_that_the_state_had():
    catching = task("pay", Catch=[{"ErrorEquals": ["States.ALL"], "Next": "Caught", "ResultPath": "$.error"}])
    assert outcome(states("Pay", Pay=catching, Caught=passing()), {"cents": 5}, pay=declining(1)) == {
        "cents": 5,
        "error": {"Error": "Declined", "Cause": "no money"},
    }


def test_the_first_catcher_that_matches_takes_the_error():
    catchers = [{"ErrorEquals": [name], "Next": "At " + name} for name in ("Other", "Declined", "States.ALL")]
    named = {each["Next"]: passing(Result=each["Next"]) for each in catchers}
    assert outcome(states("Pay", Pay=task("pay", Catch=catchers), **named), {}, pay=declining(1)) == "At Declined"


def test_each_retrier_counts_for_itself():
    errors = iter(["A", "B", "A", "B", "C"])

    def fail(_given):
        raise hf.asl.Error(next(errors), "")

    retrying = task(
        "fail",
        Retry=[{"ErrorEquals": ["A"], "MaxAttempts": 2}, {"ErrorEquals": ["B"], "MaxAttempts": 2}],
    )
    assert outcome(states("Try", Try=retrying), fail=fail) == ("C", "")


def test_a_task_that_takes_too_long_is_timed_out_and_its_silence_too():
    async def hang(_given):
        await asyncio.sleep(1_000)

    catch = [{"ErrorEquals": ["States.HeartbeatTimeout"], "Next": "Silent"}]
    catch += [{"ErrorEquals": ["States.Timeout"], "Next": "Late"}]
    ends = {"Silent": passing(Result="silent"), "Late": passing(Result="late")}
    late = task("hang", TimeoutSeconds=5, Catch=catch)
    silent = task("hang", TimeoutSeconds=50, HeartbeatSeconds=5, Catch=catch)
    assert outcome(states("Hang", Hang=late, **ends), hang=hang) == "late"
    assert outcome(states("Hang", Hang=silent, **ends), hang=hang) == "silent"


def test_a_machine_has_a_time_limit():
    app = app_in_virtual_time()
    waiting = states("Wait", Wait={"Type": "Wait", "Seconds": 60, "End": True}) | {"TimeoutSeconds": 5}
    machine = app.state_machine("m", waiting)

    async def main():
        async with app.worker():
            await machine({})

    with pytest.raises(hf.ExecutionTimedOut):
        run_virtual(main)


def test_an_execution_goes_on_with_the_definition_that_it_began_with(memory_world):
    async def main():
        first, second = memory_world.app(), memory_world.app()
        wait = {"Type": "Wait", "Seconds": 1, "Next": "Done"}
        old = first.state_machine("m", states("Wait", Wait=wait, Done=passing(Result="old")))
        new = second.state_machine("m", states("Other", Other=passing(Result="new")))
        async with first:
            handle = await old.start({}, id="m-1")
        async with second.worker():
            return await new.handle(handle.id), await new({})

    assert asyncio.run(main()) == ("old", "new")


def test_fields_keep_their_order():
    order = {"z": 1, "a": {"y": 2, "b": 3}}
    shown = passing(Parameters={"text.$": "States.JsonToString($)"})
    echo = states("Echo", Echo=task("echo", Next="Show"), Show=shown)
    assert outcome(echo, order, echo=lambda given: given) == {"text": '{"z":1,"a":{"y":2,"b":3}}'}


def test_the_context_object_tells_of_the_execution_and_the_state():
    told = outcome(states("Tell", Tell=passing(Parameters={"context.$": "$$"})), {"cart": 7})["context"]
    assert told["Execution"]["Name"] == "m-1"
    assert told["Execution"]["Input"] == {"cart": 7}
    assert told["State"] == {"Name": "Tell", "EnteredTime": told["Execution"]["StartTime"]}
    assert told["StateMachine"]["Name"] == "machine"


async def test_the_same_machine_has_the_same_result_and_history_on_each_home(world):
    app = world.app()
    fan_out = {"Type": "Map", "ItemProcessor": states("One", One=task("double")), "Next": "Pay"}
    retrying = task("pay", Retry=[{"ErrorEquals": ["Declined"], "IntervalSeconds": 1}], ResultPath="$[0]")
    machine = app.state_machine(
        "m", states("All", All=fan_out, Pay=retrying), tasks={"double": lambda n: 2 * n, "pay": declining(1)}
    )
    async with app.worker():
        handle = await machine.start([1, 2, 3], id="m-1")
        assert await ended(handle) == ["paid", 4, 6]
        names = [event.name for event in await handle.history()]
        assert sorted(names[:3]) == [f"All#0[{n}]/One#0/double#0" for n in range(3)]
        assert names[3:] == ["Pay#0/pay#0", "Pay#0/sleep#0", "Pay#0/pay#1"]


def test_events_are_told_to_who_replays(memory_world):
    with recorded() as events:
        assert outcome(states("One", One=passing())) == {}
    assert events == [], "only a replay tells them"


class Order(msgspec.Struct):
    id: str
    cents: int


async def test_a_task_is_a_step_a_workflow_or_code_of_the_body(memory_world):
    app = memory_world.app()

    @app.step
    async def price(order: Order) -> Order:
        return Order(order.id, order.cents + 1)

    @app.workflow
    async def ship(id: str, cents: int) -> str:
        await hf.sleep("1ms")
        return f"{id} for {cents}"

    class Stock(hf.Actor, app=app):
        left: int = 3

        async def take(self, count: int) -> int:
            self.left -= count
            return self.left

    async def reserve(given):
        return {"left": await Stock.at(given["sku"]).take(given["count"])}

    machine = app.state_machine(
        "m",
        states(
            "Price",
            Price=task("price", ResultPath="$.order", InputPath="$.order", Next="Reserve"),
            Reserve=task("reserve", Parameters={"sku": "lamp", "count": 2}, ResultPath="$.stock", Next="Ship"),
            Ship=task("ship", InputPath="$.order", ResultPath="$.shipped"),
        ),
        tasks={"price": price, "reserve": hf.asl.InBody(reserve), "ship": ship},
    )
    async with app.worker():
        handle = await machine.start({"order": {"id": "o-1", "cents": 5}}, id="m-1")
        answer = await handle
        names = [event.name for event in await handle.history()]
    assert names[0] == "Price#0/price#0"
    assert answer["stock"] == {"left": 1}
    assert answer["shipped"] == "o-1 for 6"


@pytest.mark.parametrize("cause", ["x" * 50_000, '"' * 50_000, "é" * 50_000])
def test_a_long_cause_is_cut_and_the_error_kept(cause):
    def pay(_given):
        raise hf.asl.Error("Card.Declined", cause)

    error, told = outcome(states("Pay", Pay=task("pay")), pay=pay)
    assert error == "Card.Declined"
    assert told.endswith("… (cut)")
    assert len(told) > 5_000


def test_what_is_too_large_for_aws_fails_only_if_its_quotas_are_kept():
    def size(compat):
        app = app_in_virtual_time()
        catch = [{"ErrorEquals": ["States.DataLimitExceeded"], "Next": "Caught"}]
        definition = states("Big", Big=task("big", Catch=catch), Caught=passing(Result="caught"))
        machine = app.state_machine("m", definition, tasks={"big": lambda _given: "x" * 300_000}, compat=compat)

        async def main():
            async with app.worker():
                return len(await machine({}))

        return run_virtual(main)

    assert (size(None), size("aws")) == (300_000, len("caught"))
