"""Signature Version 4, for the one form of request that services with a JSON protocol take: ``POST /`` with a body.

The steps are those of "Create a signed AWS API request" (IAM user guide:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final

from msgspec import Struct

from holdfast.clock import moment

ALGORITHM: Final = "AWS4-HMAC-SHA256"
CONTENT_TYPE: Final = "application/x-amz-json-1.0"
SIGNED: Final = "content-type;host;x-amz-date;x-amz-target"
SIGNED_IF_TEMPORARY: Final = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"


class Keys(Struct, frozen=True):
    """Credentials: an access key, and the session token of temporary ones."""

    id: str
    secret: str
    token: str | None = None


class Signer:
    """Signs requests to one service in one region. ``host`` is as the ``Host`` header has it, with an unusual port."""

    def __init__(self, service: str, region: str, host: str) -> None:
        self._service = service
        self._region = region
        self._host = host
        self._derived: tuple[Keys, str, bytes] | None = None

    def headers(self, keys: Keys, target: str, body: bytes, now_ms: int) -> str:
        """The lines of the headers that are signed, and of the signature, for a request sent at ``now_ms``."""
        stamp = moment(now_ms).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{stamp[:8]}/{self._region}/{self._service}/aws4_request"
        token = "" if keys.token is None else f"x-amz-security-token:{keys.token}\n"
        signed = SIGNED if keys.token is None else SIGNED_IF_TEMPORARY
        headers = f"content-type:{CONTENT_TYPE}\nhost:{self._host}\nx-amz-date:{stamp}\n{token}x-amz-target:{target}\n"
        canonical = f"POST\n/\n\n{headers}\n{signed}\n{sha256(body).hexdigest()}"
        told = f"{ALGORITHM}\n{stamp}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key(keys, stamp[:8]), told.encode(), "sha256").hex()
        authorization = f"{ALGORITHM} Credential={keys.id}/{scope}, SignedHeaders={signed}, Signature={signature}"
        return headers.replace("\n", "\r\n") + f"authorization:{authorization}\r\n"

    def _key(self, keys: Keys, day: str) -> bytes:
        """The signing key of a day. It is derived once."""
        if self._derived is None or self._derived[0] != keys or self._derived[1] != day:
            key = f"AWS4{keys.secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._derived = (keys, day, key)
        return self._derived[2]
