"""Changing executions from the command line."""

from __future__ import annotations

import pytest

import holdfast as hf


@pytest.fixture
def waiting(shop, worker):
    """An execution that waits for a signal."""
    shop.json("start", "approval", "7", "--id", "a")
    return shop


def status_of(shop, workflow="approval", id="a"):
    return shop.json("show", workflow, id)["execution"]["status"]


def test_a_signal_is_sent(waiting):
    answer = waiting.json("signal", "approval", "a", "decision", '"yes"')
    assert answer == {"workflow": "approval", "id": "a", "action": "signal"}
    assert waiting.json("result", "approval", "a")["result"] == "yes: 7"


def test_a_repeated_signal_is_dropped(shop):
    shop.invoke("start", "approval", "7", "--id", "a")
    for _ in range(2):
        shop.json("signal", "approval", "a", "decision", '"yes"', "--signal-id", "once")


def test_the_name_of_a_signal_is_printable(shop):
    shop.invoke("start", "approval", "7", "--id", "a")
    assert shop.refusal("signal", "approval", "a", "a\x9b\u202e", '"yes"')["code"] == "invalid_input"


def test_nothing_can_be_sent_to_what_has_ended(waiting):
    waiting.json("terminate", "approval", "a")
    assert waiting.refusal("signal", "approval", "a", "decision", '"yes"')["code"] == "invalid_state"
    assert waiting.refusal("signal", "approval", "nobody", "decision")["code"] == "not_found"


def test_cancelling_lets_it_clean_up(waiting):
    waiting.json("cancel", "approval", "a", "--reason", "changed her mind")
    assert "changed her mind" in waiting.refusal("result", "approval", "a")["message"]
    assert status_of(waiting) == "CANCELLED"


def test_terminating_ends_it_at_once(waiting):
    waiting.json("terminate", "approval", "a", "--reason", "a duplicate")
    assert status_of(waiting) == "TERMINATED"
    assert "a duplicate" in waiting.invoke("show", "approval", "a").output


def test_what_has_ended_is_deleted_and_its_id_is_free(waiting):
    assert "only what has ended can be deleted" in waiting.refusal("delete", "approval", "a")["message"]
    waiting.json("terminate", "approval", "a")
    assert waiting.json("delete", "approval", "a") == {"workflow": "approval", "id": "a", "action": "delete"}
    assert waiting.refusal("show", "approval", "a")["code"] == "not_found"
    waiting.json("start", "approval", "8", "--id", "a")
    waiting.json("signal", "approval", "a", "decision", '"yes"')
    assert waiting.json("result", "approval", "a")["result"] == "yes: 8"


def test_pausing_and_resuming(waiting):
    waiting.json("pause", "approval", "a")
    assert status_of(waiting) == "PAUSED"
    waiting.json("signal", "approval", "a", "decision", '"yes"')
    waiting.json("resume", "approval", "a")
    assert waiting.json("result", "approval", "a")["result"] == "yes: 7"


def test_one_whose_code_is_gone_is_reported_and_moved(shop, worker):
    old = hf.App("old", home=shop.home)

    @old.workflow(versions="pinned", version="1")
    async def tour() -> str:
        return "by 1"

    with old.sync() as run:
        run(tour.start(id="a"))
    shop.json("signal", "tour", "a", "decision", '"yes"')
    # Each wake-up, of the start and of the signal, is a try: while one is under way, no look shows that it is blocked.
    while "(code 1)" not in shop.invoke("doctor").output:
        pass
    assert shop.json("move", "tour", "a")["action"] == "move"
    assert shop.json("result", "tour", "a")["result"] == "yes by 2"
    assert shop.refusal("move", "tour", "a")["code"] == "invalid_state"
    assert shop.refusal("move", "checkout", "a")["code"] == "invalid_state"


def test_retrying_goes_on_from_the_failed_step(shop, worker):
    shop.path("broken").touch()
    shop.refusal("start", "checkout", '["visa"]', "--id", "a", "--wait")
    shop.path("broken").unlink()
    assert shop.json("retry", "checkout", "a")["action"] == "retry"
    assert shop.json("result", "checkout", "a")["result"] == {"payment": "pay-visa-100"}
    assert shop.refusal("retry", "checkout", "a")["code"] == "invalid_state"


