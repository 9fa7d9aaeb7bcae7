"""The few tries that a request of SQS, the Scheduler, EventBridge or Lambda gets, and what its errors say.

What none of them achieves is done later by somebody else: a sweep, the next turn. So nobody waits for long, as is done
for the table (``transport``). Errors of botocore are told apart by name, so that nothing here imports it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.backends.aws.failures import THROTTLED

TRIES: Final = 3
PAUSE_SECONDS: Final = 0.1


async def pause_before(attempt: int) -> None:
    """The first attempt is at once, each later one after twice the pause of the one before."""
    if attempt:
        await asyncio.sleep(PAUSE_SECONDS * 2**attempt)


def code_of(error: Exception) -> str:
    """What AWS calls it, or the class of an error on the way there."""
    response: Any = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code") or type(error).__name__)


def is_hopeless(error: Exception) -> bool:
    """Whether it would be refused again: no such queue, no right to it, no credentials."""
    response: Any = getattr(error, "response", None)
    if response is None:
        return code_of(error) in {"NoCredentialsError", "NoRegionError", "ConfigurationError", "ParamValidationError"}
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status < 500 and code_of(error) not in THROTTLED


def refused_for(error: Exception) -> str:
    """Why, in one line."""
    return f"{code_of(error)}: {error}"
