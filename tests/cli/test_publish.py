"""Publishing an event from the command line."""

from __future__ import annotations


def test_an_event_is_published_and_handled_once_for_each_id(shop, worker):
    for _ in range(2):
        answer = shop.json("publish", "Placed", '{"order": "o-1"}', "--id", "e-1")
        assert answer == {"event": "Placed", "id": "e-1", "action": "publish"}
    assert shop.invoke("publish", "Placed", '{"order": "o-2"}').output == "Placed is published\n"
    while not shop.path("billed").exists() or shop.path("billed").read_text() != "o-2":
        pass


def test_it_waits_for_a_worker(shop):
    shop.json("publish", "Placed", '{"order": "o-1"}', "--id", "e-1")
    (event,) = shop.json("outbox", "ls")["events"]
    assert (event["event"], event["id"]) == ("Placed", "e-1")


def test_what_no_consumer_has_declared_or_does_not_fit_is_refused_and_makes_no_home(shop):
    told = shop.refusal("publish", "None", "{}")
    assert (told["code"], "Placed" in told["message"]) == ("unknown_name", True)
    for wrong in ("{}", '{"order": 1}', "order"):
        assert shop.refusal("publish", "Placed", wrong)["code"] == "invalid_input"
    assert not shop.path("shop.db").exists()
