"""Starting executions and waiting for their results, from the command line."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("text", "payment"),
    [
        ('{"card": "visa", "cents": 5}', "pay-visa-5"),
        ('["visa", 5]', "pay-visa-5"),
        ('["visa"]', "pay-visa-100"),
    ],
)
def test_arguments_come_by_name_or_in_order(text, payment, shop, worker):
    answer = shop.json("start", "checkout", text, "--id", "a", "--wait")
    assert answer == {"workflow": "checkout", "id": "a", "result": {"payment": payment}}


def test_one_argument_may_stand_for_itself(shop, worker):
    shop.invoke("start", "approval", "7", "--id", "a")
    shop.invoke("signal", "approval", "a", "decision", '"yes"')
    assert shop.json("result", "approval", "a")["result"] == "yes: 7"


def test_arguments_come_from_a_file_or_standard_input(shop, worker):
    shop.path("order.json").write_text('{"card": "filed"}')
    assert "pay-filed-100" in shop.invoke("start", "checkout", "@order.json", "--wait").stdout
    assert "pay-piped-100" in shop.invoke("start", "checkout", "-", "--wait", stdin='["piped"]').stdout


def test_for_people_the_id_or_the_result_is_all_that_is_printed(shop, worker):
    assert shop.invoke("start", "checkout", '["visa"]', "--id", "a").stdout == "a\n"
    assert shop.invoke("result", "checkout", "a").stdout == '{"payment": "pay-visa-100"}\n'


def test_without_an_id_it_gets_one(shop):
    first, second = (shop.json("start", "checkout", '["visa"]')["id"] for _ in range(2))
    assert first != second


def test_the_same_id_and_input_start_it_once_and_another_input_is_refused(shop, worker):
    shop.json("start", "checkout", '["visa"]', "--id", "a", "--wait")
    shop.json("start", "checkout", '{"card": "visa", "cents": 100}', "--id", "a", "--wait")
    assert len(shop.json("ls")["executions"]) == 1
    refusal = shop.refusal("start", "checkout", '["mastercard"]', "--id", "a")
    assert refusal["code"] == "idempotency_mismatch"


@pytest.mark.parametrize("text", ['{"card": 3}', "{}", "[1, 2, 3]", "nonsense", '{"card": "visa", "colour": "red"}'])
def test_bad_input_is_refused_before_anything_is_written(text, shop):
    refusal = shop.refusal("start", "checkout", text)
    assert refusal["code"] in {"invalid_input", "serialization"}
    assert "workflow 'checkout'" in refusal["message"]
    assert not shop.path("shop.db").exists()


def test_an_unknown_workflow_is_refused_with_the_ones_there_are(shop):
    refusal = shop.refusal("start", "chekout")
    assert refusal["code"] == "unknown_name"
    assert "checkout" in refusal["message"]


def test_an_impossible_id_is_refused(shop):
    assert shop.refusal("start", "checkout", '["visa"]', "--id", "")["code"] == "invalid_input"


def test_a_failure_is_told_with_its_cause(shop, worker):
    shop.path("broken").touch()
    refusal = shop.refusal("start", "checkout", '["visa"]', "--id", "a", "--wait")
    assert refusal["code"] == "execution_failed"
    assert "OutOfPaper: the terminal is out of paper" in refusal["message"]
    assert shop.refusal("result", "checkout", "a") == refusal


def test_waiting_has_an_end(shop):
    shop.invoke("start", "approval", "7", "--id", "a")
    refusal = shop.refusal("result", "approval", "a", "--timeout", "10ms")
    assert refusal["code"] == "wait_timeout"
    assert refusal["retryable"] is True


def test_tags_are_kept(shop):
    shop.invoke("start", "approval", "7", "--tag", "customer=acme", "--tag", "note=a=b")
    assert shop.json("ls")["executions"][0]["tags"] == {"customer": "acme", "note": "a=b"}
