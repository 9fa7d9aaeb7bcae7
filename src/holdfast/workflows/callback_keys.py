"""Keys of callback tokens: with a key from outside the store, a reader of the store can forge no token.

``HOLDFAST_CALLBACK_KEYS`` lists them, ``id:key`` with commas between, the newest first. An execution is bound to the
newest of its start: its secret begins with the id. So old and new ones are good side by side, and a key may go when the
executions that began under it have ended; if it goes before, their tokens are good for nothing.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Final

from holdfast import ids
from holdfast.errors import ConfigurationError

KEYS_VARIABLE: Final = "HOLDFAST_CALLBACK_KEYS"
SHORTEST_KEY_CHARACTERS: Final = 64
"""As many hexadecimal digits as 256 random bits have."""

BEHIND_ID: Final = ":"

_KEY: Final = re.compile(r"(?P<id>[A-Za-z0-9_-]{1,32}):(?P<key>[!-+\--~]+)")


class MissingKey(ConfigurationError):
    """The key to which an execution is bound is not there."""

    code = "missing_key"


def read_keys(text: str) -> dict[str, str]:
    """Keys by their ids, the newest first. Raises ``ConfigurationError``, which quotes none of them.

    >>> list(read_keys(f"2027:{'b' * 64},2026:{'a' * 64}"))
    ['2027', '2026']
    """
    found: dict[str, str] = {}
    for number, each in enumerate((each.strip() for each in text.split(",") if each.strip()), start=1):
        read = _KEY.fullmatch(each)
        if read is None or len(read["key"]) < SHORTEST_KEY_CHARACTERS or read["id"] in found:
            raise ConfigurationError(
                f"key {number} of {KEYS_VARIABLE}: write id:key with commas between, each id once, each key "
                f"{SHORTEST_KEY_CHARACTERS} or more characters at random; make one with: openssl rand -hex 32"
            )
        found[read["id"]] = read["key"]
    return found


def new_execution_secret() -> str:
    """A fresh secret for an execution, bound to the newest key if there is one."""
    newest = next(iter(known_keys()), "")
    return f"{newest}{BEHIND_ID}{ids.new_secret()}" if newest else ids.new_secret()


def key_id_of(secret: str) -> str:
    """The id of the key that an execution's secret is bound to; empty if it is bound to none."""
    return secret.rpartition(BEHIND_ID)[0]


def signing_key(secret: str) -> str:
    """What an execution's tokens are signed with. Raises ``MissingKey``."""
    id = key_id_of(secret)
    if not id:
        return secret
    key = known_keys().get(id)
    if key is None:
        raise MissingKey(
            f"the execution is bound to the callback key {id!r}, which is not in {KEYS_VARIABLE}: put it back, behind "
            "the newer ones, until the executions that began under it have ended"
        )
    return ids.sign(key, secret)


@cache
def known_keys() -> dict[str, str]:
    """The keys in the environment of this process, which is read once: a look costs 8 thousand instructions, and each
    start of an execution has to know.
    """
    return read_keys(os.environ.get(KEYS_VARIABLE, ""))
