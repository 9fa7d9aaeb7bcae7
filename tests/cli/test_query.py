"""Asking an execution's body from the command line."""

from __future__ import annotations


def test_a_query_prints_what_the_body_tells_and_needs_no_worker(shop):
    shop.json("start", "approval", "7", "--id", "a")
    answer = shop.json("query", "approval", "a", "asked")
    assert answer == {"workflow": "approval", "id": "a", "query": "asked", "value": {"amount": 7}}
    assert shop.invoke("query", "approval", "a", "asked").output == '{"amount": 7}\n'


def test_what_has_ended_answers_too(shop, worker):
    shop.json("start", "approval", "7", "--id", "a")
    shop.json("signal", "approval", "a", "decision", '"yes"')
    shop.json("result", "approval", "a")
    assert shop.json("query", "approval", "a", "asked")["value"] == {"amount": 7}


def test_what_is_not_there_cannot_be_asked(shop):
    assert shop.refusal("query", "approval", "a", "asked")["code"] == "configuration", "there is no database yet"
    assert not shop.path("shop.db").exists()
    shop.json("start", "approval", "7", "--id", "a")
    assert shop.refusal("query", "approval", "none", "asked")["code"] == "not_found"
    told = shop.refusal("query", "approval", "a", "none")
    assert (told["code"], "asked" in told["message"]) == ("unknown_name", True)
    assert shop.refusal("query", "none", "a", "asked")["code"] == "unknown_name"
    assert shop.invoke("query", "approval", "a", "asked", "--home", shop.home, app=None).exit_code == 2
