"""``http:invoke``: a Task that sends one request to an API, by a connection that the app names.

An address out of data alone leads nowhere: the endpoint has to lie below the URL of the connection, no redirect is
followed, and an address of a private network is refused, whatever its name resolves to (SSRF).
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from holdfast.asl.errors import Error
from holdfast.asl.jsontext import NotJson, read
from holdfast.asl.validation.kinds import is_object
from holdfast.errors import ConfigurationError
from holdfast.workflows.scope import current

METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
PATIENCE_SECONDS: Final = 60.0
"""How long one request may be silent (Step Functions Developer Guide, "Call HTTPS APIs": 60 s)."""

LARGEST_RESPONSE_BYTES: Final = 262_144

OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key"})
"""Headers that are not for a definition to set."""

SOCKET: Final = "States.Http.Socket"


class Connection(Struct, frozen=True):
    """An API that machines may call. ``headers`` go with each request, and no definition sees or changes them.

    hf.asl.Connection("https://api.example/v1", headers={"authorization": f"Bearer {token}"})

    ``private`` allows ``http`` and addresses of private networks. Raises ``ConfigurationError`` for another URL.
    """

    url: str
    headers: Mapping[str, str] = {}
    private: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        schemes = ("https", "http") if self.private else ("https",)
        if parts.scheme not in schemes or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise ConfigurationError(
                f"a connection is to an https URL without a query, such as https://api.example/v1, not {self.url!r}; "
                "private=True allows http and addresses of private networks"
            )


def invoker(connections: Mapping[str, Connection]) -> Callable[[Any], Any]:
    """What does the work of ``http:invoke``."""

    def invoke(given: Any) -> Any:
        asked = cast("dict[str, Any]", given if isinstance(given, dict) else {})
        return _invoke(asked, _connection(asked, connections))

    return invoke


def _connection(asked: Mapping[str, Any], connections: Mapping[str, Connection]) -> Connection:
    told: Any = asked.get("Authentication") or asked.get("InvocationConfig")
    text = str(told.get("ConnectionArn", "")) if is_object(told) else ""
    name = text.partition(":connection/")[2].partition("/")[0] or text
    if name not in connections:
        raise Error(
            "Events.ConnectionResource.ResourceNotFound",
            f"no connection is called {name!r} here: name it with http= where the machines are declared",
        )
    return connections[name]


def _invoke(asked: Mapping[str, Any], connection: Connection) -> dict[str, Any]:
    endpoint, method = str(asked.get("ApiEndpoint", "")), str(asked.get("Method", ""))
    if method not in METHODS or not _lies_below(endpoint, connection.url):
        raise Error(SOCKET, f"{method} {endpoint} is not a request that the connection allows")
    parts = urlsplit(endpoint)
    query = urlencode(_pairs(asked.get("QueryParameters")), quote_via=quote)
    path = (parts.path or "/") + (f"?{query}" if query else "")
    body = _body(asked)
    headers = {name.lower(): value for name, value in _pairs(asked.get("Headers"))}
    headers = {name: value for name, value in headers.items() if name not in OWN_HEADERS}
    if body is not None:
        headers.setdefault("content-type", "application/json")
    headers |= {name.lower(): value for name, value in connection.headers.items()}
    headers["idempotency-key"] = current().idempotency_key
    try:
        return _answered(_sent(parts.scheme, parts.hostname or "", parts.port, connection, method, path, body, headers))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Error(SOCKET, f"{method} {parts.hostname}: {type(error).__name__}: {error}") from error


def _lies_below(endpoint: str, url: str) -> bool:
    """Whether an endpoint is the URL of a connection, or lies below it."""
    given, allowed = urlsplit(endpoint), urlsplit(url)
    odd = given.query or given.fragment or "\\" in endpoint or ".." in given.path or "%2e" in given.path.lower()
    if odd or (given.scheme, given.netloc) != (allowed.scheme, allowed.netloc):
        return False
    base = allowed.path.rstrip("/")
    return given.path in (base, allowed.path) or given.path.startswith(f"{base}/")


def _pairs(given: Any) -> list[tuple[str, str]]:
    fields = cast("dict[str, Any]", given if isinstance(given, dict) else {})
    return [
        (name, each if isinstance(each, str) else json.dumps(each))
        for name, value in fields.items()
        for each in (cast("list[Any]", value) if isinstance(value, list) else [value])
    ]


def _body(asked: Mapping[str, Any]) -> bytes | None:
    if "RequestBody" not in asked:
        return None
    body: Any = asked["RequestBody"]
    transform: Any = asked.get("Transform")
    if is_object(transform) and transform.get("RequestBodyEncoding") == "URL_ENCODED":
        return urlencode(_pairs(body), quote_via=quote).encode()
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _sent(
    scheme: str,
    host: str,
    port: int | None,
    connection: Connection,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
) -> tuple[int, str, list[tuple[str, str]], bytes]:
    address = _address(host, port or (443 if scheme == "https" else 80), private=connection.private)
    sender = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    sender.sock = socket.create_connection(address, PATIENCE_SECONDS)  # the address that was looked at, no other one
    try:
        if scheme == "https":
            sender.sock = ssl.create_default_context().wrap_socket(sender.sock, server_hostname=host)
        sender.request(method, path, body, dict(headers))
        response = sender.getresponse()
        data = response.read(LARGEST_RESPONSE_BYTES + 1)
        return response.status, response.reason, response.getheaders(), data
    finally:
        sender.close()


def _address(host: str, port: int, *, private: bool) -> tuple[str, int]:
    """Where the host is. Raises ``OSError`` if that is in a private network, and none is allowed."""
    for *_, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        address = str(found[0])
        if private or ipaddress.ip_address(address.partition("%")[0]).is_global:
            return address, port
    raise OSError(f"{host} is in a private network, and the connection does not allow that")


def _answered(answer: tuple[int, str, list[tuple[str, str]], bytes]) -> dict[str, Any]:
    status, reason, headers, data = answer
    if len(data) > LARGEST_RESPONSE_BYTES:
        raise Error("States.DataLimitExceeded", f"the response is over {LARGEST_RESPONSE_BYTES} bytes")
    text = data.decode(errors="replace")
    if not 200 <= status < 300:
        raise Error(f"States.Http.StatusCode.{status}", text or reason)
    told: dict[str, list[str]] = {}
    for name, value in headers:
        told.setdefault(name.lower(), []).append(value)
    try:
        body: Any = read(text)
    except NotJson:
        body = text
    return {"Headers": told, "ResponseBody": body, "StatusCode": status, "StatusText": reason}
