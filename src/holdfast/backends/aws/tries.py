"""The few attempts for a request of SQS, EventBridge or Lambda, and the meaning of its errors.

What fails here is done later by other means: a sweep, the next turn. So no caller waits for long, unlike for the table
(``transport``). Errors of botocore are distinguished by name, so that nothing here imports it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.backends.aws.failures import THROTTLED

TRIES: Final = 3
PAUSE_SECONDS: Final = 0.1

MISSING_QUEUE: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
"""The codes of "there is no such queue", by SQS's two protocols."""


async def pause_before(attempt: int) -> None:
    """The first attempt is at once, each later one after twice the previous pause."""
    if attempt:
        await asyncio.sleep(PAUSE_SECONDS * 2**attempt)


def code_of(error: Exception) -> str:
    """AWS's code of an error, or the class of an error on the way there."""
    response: Any = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code") or type(error).__name__)


def is_hopeless(error: Exception) -> bool:
    """Whether it would be refused again: no such queue, no right, no credentials."""
    response: Any = getattr(error, "response", None)
    if response is None:
        return code_of(error) in {"NoCredentialsError", "NoRegionError", "ConfigurationError", "ParamValidationError"}
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status < 500 and code_of(error) not in THROTTLED


def refused_for(error: Exception) -> str:
    """Why, in one line."""
    return f"{code_of(error)}: {error}"
