"""What the records of the table's stream say: for which entities there is something to do after them."""

from __future__ import annotations

import pytest

from holdfast.runtime.shapes import recognised


def record(partition, sort="@", name="MODIFY", **image):
    written = {"Keys": {"p": {"S": partition}, "s": {"S": sort}}, "NewImage": image, "SequenceNumber": "7"}
    return {"eventSource": "aws:dynamodb", "eventName": name, "dynamodb": written}


DUE, OWNED = {"d": {"N": "1"}, "w": {"S": "1"}}, {"o": {"S": "1-a"}}


@pytest.mark.parametrize(
    ("changes", "unfinished"),
    [
        ([record("wf#checkout#a", name="INSERT", **DUE)], ["wf#checkout#a"]),
        ([record("wf#checkout#a", **DUE, **OWNED)], ["wf#checkout#a"]),
        ([record("wf#checkout#a", d={"N": "1"})], []),
        ([record("a", **DUE), record("a")], []),
        ([record("a", **DUE), record("a"), record("b", **DUE), record("a", **DUE)], ["a", "b"]),
        ([record("a", **DUE), record("a", "j#0#1", "INSERT")], ["a"]),
        ([record("a", **DUE), record("a", name="REMOVE")], []),
    ],
)
def test_the_last_change_of_a_head_counts(changes, unfinished):
    assert recognised({"Records": changes}).unfinished == unfinished
