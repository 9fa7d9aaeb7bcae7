"""Parked messages of a whole home from the command line."""

from __future__ import annotations

import pytest

ROW_KEYS = {"id", "actor", "key", "place", "method", "sent_at", "parked_at", "attempts", "error"}
CANARY = "bad canary-4242"


@pytest.fixture
def parked(shop, worker):
    """Messages of two carts and of a consumer that were set aside, in this order."""
    shop.json("actor", "send", "Cart", "u1", "add", '["bad lamp"]')
    wait_for(1, worker)
    shop.json("actor", "send", "Cart", "u2", "add", f'["{CANARY}"]')
    wait_for(2, worker)
    worker.publish_placed("bad order", id="order-1")
    wait_for(3, worker)
    return shop


def wait_for(count, worker):
    while len(worker.run(worker.app.parked()).items) != count:
        pass


def rows(shop, *options):
    return shop.json("dlq", "ls", *options)["messages"]


def test_a_list_has_those_of_actors_and_consumers(parked):
    found = rows(parked)
    assert [(each["actor"], each["method"]) for each in found] == [
        ("Cart", "add"),
        ("Cart", "add"),
        ("!shop!bill", "handle"),
    ]
    assert all(each.keys() == ROW_KEYS for each in found)
    assert found[0]["error"] == "ValueError: bad lamp is broken"
    assert {each["attempts"] for each in found} == {2}
    heading, *lines = parked.invoke("dlq", "ls").output.splitlines()
    assert heading.split()[:2] == ["ID", "ACTOR"]
    assert [line.split()[0] for line in lines] == [each["id"] for each in found]


def test_a_list_is_narrowed(parked):
    assert [each["key"] for each in rows(parked, "Cart")] == ["u1", "u2"]
    page = parked.json("dlq", "ls", "--limit", "2")
    assert [each["actor"] for each in rows(parked, "--after", page["cursor"])] == ["!shop!bill"]
    assert f"--after {page['cursor']}" in parked.invoke("dlq", "ls", "--limit", "2").output


def test_a_message_is_shown_with_its_arguments_and_its_error(parked):
    id = rows(parked, "Cart")[1]["id"]
    shown = parked.json("dlq", "show", id)
    assert shown.keys() == {"id", "actor", "key", "message"}
    assert shown["message"]["args"] == {"sku": CANARY, "n": 1}
    output = parked.invoke("dlq", "show", id).output
    assert f'    "sku": "{CANARY}"' in output
    assert f"ValueError: {CANARY} is broken" in output
    assert "in add" in output, "the traceback is shown"


def test_a_message_goes_through_the_inbox_again(parked, worker):
    (first, *_) = rows(parked)
    answer = parked.json("dlq", "redrive", first["id"], "--args", '["lamp"]')
    assert answer == {"action": "redrive", "messages": [{"id": first["id"], "actor": "Cart", "key": "u1"}]}
    while parked.json("actor", "call", "Cart", "u1", "total")["result"] != 1:
        pass
    assert len(rows(parked)) == 2


def test_an_event_is_handled_again_and_may_be_another_one(parked):
    id = rows(parked, "!shop!bill")[0]["id"]
    assert parked.refusal("dlq", "redrive", id, "--args", '{"orde": "1"}')["code"] == "invalid_input"
    output = parked.invoke("dlq", "redrive", id, "--args", '{"order": "order 1"}').output
    assert output.startswith("!shop!bill order-1: handle is in the inbox again")
    while not parked.path("billed").exists() or parked.path("billed").read_text() != "order 1":
        pass


def test_all_go_through_the_inbox_again_without_any_code(parked, worker):
    before = {each["id"] for each in rows(parked)}
    result = parked.invoke("dlq", "redrive", "--all", "--actor", "Cart", "--home", parked.home, app=None)
    assert [line.split(":")[0] for line in result.output.splitlines()] == ["Cart u1", "Cart u2"]
    wait_for(3, worker)  # they fail again
    assert len({each["id"] for each in rows(parked)} & before) == 1


@pytest.mark.parametrize("command", ["show", "redrive", "discard"])
def test_an_empty_id_is_refused(parked, command):
    refused = parked.refusal("dlq", command, "")
    assert refused["code"] == "invalid_input"
    assert "the id of the message is empty" in refused["message"]


def test_messages_are_dropped(parked):
    first, second, third = (each["id"] for each in rows(parked))
    assert parked.refusal("dlq", "discard", first, "nothing")["code"] == "not_found"
    assert len(rows(parked)) == 3, "all are found before one is touched"
    parked.json("dlq", "discard", first)
    assert [each["id"] for each in rows(parked)] == [second, third]
    answer = parked.json("dlq", "discard", "--all")
    assert [each["id"] for each in answer["messages"]] == [second, third]
    assert rows(parked) == []
    assert parked.invoke("dlq", "discard", "--all").output == "no parked messages\n"


def test_arguments_are_not_in_a_list(parked):
    line = next(each for each in rows(parked) if each["key"] == "u2")
    assert "args" not in line
