"""State machines end to end: what they cost, how they fail, retry, catch and branch."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.testing import PATIENT, VirtualClock, run_virtual


def app_in_virtual_time() -> hf.App:
    return hf.App("asl", home="memory://", clock=VirtualClock(), limits=PATIENT)


def machine(states, start, **more):
    return {"StartAt": start, "States": states, **more}


def outcome(app, machine, input=None):
    """What an execution answers, or the error and cause it fails with; and the names of its operations."""

    async def main():
        async with app.worker():
            handle = await machine.start(input, id="m-1")
            try:
                answer = await handle
            except hf.ExecutionFailed as failed:
                answer = (failed.__cause__.error, failed.__cause__.cause)
            return answer, [event.name for event in await handle.history()]

    return run_virtual(main)


PAY = {"Type": "Task", "Resource": "arn:aws:lambda:eu-west-1:1:function:pay:live", "End": True}


def test_a_task_is_a_step_named_by_its_state():
    app = app_in_virtual_time()

    @app.step
    def pay(order: dict) -> str:
        return f"paid {order['cents']}"

    checkout = app.state_machine("checkout", machine({"Pay it": PAY}, "Pay it"), tasks={"pay": pay})
    assert outcome(app, checkout, {"cents": 5}) == ("paid 5", ["Pay it#0/pay#0"])


def test_an_error_is_known_by_its_class_and_retried_after_growing_delays():
    app, calls = app_in_virtual_time(), []

    class Declined(Exception):
        pass

    async def pay(order: dict) -> str:
        calls.append(order)
        if len(calls) < 4:
            raise Declined("no money")
        return "paid"

    retrying = PAY | {"Retry": [{"ErrorEquals": ["Declined"], "IntervalSeconds": 2, "BackoffRate": 3}]}
    checkout = app.state_machine("checkout", machine({"Pay": retrying}, "Pay"), tasks={"pay": pay})
    answer, names = outcome(app, checkout, {"cents": 5})
    assert answer == "paid"
    assert names == [
        "Pay#0/pay#0",
        "Pay#0/sleep#0",
        "Pay#0/pay#1",
        "Pay#0/sleep#1",
        "Pay#0/pay#2",
        "Pay#0/sleep#2",
        "Pay#0/pay#3",
    ]


def test_an_error_of_ones_own_has_its_name_and_cause():
    app = app_in_virtual_time()

    def pay(_order):
        raise hf.asl.Error("Card.Declined", "no money")

    checkout = app.state_machine("checkout", machine({"Pay": PAY}, "Pay"), tasks={"pay": pay})
    assert outcome(app, checkout)[0] == ("Card.Declined", "no money")


def test_a_resource_that_nothing_is_mapped_for_is_refused_by_name():
    app = app_in_virtual_time()
    with pytest.raises(hf.ConfigurationError, match="function:pay:live.*state 'Pay'"):
        app.state_machine("checkout", machine({"Pay": PAY}, "Pay"), tasks={"refund": print})


def test_a_failure_of_the_interpreter_names_the_state_and_its_event():
    app = app_in_virtual_time()
    states = {
        "One": {"Type": "Pass", "Next": "Two"},
        "Two": {"Type": "Pass", "Parameters": {"total.$": "$.price"}, "End": True},
    }
    failing = app.state_machine("failing", machine(states, "One"))
    (error, cause), _ = outcome(app, failing, {"cost": 7})
    assert error == "States.Runtime"
    assert cause == (
        "An error occurred while executing the state 'Two' (entered at the event id #4). The JSONPath '$.price' "
        "specified for the field 'total.$' could not be found in the input '{\"cost\":7}'"
    )
