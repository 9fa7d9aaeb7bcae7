"""Tags of machines and activities: TagResource, UntagResource, ListTagsForResource."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.asl.arns import ACTIVITY, STATE_MACHINE, Arn, read_arn
from holdfast.errors import NotFound
from holdfast.http.states import asked
from holdfast.http.states.faults import Fault, invalid_arn, no_resource, unsatisfied
from holdfast.http.states.service import Answer, Service

MOST_TAGS: Final = 50
LONGEST_KEY_CHARACTERS: Final = 128
LONGEST_VALUE_CHARACTERS: Final = 256
Tags = dict[str, str]


def tags_of(given: Sequence[asked.Tag], old: Tags | None = None) -> Tags:
    """The tags with those that are given. Raises ``Fault`` for too many, or too long ones."""
    for number, each in enumerate(given, 1):
        _check_length(each.key, f"tags.{number}.member.key", 1, LONGEST_KEY_CHARACTERS)
        _check_length(each.value, f"tags.{number}.member.value", 0, LONGEST_VALUE_CHARACTERS)
    tags = {**(old or {}), **{each.key: each.value for each in given}}
    if len(tags) > MOST_TAGS:
        raise Fault("TooManyTags", f"A resource has at most {MOST_TAGS} tags")
    return tags


def _check_length(text: str, field: str, least: int, most: int) -> None:
    if len(text) < least:
        raise unsatisfied(text, field, f"have length greater than or equal to {least}")
    if len(text) > most:
        raise unsatisfied(text, field, f"have length less than or equal to {most}")


async def tag(service: Service, request: asked.TagResource) -> Answer:
    """Give a machine or an activity tags."""
    await _change(service, request.resource_arn, lambda old: tags_of(request.tags, old))
    return {}


async def untag(service: Service, request: asked.UntagResource) -> Answer:
    """Take tags from a machine or an activity."""
    gone = set(request.tag_keys)
    await _change(service, request.resource_arn, lambda old: {k: v for k, v in old.items() if k not in gone})
    return {}


async def list_tags(service: Service, request: asked.OfResource) -> Answer:
    """The tags of a machine or an activity."""
    arn = _resource(request.resource_arn)
    shelf = service.shelf
    found = await (shelf.machine(arn.name) if arn.kind == STATE_MACHINE else shelf.activity(arn.name))
    if found is None:
        raise no_resource(arn.text)
    return {"tags": [{"key": key, "value": value} for key, value in found.tags.items()]}


async def _change(service: Service, text: str, change: Callable[[Tags], Tags]) -> None:
    arn = _resource(text)
    try:
        if arn.kind == STATE_MACHINE:
            await service.shelf.change_machine(arn.name, lambda old: replace(old, tags=change(old.tags)))
        else:
            await service.shelf.tag_activity(arn.name, change)
    except NotFound:
        raise no_resource(text) from None


def _resource(text: str) -> Arn:
    arn = read_arn(text, STATE_MACHINE, ACTIVITY)
    if arn is None or arn.qualifier:
        raise invalid_arn(text)
    return arn
