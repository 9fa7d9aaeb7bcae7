"""Tokens of callbacks: which operation of which execution one answers, signed."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast import ids
from holdfast.errors import InvalidToken
from holdfast.workflows.callback_keys import MissingKey, key_id_of, signing_key

TOKEN_VERSION: Final = "hf1"  # noqa: S105 - a version, not a secret
KEYED_VERSION: Final = "hf2"
"""Of tokens that name the key by which they are signed, before their scope."""
LONGEST_TOKEN_CHARACTERS: Final = 4_000


class TokenScope(Struct, frozen=True, array_like=True):
    """What a token gives access to: one operation of one run of one execution."""

    partition: str
    run: int
    op: str


def make_token(partition: str, run: int, op: str, secret: str) -> str:
    """A token that only the holder of the execution's secret (192 random bits) can make, and of the key to which it is
    bound, if it is. Raises ``MissingKey``.
    """
    scope = base64.urlsafe_b64encode(msgspec.json.encode(TokenScope(partition, run, op))).decode().rstrip("=")
    key = key_id_of(secret)
    signed = f"{KEYED_VERSION}.{key}.{scope}" if key else f"{TOKEN_VERSION}.{scope}"
    return f"{signed}.{ids.sign(signing_key(secret), signed if key else scope)}"


def token_scope(token: str) -> TokenScope:
    """What the token says it is for. Check it with ``verify_token`` before believing that."""
    given: Any = token  # whatever its annotation says
    if not isinstance(given, str) or len(given) > LONGEST_TOKEN_CHARACTERS or not given.isascii():
        raise invalid_token()
    try:
        version, *key, scope, _ = token.split(".")
        if (version, len(key)) not in {(TOKEN_VERSION, 0), (KEYED_VERSION, 1)}:
            raise invalid_token()
        padded = scope + "=" * (-len(scope) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=TokenScope)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise invalid_token() from None


def verify_token(token: str, secret: str) -> None:
    """Raise ``InvalidToken`` unless the token was made with this secret, and with the key to which that is bound. Takes
    the same time for every wrong one.
    """
    signed, _, signature = token.rpartition(".")
    version, *key, scope = signed.split(".")
    try:
        signer = signing_key(secret)
    except MissingKey:
        raise invalid_token() from None
    if key != [each for each in [key_id_of(secret)] if each]:
        raise invalid_token()
    if not ids.signature_matches(signer, signed if version == KEYED_VERSION else scope, signature):
        raise invalid_token()


def invalid_token() -> InvalidToken:
    """One text for forged, damaged, used and late tokens, so that a guesser learns nothing."""
    return InvalidToken("this callback token is not valid, or its callback has been answered or has timed out")
