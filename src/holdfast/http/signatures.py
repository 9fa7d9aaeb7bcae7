"""Requests that are signed as AWS's SDKs sign them, by Signature Version 4, with a secret that the server knows too.

AWS General Reference, "Signing AWS API requests": the canonical request, the string to sign, the key derived from the
secret, the date, the region and the service. Region and service may be any: they only have to be the ones signed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from holdfast.http.messages import Request

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SKEW_SECONDS: Final = 900
"""How far a signature's time may be from the server's, as on AWS."""

_CREDENTIAL: Final = re.compile(
    r"(?P<key>[^/,\s]+)/(?P<date>\d{8})/(?P<region>[\w-]+)/(?P<service>[\w-]+)/aws4_request"
)
_HEADER: Final = re.compile(
    rf"{ALGORITHM}\s+Credential=(?P<credential>[^,\s]+),\s*SignedHeaders=(?P<headers>[^,\s]+),\s*"
    r"Signature=(?P<signature>[0-9a-f]{64})"
)
_SPACES: Final = re.compile(r" +")


class Signature(Struct, frozen=True):
    """What a signed request says of its signature. Nothing of it is verified yet."""

    key_id: str
    scope: str
    date: str
    region: str
    service: str
    headers: tuple[str, ...]
    value: str

    def matches(self, request: Request, secret: str, now_ms: int) -> bool:
        """Whether this secret signed the whole request, its body too, not long ago. Compares in constant time."""
        sent_at = "".join(request.header_values("x-amz-date"))
        if "host" not in self.headers or "x-amz-date" not in self.headers or not _is_recent(sent_at, self.date, now_ms):
            return False
        text = "\n".join((ALGORITHM, sent_at, self.scope, _sha256(_canonical(request, self.headers).encode())))
        return hmac.compare_digest(self.value, hmac.new(self._key(secret), text.encode(), hashlib.sha256).hexdigest())

    def _key(self, secret: str) -> bytes:
        key = f"AWS4{secret}".encode()
        for part in (self.date, self.region, self.service, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


def signature_of(request: Request) -> Signature | None:
    """The signature of a request; ``None`` if it has none, or a header that is none."""
    given = request.header_values("authorization")
    found = _HEADER.fullmatch(given[0].strip()) if len(given) == 1 else None
    credential = None if found is None else _CREDENTIAL.fullmatch(found["credential"])
    if found is None or credential is None:
        return None
    return Signature(
        key_id=credential["key"],
        scope=found["credential"].partition("/")[2],
        date=credential["date"],
        region=credential["region"],
        service=credential["service"],
        headers=tuple(found["headers"].split(";")),
        value=found["signature"],
    )


def _canonical(request: Request, signed: tuple[str, ...]) -> str:
    headers = "".join(f"{name}:{_value(request, name)}\n" for name in signed)
    query = "&".join(sorted(pair if "=" in pair else f"{pair}=" for pair in request.query.split("&") if pair))
    path = quote(request.path, safe="/~")  # once more than it was sent, as for every service but S3
    return "\n".join((request.method, path, query, headers, ";".join(signed), _sha256(request.body)))


def _value(request: Request, name: str) -> str:
    return ",".join(_SPACES.sub(" ", value.strip()) for value in request.header_values(name))


def _is_recent(sent_at: str, date: str, now_ms: int) -> bool:
    try:
        sent = datetime.strptime(sent_at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    return sent_at.startswith(date) and abs(sent.timestamp() - now_ms / 1000) <= SKEW_SECONDS


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
