"""Published versions of a function: each is called by its own name, ``function:number``, whatever the alias points at.

Calls are asynchronous: Lambda answers once it has queued one, calls the version at least once, and again if it fails
("Invoking a Lambda function asynchronously", developer guide; "Invoke", API reference). Versions do not change once
they are published, and a number is never given twice ("Manage Lambda function versions", developer guide).
"""

from __future__ import annotations

from typing import Final

from holdfast.backends.aws.bellringer import body
from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.tries import TRIES, code_of, is_hopeless, pause_before, refused_for
from holdfast.errors import StoreUnavailable
from holdfast.ports import WakeUp

GONE: Final = "ResourceNotFoundException"
BUSY: Final = frozenset({"RecursiveInvocationException", "ResourceConflictException", "TooManyRequestsException"})
"""In addition to the usual throttles: codes of ``Invoke`` that mean "not now". The first is about a long chain of calls
that cause each other; the next sweep begins a new chain.
"""


class LambdaVersions:
    """Calls versions of functions. ``own`` is the name of the one that this process runs, if it was published."""

    def __init__(self, connection: Connection, own: str) -> None:
        self._connection = connection
        self.own = own

    async def call(self, version: str, wake_up: WakeUp) -> str | None:
        """See ``Versions.call``. A call that was turned away, or not answered, is tried a few times."""
        asked = {"FunctionName": version, "InvocationType": "Event", "Payload": body(wake_up).encode()}
        reason = ""
        for attempt in range(TRIES):
            await pause_before(attempt)
            try:
                await self._connection.send("Invoke", asked)
            except Exception as error:  # noqa: BLE001 - botocore's, told apart by name
                reason = refused_for(error)
                if code_of(error) == GONE:
                    return f"there is no {version} any more"
                if is_hopeless(error) and code_of(error) not in BUSY:
                    return f"{version} cannot be called: {reason}"
            else:
                return None
        raise StoreUnavailable(f"{version} may not have been called: {reason}")

    def close(self) -> None:
        """Call no more versions."""
        self._connection.close()
