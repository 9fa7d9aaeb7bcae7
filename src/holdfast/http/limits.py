"""What one request may take, and the checks that refuse one that takes more."""

from __future__ import annotations

from msgspec import Struct

from holdfast.codec.collisions import MOST_ALIKE, numbers_collide
from holdfast.codec.jsontext import holds_more_values
from holdfast.http.exchange import announced_bytes
from holdfast.http.messages import Request
from holdfast.http.problems import Problem


class HttpLimits(Struct, frozen=True, kw_only=True):
    """What one request may take. A request over a limit is refused, except for ``wait_seconds``: a longer wait is cut
    to it.

    ``body_seconds`` is how long a body may take to arrive. ``body_values`` limits the values in its JSON, at all levels
    together. ``bodies_bytes`` limits the bodies of all requests under way together. ``headers_bytes`` counts names and
    values.
    """

    body_bytes: int = 4 * 1024 * 1024
    body_seconds: float = 30.0
    body_values: int = 100_000
    bodies_bytes: int = 64 * 1024 * 1024
    wait_seconds: float = 25.0
    headers: int = 100
    headers_bytes: int = 32 * 1024
    path_bytes: int = 8 * 1024


def check_size(request: Request, limits: HttpLimits) -> None:
    """Raise ``Problem`` if a request is larger than allowed, or is compressed."""
    if len(request.path) + len(request.query) > limits.path_bytes:
        raise Problem(414, "path_too_long", f"path and query are over {limits.path_bytes} bytes")
    size_bytes = sum(len(name) + len(value) for name, value in request.headers)
    if len(request.headers) > limits.headers or size_bytes > limits.headers_bytes:
        raise Problem(
            431, "headers_too_large", f"over {limits.headers} headers, or over {limits.headers_bytes} bytes of them"
        )
    if request.header_values("content-length") and request.header_values("transfer-encoding"):
        # Where a body ends must be unambiguous (RFC 9112, 6.3), or a proxy may see another request behind it.
        raise Problem(400, "invalid_request", "send a content-length or a transfer-encoding, not both")
    check_body_size(max(len(request.body), announced_bytes(request.header_values("content-length"))), limits)
    if any(value.strip().lower() not in {"", "identity"} for value in request.header_values("content-encoding")):
        raise Problem(415, "compressed_body", "send the body uncompressed")


def check_body(body: bytes, limits: HttpLimits) -> None:
    """Raise ``Problem`` if a body is too large, holds too many values, or too many numbers with equal hashes."""
    check_body_size(len(body), limits)
    if holds_more_values(body, limits.body_values):
        raise Problem(413, "payload_too_large", f"the body holds over {limits.body_values} values")
    if numbers_collide(body):
        raise Problem(
            400, "invalid_input", f"the body holds over {MOST_ALIKE} numbers that have the hash of another one"
        )


def check_body_size(size_bytes: int, limits: HttpLimits) -> None:
    """Raise ``Problem`` if a body is larger than allowed."""
    if size_bytes > limits.body_bytes:
        raise Problem(413, "payload_too_large", f"the body is over {limits.body_bytes} bytes")
