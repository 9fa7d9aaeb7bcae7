"""Which records of the table's stream have somebody look, and at what."""

from __future__ import annotations

import pytest

from holdfast.runtime.shapes import Changes, recognised


def record(partition, sort, name="INSERT", **image):
    written = {"Keys": {"p": {"S": partition}, "s": {"S": sort}}, "NewImage": image, "SequenceNumber": "7"}
    return {"eventSource": "aws:dynamodb", "eventName": name, "dynamodb": written}


DUE, OWNED = {"d": {"N": "1"}}, {"o": {"S": "1-a"}}


@pytest.mark.parametrize(
    ("change", "looked_at"),
    [
        (record("wf#checkout#a", "@", **DUE), "wf#checkout#a"),
        (record("wf#checkout#a", "@", **DUE, **OWNED), None),
        (record("wf#checkout#a", "@", "MODIFY", **DUE), None),
        (record("actor#Cart#u1", "i#1#a"), "actor#Cart#u1"),
        (record("out#shop", "o#1#a"), "out#shop"),
        (record("out#shop", "o#1#a", "REMOVE"), None),
        (record("out#shop#7", "o#1#a"), "out#shop#7"),
        (record("bus#shop", "o#1#a"), "bus#shop"),
        (record("actor#Shop#s", "o#1"), None),
        (record("wf#checkout#a", "j#0#1"), None),
    ],
)
def test_what_is_new_and_waits_is_looked_at_and_nothing_else(change, looked_at):
    assert recognised({"Records": [change]}) == Changes((("7", looked_at),))
