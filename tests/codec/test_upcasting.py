"""Chains of upcasters: complete, or refused; newer forms are never guessed at."""

from __future__ import annotations

import pytest

from holdfast.codec.typed import codec_for
from holdfast.codec.upcasting import Schema, check_upcasters
from holdfast.errors import ConfigurationError, SerializationError

STEPS = {1: lambda old: {**old, "b": 1}, 2: lambda old: {**old, "c": old["b"] + 1}}


def test_each_older_form_goes_through_all_steps_behind_it():
    schema = Schema(codec_for(dict[str, int]), STEPS)
    assert schema.version == 3
    assert schema.decode(b'{"a":0}', 1, "it") == {"a": 0, "b": 1, "c": 2}
    assert schema.decode(b'{"b":5}', 2, "it") == {"b": 5, "c": 6}
    assert schema.decode(b'{"c":7}', 3, "it") == {"c": 7}


def test_a_form_that_is_newer_or_has_no_step_is_refused_by_name():
    with pytest.raises(SerializationError, match="it was written by newer code"):
        Schema(codec_for(dict[str, int]), STEPS).decode(b"{}", 4, "it")
    with pytest.raises(SerializationError, match="it has no upcaster from schema 1 to 2"):
        Schema(codec_for(dict[str, int]), {2: dict}).decode(b"{}", 1, "it")


@pytest.mark.parametrize("upcasters", [{0: dict}, {2: dict}, {1: dict, 3: dict}])
def test_a_chain_with_a_gap_is_refused_when_it_is_declared(upcasters):
    with pytest.raises(ConfigurationError, match="without a gap"):
        check_upcasters(upcasters, "an actor")


def test_a_chain_without_gaps_is_taken_as_it_is():
    assert check_upcasters(STEPS, "an actor") is STEPS
    assert check_upcasters({}, "an actor") == {}
