"""``holdfast cost``: what things would cost on AWS."""

from __future__ import annotations

import json
from random import Random


def test_the_tables_are_printed_with_the_cell_that_does_not_follow(shop):
    result = shop.invoke("cost", "tables")
    assert result.exit_code == 0
    assert "1 KB        8.25                1.65            8.00            0.525" in result.stdout
    assert "3.725* (3.735)" in result.stdout
    assert "us-east-1, on demand" in result.stdout


def test_the_tables_in_json(shop):
    answer = json.loads(shop.invoke("cost", "tables", "--json").stdout)
    by_size, by_count = answer["tables"]
    assert by_size["rows"][1] == {
        "size": "8 KB",
        "Durable checkpoint": 10.0,
        "own checkpoint": 6.025,
        "Durable replay": 8.0,
        "own replay": 0.65,
    }
    assert by_count["rows"][3]["8"] == 3.725
    assert answer["printed_otherwise"] == [{"row": "16 KB+", "column": "8", "printed": 3.735}]


def lines(bill):
    return {each["what"]: each["count"] for each in bill["lines"] if each["count"] and not each["assumed"]}


def test_a_workflow_is_priced_by_what_it_asks_of_the_store(shop):
    answer = shop.json("cost", "workflow", "checkout", '["visa"]', "--what-if", "aws", "--runs", "3")
    assert answer["outcomes"] == "3 COMPLETED"
    assert answer["requests_each"] == 2
    assert lines(answer["bill"]) == {"DynamoDB: written": 4}
    assert answer["bill"]["metered_usd_per_million"] == 4 * 0.625
    assert [each["what"] for each in answer["elsewhere"]] == [
        "AWS Lambda Durable Functions",
        "rolling your own",
        "AWS Step Functions, standard",
    ]
    assert not shop.path("shop.db").exists()


def test_retries_count_elsewhere(shop):
    answer = shop.json("cost", "workflow", "stubborn", "--runs", "1")
    (operations,) = [each for each in answer["elsewhere"][0]["lines"] if each["unit"] == "operations"]
    assert operations["count"] == 3


def test_one_that_waits_is_priced_as_far_as_it_comes_and_not_compared(shop):
    answer = shop.json("cost", "workflow", "approval", "7", "--runs", "2")
    assert answer["outcomes"] == "2 SUSPENDED"
    assert answer["elsewhere"] == []
    assert lines(answer["bill"])["DynamoDB: written"] > 0


def test_one_that_fails_is_priced_too(shop):
    shop.path("broken").touch()
    answer = shop.json("cost", "workflow", "checkout", '["visa"]', "--runs", "2")
    assert answer["outcomes"] == "2 FAILED"


def test_an_actors_call_is_priced(shop):
    answer = shop.json("cost", "actor", "Cart", "u1", "add", '["lamp"]', "--runs", "4")
    assert lines(answer["bill"]) == {"DynamoDB: written": 2}
    assert answer["elsewhere"] == []


def test_in_real_time_the_loop_is_a_real_one(shop):
    answer = shop.json("cost", "workflow", "checkout", '["visa"]', "--runs", "1", "--real-time")
    assert answer["outcomes"] == "1 COMPLETED"


def test_the_bill_is_readable_and_says_what_is_assumed(shop):
    result = shop.invoke("cost", "workflow", "checkout", '["visa"]', "--runs", "2", "--ms", "100", "--memory-mb", "128")
    assert result.exit_code == 0
    assert "DynamoDB: written         4       write units  2.50" in result.stdout
    assert "Lambda: 100 ms at 128 MB" in result.stdout
    assert "In all $" in result.stdout
    assert "AWS Lambda Durable Functions" in result.stdout


def test_larger_bodies_can_be_priced_as_if_in_s3(shop):
    card = json.dumps([Random(1).randbytes(4_000).hex()])  # packed, half of that
    inline = shop.json("cost", "workflow", "checkout", card, "--runs", "1")
    aside = shop.json("cost", "workflow", "checkout", card, "--runs", "1", "--inline-kb", "2")
    assert "S3: bodies written" not in lines(inline["bill"])
    assert lines(aside["bill"])["S3: bodies written"] > 0


def test_what_is_unknown_is_told(shop):
    assert shop.refusal("cost", "workflow", "nothing")["code"] == "unknown_name"
    assert shop.refusal("cost", "actor", "Cart", "u1", "nothing")["code"] == "unknown_name"
