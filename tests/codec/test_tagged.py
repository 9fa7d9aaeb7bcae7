"""Unions of pydantic models that a field tells apart, as parameters and results (G12)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import pytest
from pydantic import BaseModel, Field

import holdfast as hf
from holdfast.codec.typed import codec_for
from holdfast.errors import SerializationError


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str
    tags: set[str] = set()


class Transfer(BaseModel):
    kind: Literal["transfer"] = "transfer"
    number: str


class Cash(BaseModel):
    kind: Literal["cash", "coins"]


Means = Annotated[Union[Card, Transfer, Cash], Field(discriminator="kind")]  # noqa: UP007 - as many users write it
ONE, OTHER, THIRD = Card(number="1", tags={"b", "a"}), Transfer(number="1"), Cash(kind="coins")


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Means, ONE),
        (Means, OTHER),
        (Means, THIRD),
        (Means | None, None),
        (Means | None, OTHER),
        (Annotated[Card | Transfer | None, Field(discriminator="kind")], None),
        (Annotated[Card | Transfer | None, Field(discriminator="kind")], OTHER),
        (list[Means], [OTHER, ONE, THIRD]),
        (dict[str, list[Means]], {"a": [OTHER], "b": [ONE]}),
        (tuple[Means, int], (OTHER, 1)),
        (tuple[Means, ...], (OTHER, ONE)),
        (dict[str, Means | None], {"a": None, "b": ONE}),
        (Annotated[list[Means], "a note"], [ONE]),
    ],
    ids=lambda value: "" if isinstance(value, BaseModel | list | dict | tuple) else str(value)[:40],
)
def test_they_come_back_as_the_class_they_were(hint: Any, value: Any) -> None:
    codec = codec_for(hint)
    data, copy = codec.copy(value, "the value", 1000)
    assert copy == codec.decode(data) == value
    assert type(codec.decode(data)) is type(value)


def test_what_fits_none_of_them_is_refused_with_the_reason() -> None:
    codec = codec_for(list[Means])
    with pytest.raises(SerializationError, match="kind"):
        codec.decode(b'[{"kind":"gold"}]')
    with pytest.raises(SerializationError):
        codec.copy([1], "the value", 1000)


def test_models_that_nothing_tells_apart_are_refused_and_told_how() -> None:
    with pytest.raises(SerializationError, match="discriminator"):
        codec_for(Card | Transfer)


def test_the_sets_in_them_are_steady_in_a_body() -> None:
    codec = codec_for(list[Means])
    assert codec.sets
    assert list(codec.decode_steady(codec.encode([ONE]))[0].tags) == ["a", "b"]


def test_workflows_and_steps_take_and_answer_them() -> None:
    app = hf.App("shop", home="memory://")

    @app.step
    async def pay(means: Means, more: list[Means]) -> Means:
        return more[0] if isinstance(means, Card) else means

    @app.workflow
    async def checkout(means: Means, *more: Means, last: Means | None = None) -> dict[str, Means]:
        return {"paid": await pay(means, list(more))}

    assert app.run(checkout(ONE, OTHER)) == {"paid": OTHER}
    assert app.run(checkout(OTHER, ONE, last=THIRD)) == {"paid": OTHER}