def test_forking_starts_another_one_from_its_history(shop, worker):
    shop.json("start", "checkout", '["visa"]', "--id", "a", "--wait")
    answer = shop.json("fork", "checkout", "a", "b", "--before", "charge#0")
    assert answer == {"workflow": "checkout", "id": "b", "action": "fork", "forked_from": "a"}
    assert shop.json("result", "checkout", "b")["result"] == {"payment": "pay-visa-100"}
    assert "charge#0" in shop.refusal("fork", "checkout", "a", "c", "--before", "nothing#0")["message"]


# ── Callbacks ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def token(worker):
    """The token of a callback that execution ``a`` waits for."""
    return worker.start_parcel()


def test_a_callback_is_completed(shop, token):
    assert shop.json("callback", "complete", token, '"3SABC"') == {"action": "complete"}
    assert shop.json("result", "parcel", "a")["result"] == "3SABC"


def test_a_callback_is_completed_once(shop, token):
    shop.json("callback", "complete", token, '"3SABC"')
    assert shop.refusal("callback", "complete", token, '"3SXYZ"')["code"] == "invalid_token"


def test_a_token_may_come_from_standard_input(shop, token):
    shop.json("callback", "complete", "-", '"3SABC"', stdin=token + "\n")
    assert shop.json("result", "parcel", "a")["result"] == "3SABC"


def test_a_callback_is_failed(shop, token):
    shop.json("callback", "fail", token, "the parcel is lost", "--type", "ParcelLost")
    assert "ParcelLost: the parcel is lost" in shop.refusal("result", "parcel", "a")["message"]


def test_a_callback_is_kept_alive(shop, token):
    assert shop.json("callback", "heartbeat", token) == {"action": "heartbeat"}


def test_a_forged_token_is_refused_and_not_repeated(shop, token):
    forged = token[:-1] + ("0" if token[-1] != "0" else "1")
    for command in (("complete", forged, "1"), ("fail", forged, "no"), ("heartbeat", forged)):
        refusal = shop.refusal("callback", *command)
        assert refusal["code"] == "invalid_token"
        assert forged not in refusal["message"]


def test_a_start_may_be_delayed(shop, worker):
    shop.json("start", "approval", "7", "--id", "a", "--delay", "1h", "--limit", "5m")
    shop.json("cancel", "approval", "a")
    assert shop.refusal("result", "approval", "a")["code"] == "execution_cancelled"
    assert shop.refusal("start", "approval", "7", "--delay", "1h", "--at", "2030-01-01")["code"] == "invalid_input"
    assert shop.invoke("start", "approval", "7", "--at", "soon").exit_code == 2


def test_it_is_told_when_a_delayed_start_is_due(shop):
    shop.json("start", "approval", "7", "--id", "a", "--at", "2030-01-01T12:00")
    assert shop.json("show", "approval", "a")["execution"]["due_at"] == "2030-01-01T12:00:00Z"
    assert "due" in shop.invoke("show", "approval", "a").output


def test_retry_now_needs_no_code(shop, worker):
    shop.json("start", "approval", "7", "--id", "a")
    assert shop.json("retry", "--now", "approval", "a")["action"] == "retry-now"
    assert shop.refusal("retry", "--now", "approval", "nobody")["code"] == "not_found"


@pytest.mark.parametrize(
    "command",
    [
        "signal approval nobody decision",
        "cancel approval nobody",
        "terminate approval nobody",
        "pause approval nobody",
        "resume approval nobody",
        "delete approval nobody",
        "move tour nobody",
        "retry approval nobody",
        "retry --now approval nobody",
        "fork approval nobody new",
        "show approval nobody",
        "result approval nobody",
    ],
)
def test_what_is_not_there_is_not_found(shop, command):
    shop.json("start", "approval", "7", "--id", "a")  # so that there is a file
    assert shop.refusal(*command.split())["code"] == "not_found"
