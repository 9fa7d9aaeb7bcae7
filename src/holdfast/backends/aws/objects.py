"""Requests to one bucket of S3: each sent until it is answered, within a time limit, and counted.

Every request here may be sent again: the content under a key is always the same, and a deletion names the version's
tag. S3 reads what it has acknowledged ("Amazon S3 data consistency model", user guide).
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.failures import FORBIDDEN, NO_CREDENTIALS
from holdfast.backends.aws.meter import Meter
from holdfast.backends.aws.sending import PATIENCE_SECONDS, Sending
from holdfast.errors import HoldfastError, StoreUnavailable, StoreUnusable

MISSING: Final = frozenset({"404", "InvalidRange", "NoSuchKey", "NotFound"})
AT_ONCE: Final = 8
"""The most requests at once, because each has its bytes in memory."""

RIGHTS: Final = "s3:GetObject, PutObject and ListBucket, and to clean up DeleteObject"


class ObjectMissing(Exception):
    """There is no object under the key, or it is shorter than the requested range."""


class ObjectChanged(Exception):
    """The condition of the request does not hold."""


class Objects(Sending):
    """One bucket, through a connection."""

    def __init__(
        self,
        connection: Connection,
        bucket: str,
        *,
        random: Random,
        meter: Meter | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__(connection, at_once=AT_ONCE, random=random, meter=meter, patience_seconds=patience_seconds)
        self.bucket = bucket

    async def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a request.

        Raises ``ObjectMissing``, ``ObjectChanged``, ``StoreUnavailable`` if there was no answer in time, and
        ``StoreUnusable`` with the remedy.
        """

        def failed(error: Exception) -> StoreUnavailable:
            if (final := _final(error, self.bucket)) is not None:
                raise final from error
            return StoreUnavailable(
                f"the bucket {self.bucket} did not answer a {operation} in time; it may or may not have been applied "
                f"({type(error).__name__}: {error})"
            )

        return await self.send(operation, {"Bucket": self.bucket} | parameters, failed)


def _final(error: Exception, bucket: str) -> Exception | None:
    """The error for the caller; ``None`` if the request is worth another attempt.

    A 409 means that another write to the key was under way ("How to prevent object overwrites with conditional writes",
    user guide), a 503 that requests are too frequent ("Best practices design patterns: optimizing Amazon S3
    performance").
    """
    if isinstance(error, HoldfastError):
        return error
    response: Any = getattr(error, "response", None) or {}
    code = response.get("Error", {}).get("Code", "")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    name = type(error).__name__
    if code in MISSING:
        return ObjectMissing(code)
    if status == 412:
        return ObjectChanged(code)
    if code in FORBIDDEN or status == 403 or name in NO_CREDENTIALS:
        return StoreUnusable(f"AWS refuses this process at the bucket {bucket} ({error}). Its role needs {RIGHTS}")
    if code == "NoSuchBucket":
        return StoreUnusable(f"there is no bucket {bucket}: create it, or correct ?bucket=… in the home's URL")
    if name == "ParamValidationError" or (400 <= status < 500 and status not in (408, 409, 429)):
        return StoreUnusable(f"the bucket {bucket} refuses a request of Holdfast ({error})")
    return None
