"""Records of a stream in disorder: the order of each item is kept, and nothing else."""

from __future__ import annotations

from holdfast.runtime.shapes import Changes, recognised
from holdfast.testing.hostile import Disorder, Fault, Report, disordered

KEYS = 5


def record(number: int) -> dict:
    key = {"p": {"S": f"actor#Till#{number % KEYS}"}, "s": {"S": "@"}}
    return {
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "dynamodb": {"Keys": key, "NewImage": key, "SequenceNumber": str(number)},
    }


RECORDS = [record(number) for number in range(50)]


def numbers(batches: list[list[dict]], key: int | None = None) -> list[int]:
    found = [int(each["dynamodb"]["SequenceNumber"]) for batch in batches for each in batch]
    return found if key is None else [each for each in found if each % KEYS == key]


def test_each_item_keeps_its_order_and_all_come():
    for seed in range(20):
        report = Report()
        batches = list(disordered(RECORDS, seed, report))
        for key in range(KEYS):
            first = list(dict.fromkeys(numbers(batches, key)))
            assert first == list(range(key, 50, KEYS))
        assert numbers(batches) != sorted(set(numbers(batches)))
        assert max(map(len, batches)) <= Disorder().batch
        report.require(1, Fault.RECORD_LATE, Fault.RECORD_AGAIN)


def test_what_comes_again_is_followed_by_what_came_after_it():
    batches = list(disordered(RECORDS, 3, disorder=Disorder(late=0.0, again=1.0)))
    for key in range(KEYS):
        found = numbers(batches, key)
        assert len(found) > len(set(found))
        for earlier, later in zip(found, found[1:], strict=False):
            assert later <= earlier or later - earlier == KEYS


def test_the_same_seed_gives_the_same_and_none_gives_the_stream():
    assert list(disordered(RECORDS, 1)) == list(disordered(RECORDS, 1)) != list(disordered(RECORDS, 2))
    assert numbers(list(disordered(RECORDS, 1, disorder=Disorder(0.0, 0.0)))) == list(range(50))


def test_the_handler_of_a_function_knows_the_batches():
    for batch in disordered(RECORDS, 1):
        work = recognised({"Records": batch})
        assert isinstance(work, Changes)
        places = [(keys["p"]["S"], keys["s"]["S"]) for keys in (each["dynamodb"]["Keys"] for each in batch)]
        assert [partition for partition, _ in work.changes] == [each for each, sort in places if sort == "@"]
