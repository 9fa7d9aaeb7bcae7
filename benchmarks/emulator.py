"""DynamoDB Local, once for a run, and what its children find in their environment."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.plan import Case

NOT_PASSED_ON = frozenset({"HOLDFAST_URL", "PYTHONDONTWRITEBYTECODE"})
"""Where no compiled code may be written, every start would compile us anew, and not a peer that pip has compiled."""

ATTEMPTS = 10

NOBODYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1",
}
"""An emulator asks for credentials and does not look at them. Yours stay where they are."""


def child_environment() -> dict[str, str]:
    """The environment of a measurement: ours, without what belongs to a user of AWS or of Holdfast."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_PASSED_ON and not name.startswith(("AWS_", "POWERTOOLS_"))
    }
    return kept | NOBODYS


async def new_home(endpoint: str) -> str:
    """The URL of a home of its own on the emulator, its table made."""
    from holdfast.backends.aws import create_table  # it is not loaded where a case does not ask for it
    from holdfast.errors import StoreUnavailable

    url = f"aws://bench-{os.getpid()}?region=eu-west-1&endpoint={endpoint}"
    for _ in range(ATTEMPTS):
        with contextlib.suppress(StoreUnavailable):  # a Java that was just started is slow
            await create_table(url)
            return url
    raise SystemExit(f"DynamoDB Local makes no table at {endpoint}")


@contextmanager
def dynamodb_local(cases: list[Case]) -> Iterator[str | None]:
    """Its address on loopback, if some case asks for it and the machine can run it. If it cannot, it is said aloud."""
    if not any(case.emulator for case in cases):
        yield None
        return
    from tests.backends.aws.local import DynamoDBLocal, missing  # the one installer that there is

    if (lack := missing()) is not None:
        print(f"the cases on DynamoDB Local are left out: {lack}", file=sys.stderr)
        yield None
        return
    print("starting DynamoDB Local", file=sys.stderr, flush=True)
    server = DynamoDBLocal()
    try:
        yield server.endpoint
    finally:
        server.stop()
