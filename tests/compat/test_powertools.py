"""Powertools' own decorators on our persistence layer: what they do, and what their own layers let happen."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyKeyError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)

import holdfast as hf
from holdfast.clock import SystemClock
from holdfast.compat.powertools import HoldfastPersistence
from holdfast.coordination import idempotency


class Shifted:
    """The machine's clock, as far ahead as a test says."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.ahead_ms


class Context:
    function_name = "shop"
    memory_limit_in_mb = 128
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:shop"
    aws_request_id = "r-1"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


@pytest.fixture
def clock():
    return Shifted()


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path, clock):
    home = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/home.db"
    app = hf.App("shop", home=home, clock=clock)
    bridge = app.sync().open()
    app.ask = bridge
    yield app
    bridge.close()


def config(**options):
    return IdempotencyConfig(event_key_jmespath="order_id", **options)


def handler_on(app, function, *, persistence=None, **options):
    store = persistence or HoldfastPersistence(app)
    return idempotent(persistence_store=store, config=config(**options))(function)


def test_a_repeat_gets_the_recorded_response(app):
    runs = []

    def handler(event, context):
        runs.append(event)
        return {"run": len(runs)}

    guarded = handler_on(app, handler)
    first = guarded({"order_id": "17", "sent_at": 1}, Context())
    assert guarded({"order_id": "17", "sent_at": 2}, Context()) == first == {"run": 1}
    assert guarded({"order_id": "18"}, Context()) == {"run": 2}


def test_their_cache_hook_and_validation_work(app):
    runs = []

    def handler(event, context):
        runs.append(event)
        return {"run": len(runs)}

    guarded = handler_on(
        app,
        handler,
        use_local_cache=True,
        payload_validation_jmespath="cents",
        response_hook=lambda response, record: {**response, "status": record.status},
    )
    event = {"order_id": "17", "cents": 1}
    assert [guarded(event, Context()) for _ in range(2)] == [{"run": 1}, {"run": 1, "status": "COMPLETED"}]
    with pytest.raises(IdempotencyValidationError):
        guarded({"order_id": "17", "cents": 2}, Context())
    uncached = handler_on(app, handler, payload_validation_jmespath="cents")
    with pytest.raises(IdempotencyValidationError):
        uncached({"order_id": "17", "cents": 2}, Context())
    assert len(runs) == 1


def test_a_key_can_be_required(app):
    guarded = handler_on(app, lambda event, context: None, raise_on_no_idempotency_key=True)
    with pytest.raises(IdempotencyKeyError):
        guarded({}, Context())


def test_a_failure_frees_the_key_at_once(app):
    runs = []

    def handler(event, context):
        runs.append(event)
        if len(runs) == 1:
            raise OSError("the line is dead")
        return {"run": len(runs)}

    guarded = handler_on(app, handler)
    with pytest.raises(OSError, match="dead"):
        guarded({"order_id": "17"}, Context())
    assert [guarded({"order_id": "17"}, Context()) for _ in range(2)] == [{"run": 2}] * 2


def test_a_second_invocation_is_told_that_the_first_is_at_work(app):
    def handler(event, context):
        if event.get("inner"):
            return {}
        with pytest.raises(IdempotencyAlreadyInProgressError):
            guarded({"order_id": "17", "inner": True}, Context())
        return {"done": True}

    guarded = handler_on(app, handler)
    assert guarded({"order_id": "17"}, Context()) == {"done": True}


def overtaken(app, clock, end):
    """A handler that is overtaken while it works: a second invocation begins when its time is over. What both did."""
    runs, heirs = [], []

    def handler(event, context):
        runs.append(event)
        if len(runs) > 1:
            return {"run": len(runs)}
        clock.ahead_ms += 40_000
        # Another invocation, which shares nothing with this one but the store object.
        thread = threading.Thread(target=lambda: heirs.append(guarded(event, context)))
        thread.start()
        thread.join()
        return end()

    guarded = handler_on(app, handler)
    return guarded, heirs, runs


def test_a_zombie_that_finishes_overwrites_nothing(app, clock):
    guarded, heirs, runs = overtaken(app, clock, lambda: {"run": "late"})
    with pytest.raises(IdempotencyPersistenceLayerError) as caught:
        guarded({"order_id": "17"}, Context())
    assert isinstance(caught.value.__cause__, hf.LeaseLost)
    assert guarded({"order_id": "17"}, Context()) == heirs[0] == {"run": 2}
    assert len(runs) == 2


