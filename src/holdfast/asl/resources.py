"""What the ``Resource`` of a Task says: an ARN of a function, of a service and its pattern, or of an activity."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

_SERVICE: Final = re.compile(r"arn:[\w-]+:states:[\w-]*:\d*:(?!activity:)(?P<call>[\w:-]+?)(?:\.(?P<pattern>[\w:]+))?")
_LAMBDA: Final = re.compile(r"arn:[^:]+:lambda:[^:]*:[^:]*:function:(?P<name>[^:]+)(?::[^:]+)?")
_ACTIVITY: Final = re.compile(r"arn:[^:]+:states:[^:]*:[^:]*:activity:(?P<name>.+)")

REQUEST_RESPONSE: Final = ""
SYNC: Final = "sync"
SYNC_2: Final = "sync:2"
WAIT_FOR_TASK_TOKEN: Final = "waitForTaskToken"  # noqa: S105 - the name of a pattern, no secret

RESOURCES_REMEMBERED: Final = 1_024


class Limits(Struct, frozen=True):
    """How long a task may take, and be silent, in seconds; ``None`` for ever."""

    timeout_seconds: float | None = None
    heartbeat_seconds: float | None = None


class Resource(Struct, frozen=True):
    """A resource in parts. ``call`` is ``sqs:sendMessage`` of a service; ``name`` the last part of any other ARN."""

    text: str
    name: str
    call: str = ""
    pattern: str = REQUEST_RESPONSE


@lru_cache(RESOURCES_REMEMBERED)
def resource_of(text: str) -> Resource:
    """The parts of a resource.

    >>> resource_of("arn:aws:states:::sqs:sendMessage.waitForTaskToken").pattern
    'waitForTaskToken'
    >>> resource_of("arn:aws:lambda:us-east-1:1:function:Reserve:live").name
    'Reserve'
    """
    if found := _LAMBDA.fullmatch(text):
        return Resource(text, found["name"])
    if found := _ACTIVITY.fullmatch(text):
        return Resource(text, found["name"])
    if found := _SERVICE.fullmatch(text):
        return Resource(text, found["call"].rpartition(":")[2], found["call"], found["pattern"] or REQUEST_RESPONSE)
    return Resource(text, text.rpartition(":")[2])


def is_lambda(text: str) -> bool:
    """Whether it is the ARN of a Lambda function."""
    return _LAMBDA.fullmatch(text) is not None


def is_activity(text: str) -> bool:
    """Whether it is the ARN of an activity."""
    return _ACTIVITY.fullmatch(text) is not None
