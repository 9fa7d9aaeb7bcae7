"""What is only shown costs no request of its own, and is written again until the store is known to have it."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.workflows.telling import SEAL_BYTES, Telling
from holdfast.workflows.waits import SIGNAL, TIMER, Wait, Waits

ONE = Waits((Wait(kind=SIGNAL, op="approval"),))
OTHER = Waits((Wait(kind=TIMER, op="sleep#0"),))
ROOM = SEAL_BYTES + 100


def sized(plain: int, told: int):
    return lambda waits: b"p" * plain if waits is None else b"w" * told


def test_what_the_store_has_is_not_written_again():
    telling = Telling(None)
    encode = sized(10, 20)
    assert telling.at_rest(ONE, encode, ROOM, is_saved=True) == b"w" * 20
    assert telling.at_rest(ONE, encode, ROOM, is_saved=True) == b"w" * 20, "the release was refused"
    telling.saved()
    assert telling.at_rest(ONE, encode, ROOM, is_saved=True) is UNSET
    assert telling.at_rest(ONE, encode, ROOM, is_saved=False) == b"w" * 20, "the rest of the body is news"
    assert telling.at_rest(OTHER, encode, ROOM, is_saved=True) == b"w" * 20


def test_what_the_owner_before_told_is_known_and_kept_until_a_release():
    telling = Telling(replace(ONE, epoch=7))
    assert telling.at_rest(ONE, sized(10, 20), ROOM, is_saved=True) is UNSET
    assert telling.earlier == replace(ONE, epoch=7)
    telling.saved()
    assert telling.earlier is None


def test_what_does_not_fit_into_its_item_is_left_out_of_it():
    telling = Telling(None)
    assert telling.at_rest(ONE, sized(100, 101), ROOM, is_saved=False) == b"p" * 100
    assert telling.at_rest(ONE, sized(101, 102), ROOM, is_saved=False) == b"w" * 102, "it is kept aside in any case"
    assert telling.at_rest(ONE, sized(100, 101), ROOM, is_saved=True) is UNSET
    assert telling.at_work(ONE, sized(100, 101), ROOM, 3) is None


def test_a_renewal_counts_as_written_when_the_store_has_said_so():
    telling = Telling(None)
    told = telling.at_work(ONE, sized(10, 20), ROOM, 3)
    assert told is not None
    assert telling.at_rest(ONE, sized(10, 20), ROOM, is_saved=True) == b"w" * 20, "whatever becomes of the renewal"
    told.written()
    assert telling.at_work(ONE, sized(10, 20), ROOM, 3) is None
    assert telling.at_work(None, sized(10, 20), ROOM, 3) is None