def test_a_zombie_that_fails_deletes_nothing(app, clock):
    def end():
        raise OSError("late")

    guarded, heirs, runs = overtaken(app, clock, end)
    with pytest.raises(OSError, match="late"):
        guarded({"order_id": "17"}, Context())
    assert guarded({"order_id": "17"}, Context()) == heirs[0] == {"run": 2}
    assert len(runs) == 2


def test_a_key_whose_functions_die_is_parked(app, clock):
    def handler(event, context):
        raise KeyboardInterrupt  # as good as dead: Powertools leaves the record as it is

    guarded = handler_on(app, handler)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            guarded({"order_id": "17"}, Context())
        clock.ahead_ms += 40_000
    with pytest.raises(IdempotencyPersistenceLayerError) as caught:
        guarded({"order_id": "17"}, Context())
    assert isinstance(caught.value.__cause__, hf.KeyParked)


def test_one_store_object_serves_functions_that_call_each_other(app):
    store, runs = HoldfastPersistence(app), []

    @idempotent_function(persistence_store=store, config=with_context(), data_keyword_argument="order")
    def charge(order):
        runs.append("charge")
        return {"charged": order["order_id"]}

    @idempotent_function(persistence_store=store, config=with_context(), data_keyword_argument="order")
    def refund(order):
        runs.append("refund")
        return {"refunded": order["order_id"], **charge(order=order)}

    for _ in range(2):
        assert refund(order={"order_id": "17"}) == {"refunded": "17", "charged": "17"}
        assert charge(order={"order_id": "17"}) == {"charged": "17"}
    assert runs == ["refund", "charge"]


def test_one_store_object_serves_functions_in_threads(app):
    """Each begins before the other ends, in any order: neither gets the other's result, or ends under its key."""
    store, runs = HoldfastPersistence(app), []
    both_run = threading.Barrier(2)

    def function(name, key):
        def run(event):
            runs.append(name)
            both_run.wait(5)
            return {name: event[key]}

        run.__qualname__ = name
        settings = IdempotencyConfig(event_key_jmespath=key, lambda_context=Context())
        return idempotent_function(persistence_store=store, config=settings, data_keyword_argument="event")(run)

    charge, refund = function("charge", "order_id"), function("refund", "bill_id")
    event = {"order_id": "17", "bill_id": "b-3"}

    def at_once():
        with ThreadPoolExecutor(2) as pool:
            return [each.result(10) for each in [pool.submit(called, event=event) for called in (charge, refund)]]

    assert at_once() == at_once() == [{"charge": "17"}, {"refund": "b-3"}]
    assert sorted(runs) == ["charge", "refund"]


def test_many_functions_and_threads_on_one_store_object_keep_their_results_apart(app):
    store, runs = HoldfastPersistence(app), Counter()
    settings = with_context()

    def function(name):
        def run(order):
            runs[name, order["order_id"]] += 1
            return {name: order["order_id"]}

        run.__qualname__ = name
        return idempotent_function(persistence_store=store, config=settings, data_keyword_argument="order")(run)

    functions = {name: function(name) for name in ("charge", "refund", "ship")}
    calls = [(name, str(number)) for number in range(10) for name in functions] * 2

    def called(name, id):
        with suppress(IdempotencyAlreadyInProgressError):
            assert functions[name](order={"order_id": id}) == {name: id}

    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(called, *call) for call in calls]:
            each.result(20)
    assert runs == dict.fromkeys(calls, 1)


def with_context():
    found = config()
    found.register_lambda_context(Context())
    return found


def test_without_a_context_the_key_is_held_for_the_lease(app, clock):
    runs = []
    store = HoldfastPersistence(app, lease="5m")

    @idempotent_function(persistence_store=store, config=config(), data_keyword_argument="order")
    def charge(order):
        runs.append(order)
        if len(runs) == 1:
            raise KeyboardInterrupt
        return {"run": len(runs)}

    def call():
        with pytest.warns(UserWarning, match="register_lambda_context"):
            return charge(order={"order_id": "17"})

    with pytest.raises(KeyboardInterrupt):
        call()
    clock.ahead_ms += 290_000
    with pytest.raises(IdempotencyAlreadyInProgressError):
        call()
    clock.ahead_ms += 15_000
    assert call() == {"run": 2}


def test_their_reading_of_a_record_is_served(app):
    store = HoldfastPersistence(app)
    guarded = handler_on(app, lambda event, context: {"paid": 1}, persistence=store)
    guarded({"order_id": "17"}, Context())
    found = store.get_record({"order_id": "17"})
    assert (found.status, found.response_json_as_dict()) == ("COMPLETED", {"paid": 1})
    place = store._called.get()._place(found)
    assert app.ask(idempotency.look(app.runtime(), place)) is not None
