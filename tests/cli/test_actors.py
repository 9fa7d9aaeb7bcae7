"""Actors from the command line: looking, calling, mending what has stopped at a message."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

import holdfast as hf
from holdfast.items import Item, Put

MESSAGE_KEYS = {"place", "id", "method", "args", "sent_at", "not_before", "attempts", "error", "parked_at"}


def until(worker, found):
    """Wait for what a coroutine function finds."""
    while not (answer := worker.run(found())):
        pass
    return answer


@pytest.fixture
def carts(shop, worker):
    """Two carts, the first with a parked message."""
    shop.json("actor", "call", "Cart", "u1", "add", '["lamp", 2]')
    shop.json("actor", "call", "Cart", "u2", "add", '{"sku": "chair"}')
    shop.json("actor", "send", "Cart", "u1", "add", '{"sku": "bad lamp"}')
    until(worker, worker.app.actor("Cart", "u1").parked)
    return shop


@pytest.fixture
def halted(shop, worker):
    """A till that has stopped at a message, with another one behind it."""
    shop.json("actor", "send", "Till", "t", "pay", "0")

    async def stopped():
        return (await worker.app.list_actors("Till", status="HALTED")).items

    until(worker, stopped)
    shop.json("actor", "send", "Till", "t", "pay", "7")
    return shop


def place_of(shop, key="u1"):
    (parked,) = shop.json("actor", "show", "Cart", key)["parked"]
    return parked["place"]


def total_of(shop, key="u1"):
    return shop.json("actor", "call", "Cart", key, "total")["result"]


def keys(shop, *options):
    return [each["key"] for each in shop.json("actor", "ls", *options)["actors"]]


# ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_list_begins_with_the_newest(carts):
    page = carts.json("actor", "ls")
    assert page.keys() == {"actors", "cursor"}
    assert [each["key"] for each in page["actors"]] == ["u2", "u1"]
    assert [each["parked"] for each in page["actors"]] == [0, 1]
    assert all(
        each.keys() == {"actor", "key", "status", "version", "parked", "timers", "owner"} for each in page["actors"]
    )


def test_a_list_is_narrowed(carts):
    carts.json("actor", "call", "Till", "t", "pay", "1")
    assert keys(carts, "Cart") == ["u2", "u1"]
    assert keys(carts, "--limit", "1") == ["t"]
    assert keys(carts, "Nothing") == []
    assert carts.invoke("actor", "ls", "Nothing").output == "no actors\n"
    page = carts.json("actor", "ls", "--limit", "1")
    assert keys(carts, "--after", page["cursor"]) == ["u2", "u1"]
    assert f"--after {page['cursor']}" in carts.invoke("actor", "ls", "--limit", "1").output


def test_deleted_actors_are_listed_only_if_asked_for(carts):
    assert carts.json("actor", "delete", "Cart", "u2")["action"] == "delete"
    assert keys(carts) == ["u1"]

    def deleted():
        return keys(carts, "--status", "deleted")

    while deleted() != ["u2"]:  # its owner lets go of it in a moment
        pass


def test_hidden_actors_are_listed_only_by_their_name(shop, worker):
    worker.publish_placed("1")
    while not shop.path("billed").exists():
        pass
    assert keys(shop) == []
    assert len(keys(shop, "!shop!bill")) == 1


def test_a_list_shows_no_state(carts):
    for form in ((), ("--json",)):
        assert "lamp" not in carts.invoke("actor", "ls", *form).output


def test_a_home_is_enough_to_look(carts):
    for arguments in (("actor", "ls"), ("actor", "show", "Cart", "u1"), ("timers", "ls"), ("dlq", "ls")):
        result = carts.invoke(*arguments, "--home", carts.home, app=None)
        assert result.exit_code == 0, result.output
    assert "Cart" in carts.invoke("actor", "ls", "--home", carts.home, app=None).output


# ── One actor ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_actor_is_shown(carts):
    shown = carts.json("actor", "show", "Cart", "u1")
    assert shown.keys() == {"actor", "waiting", "parked", "departures", "owner_alive"}
    assert shown["departures"] == []
    assert shown["actor"]["state"] == {"items": {"lamp": 2}}
    (parked,) = shown["parked"]
    assert parked.keys() == MESSAGE_KEYS
    assert (parked["args"], parked["attempts"]) == ({"n": 1, "sku": "bad lamp"}, 2)
    assert parked["error"]["message"] == "bad lamp is broken"


def test_an_actor_is_shown_to_people(carts):
    carts.json("actor", "call", "Cart", "u1", "remind", "90")
    carts.json("actor", "send", "Cart", "u1", "add", '["vase"]', "--delay", "1h")
    output = carts.invoke("actor", "show", "Cart", "u1").output
    assert output.startswith("Cart u1  ")
    assert '      "lamp": 2' in output
    assert "1 parked" in output
    assert "ValueError: bad lamp is broken" in output
    assert "1 waiting" in output
    assert "not before" in output
    assert "abandon" in output
    assert "in 1 h 29 m" in output or "in 1 h 30 m" in output


def test_what_an_actor_has_sent_and_is_still_to_be_delivered_is_shown(carts, worker):
    body = b'{"to":"actor#Shop#s","sort":"i#1#a","body":{"id":"17","method":"sell","args":{}}}'
    event = b'{"to":"out#shop#3","sort":"o#2#a","body":{"id":"18","event":"Placed","group":"g","data":{}}}'

    items = [Item("actor#Cart#u1", "o#1", body=body), Item("actor#Cart#u1", "o#2", body=event)]
    worker.run(worker.app.runtime().home.store.write(*map(Put, items)))
    output = carts.invoke("actor", "show", "Cart", "u1").output
    assert "2 sent" in output
    assert "Shop 's'" in output
    assert "out shop 3" in output
    shown = carts.json("actor", "show", "Cart", "u1")["departures"]
    assert [(each["what"], each["id"]) for each in shown] == [("sell", "17"), ("Placed", "18")]


def test_the_owner_of_the_lease_is_shown(carts, worker):
    shown = carts.json("actor", "show", "Cart", "u1")
    while shown["actor"]["owner"] is None:  # it has let go: call it back
        carts.json("actor", "call", "Cart", "u1", "add", '["lamp"]')
        shown = carts.json("actor", "show", "Cart", "u1")
    assert shown["actor"]["owner"] == worker.app.runtime().home.owner
    assert shown["owner_alive"] is True


def test_tokens_in_a_state_are_never_shown(shop, worker):
    token = worker.start_parcel()
    shop.json("actor", "call", "Cart", "u1", "add", f'["{token}"]')
    shop.json("actor", "send", "Cart", "u1", "add", f'["bad {token}"]')
    until(worker, worker.app.actor("Cart", "u1").parked)
    (parked,) = worker.run(worker.app.parked()).items
    for arguments in (("actor", "show", "Cart", "u1"), ("dlq", "ls"), ("dlq", "show", parked.id)):
        for form in ((), ("--json",)):
            assert token not in shop.invoke(*arguments, *form).output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("actor", "show", "Cart", "u3"), "there is no Cart 'u3'; Cart has: 'u2', 'u1'"),
        (("actor", "show", "Card", "u1"), "there is no Card 'u1'; there are actors of: Cart"),
        (("actor", "resume", "Cart", "u3"), "Cart has: 'u2', 'u1'"),
        (("actor", "resume", "Cart", "u2"), "not halted"),
        (("actor", "park", "Cart", "u2"), "not halted"),
        (("actor", "unpark", "Cart", "u2", "p#x"), "Cart 'u2' has no parked message 'p#x'; none is parked there"),
        (("actor", "discard", "Cart", "u1", "p#x"), "there are: p#i#"),
        (("actor", "delete", "Cart", "u3"), "Cart has: 'u2', 'u1'"),
        (("actor", "delete", "Card", "u1"), "the app has no actor 'Card'; it has: Cart, Till"),
        (("actor", "call", "Card", "u1", "add"), "the app has no actor 'Card'; it has: Cart, Till"),
        (("actor", "send", "Cart", "u1", "ad"), "Cart has no method 'ad'; it has: add, remind, total"),
        (("actor", "call", "Cart", "u1", "add", "{}"), "missing argument 'sku'"),
        (("dlq", "show", "nothing"), "no message 'nothing' is parked here; there are 1: see holdfast dlq ls"),
        (("dlq", "redrive", "nothing"), "no message 'nothing' is parked here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_not_there_is_told_with_what_is(arguments, told, carts):
    assert told in carts.refusal(*arguments)["message"]


def test_a_home_without_actors_says_so(shop):
    shop.json("start", "approval", "7", "--id", "a")
    assert "no actors in this home" in shop.refusal("actor", "show", "Cart", "u1")["message"]
    assert shop.invoke("timers", "ls").output == "no timers\n"
    assert shop.invoke("dlq", "ls").output == "no parked messages\n"
    assert "nothing is parked" in shop.refusal("dlq", "show", "x")["message"]


# ── Calling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_answers_the_result_as_json(shop, worker):
    answer = shop.json("actor", "call", "Cart", "u1", "add", '["lamp"]')
    assert answer == {"actor": "Cart", "key": "u1", "result": {"sku": "lamp", "n": 1}}
    assert shop.invoke("actor", "call", "Cart", "u1", "add", '["lamp"]').output == '{"sku": "lamp", "n": 2}\n'


def test_a_call_with_a_request_id_is_applied_once(shop, worker):
    for _ in range(2):
        answer = shop.json("actor", "call", "Cart", "u1", "add", '["lamp"]', "--request-id", "r")
        assert answer["result"]["n"] == 1
    refusal = shop.refusal("actor", "call", "Cart", "u1", "add", '["vase"]', "--request-id", "r")
    assert refusal["code"] == "idempotency_mismatch"


def test_what_a_method_raises_is_one_line(shop, worker):
    refusal = shop.refusal("actor", "call", "Cart", "u1", "add", '["bad lamp"]')
    assert (refusal["code"], refusal["message"]) == ("call_failed", "ValueError: bad lamp is broken")


def test_reading_needs_no_worker(shop):
    assert total_of(shop) == 0


def test_without_a_worker_a_call_waits_and_a_message_too(shop):
    assert shop.refusal("actor", "call", "Cart", "u1", "add", '["x"]', "--timeout", "10ms")["code"] == "wait_timeout"
    sent = shop.json("actor", "send", "Cart", "u1", "add", '["lamp"]', "--request-id", "r")
    assert (sent["action"], sent["id"]) == ("send", "r")
    waiting = shop.json("actor", "show", "Cart", "u1")["waiting"]
    assert [each["args"]["sku"] for each in waiting] == ["x", "lamp"]
    assert shop.refusal("actor", "delete", "Cart", "u1", "--timeout", "10ms")["code"] == "wait_timeout"


def test_calling_and_editing_need_the_code(shop):
    for arguments in (
        ("actor", "call", "Cart", "u1", "add"),
        ("actor", "send", "Cart", "u1", "add"),
        ("actor", "delete", "Cart", "u1"),
        ("actor", "unpark", "Cart", "u1", "p#x", "--args", "[]"),
        ("dlq", "redrive", "x", "--args", "[]"),
        ("actor", "park", "!shop!bill", "x"),
    ):
        result = shop.invoke(*arguments, "--home", shop.home, app=None)
        assert result.exit_code == 2
        assert "--app" in result.stderr
    assert not shop.path("shop.db").exists()


# ── Mending ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_unparked_with_other_arguments(carts, worker):
    answer = carts.json("actor", "unpark", "Cart", "u1", place_of(carts), "--args", '{"sku": "lamp", "n": 3}')
    assert answer["action"] == "unpark"
    while total_of(carts) != 5:
        pass
    assert carts.json("actor", "show", "Cart", "u1")["parked"] == []


def test_a_message_is_unparked_without_any_code(carts, worker):
    place = place_of(carts)
    result = carts.invoke("actor", "unpark", "Cart", "u1", place, "--home", carts.home, app=None)
    assert result.output == "Cart u1: the message is in the inbox again\n"

    async def parked_again():
        return [each for each in await worker.app.actor("Cart", "u1").parked() if each.place != place]

    assert until(worker, parked_again)


def test_other_arguments_are_checked(carts):
    refusal = carts.refusal("actor", "unpark", "Cart", "u1", place_of(carts), "--args", '{"sku": 7}')
    assert refusal["code"] == "invalid_input"
    assert place_of(carts)


def test_a_message_is_discarded(carts):
    place = place_of(carts)
    assert carts.json("actor", "discard", "Cart", "u1", place)["place"] == place
    assert carts.json("actor", "show", "Cart", "u1")["parked"] == []


def test_a_halted_actor_is_shown_and_goes_on_without_its_message(halted):
    assert "halted    at i#" in halted.invoke("actor", "show", "Till", "t").output
    assert halted.json("actor", "ls", "--status", "halted")["actors"][0]["key"] == "t"
    assert "halted" in halted.refusal("actor", "delete", "Till", "t")["message"]
    assert halted.json("actor", "park", "Till", "t")["action"] == "park"
    while halted.json("actor", "show", "Till", "t")["actor"]["state"] != {"cents": 7}:
        pass
    assert len(halted.json("dlq", "ls", "Till")["messages"]) == 1


def test_a_halted_actor_tries_again(halted, worker):
    before = halted.json("actor", "show", "Till", "t")["actor"]["version"]
    assert halted.json("actor", "resume", "Till", "t")["action"] == "resume"

    async def stopped_again():
        (till,) = (await worker.app.list_actors("Till")).items
        return till.status == "HALTED" and till.version > before

    until(worker, stopped_again)


# ── Timers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_timers_are_listed_by_due_time(carts):
    for key, minutes in (("u1", "90"), ("u2", "60"), ("u3", "120")):
        carts.json("actor", "call", "Cart", key, "remind", minutes)
    timers = carts.json("timers", "ls")["timers"]
    assert [each["key"] for each in timers] == ["u2", "u1", "u3"]
    assert all(each.keys() == {"actor", "key", "name", "due_at", "schedule"} for each in timers)
    first, second = (datetime.fromisoformat(each["due_at"]) for each in timers[:2])
    assert timedelta(minutes=29) < second - first < timedelta(minutes=31)
    assert [each["key"] for each in carts.json("timers", "ls", "Cart", "--limit", "1")["timers"]] == ["u2"]
    assert carts.json("timers", "ls", "Till")["timers"] == []
    heading, *rows = carts.invoke("timers", "ls").output.splitlines()
    assert heading.split()[:2] == ["DUE", "(UTC)"]
    assert rows[0].split()[-3:] == ["Cart", "u2", "abandon"]


def test_schedules_are_timers_too(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from holdfast.cli import main

    monkeypatch.chdir(tmp_path)
    app = hf.App("tidy", home="sqlite:///tidy.db")
    app.cron("0 3 * * *", tz="Europe/Amsterdam")(tidy_up)
    with app.sync(worker=True):
        pass
    output = (
        CliRunner().invoke(main, ["timers", "ls", "--home", "sqlite:///tidy.db"], env={"HOLDFAST_APP": None}).output
    )
    assert "!tidy!  tidy_up  tick   0 3 * * * Europe/Amsterdam" in output


async def tidy_up() -> None:
    pass


def test_what_became_of_a_request(shop, worker):
    shop.json("actor", "call", "Cart", "u1", "add", '["lamp"]', "--request-id", "r-1")
    answer = shop.json("actor", "request", "Cart", "u1", "r-1")
    assert answer == {"actor": "Cart", "key": "u1", "id": "r-1", "status": "completed"}
    assert shop.invoke("actor", "request", "Cart", "u1", "r-2").output == "unknown\n"
    assert "Cart has: 'u1'" in shop.refusal("actor", "request", "Cart", "none", "r-1")["message"]
