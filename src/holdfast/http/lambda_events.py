"""HTTP requests in the events of AWS Lambda's front doors, and responses in the form that they take. Pure functions.

The shapes are those of the AWS pages "Invoking Lambda function URLs" (Request and response payloads), "Create AWS
Lambda proxy integrations for HTTP APIs in API Gateway" (payload format version 2.0), "Lambda proxy integrations in API
Gateway" for REST APIs (payload format version 1.0), and "Use Lambda functions as targets of an Application Load
Balancer".

Two differences matter here. An HTTP API decodes the path before it passes it on, so that an id with a slash in it
looks like two parts; function URLs, REST APIs and load balancers pass it on as it was sent. And a REST API decodes the
query; a load balancer does not.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from holdfast.errors import InvalidInput, PayloadTooLarge
from holdfast.http.messages import REMOTE, Pairs, Request, Response, Source, Vouched

Event = Mapping[str, Any]

DEFAULT_STAGE: Final = "$default"
TEXTS: Final = ("application/json", "application/problem+json", "text/")


class Shape(Enum):
    """The shape of an event, and of the response to it."""

    V2 = "function URL, or HTTP API with payload format 2.0"
    V1 = "REST API, or HTTP API with payload format 1.0"
    ALB = "load balancer"
    ALB_MULTI_VALUE = "load balancer, with multi-value headers on"


def shape_of(event: Any) -> Shape | None:
    """The shape of an event that is an HTTP request; ``None`` if it is none."""
    if not isinstance(event, dict):
        return None
    known = cast("Event", event)
    context = _mapping(known.get("requestContext"))
    if known.get("version") == "2.0" and "method" in _mapping(context.get("http")):
        return Shape.V2
    if not isinstance(known.get("httpMethod"), str) or not isinstance(known.get("path"), str):
        return None
    if "elb" in context:
        return Shape.ALB_MULTI_VALUE if isinstance(known.get("multiValueHeaders"), dict) else Shape.ALB
    return Shape.V1 if context else None


def to_request(event: Any) -> Request | None:
    """The request in an event, without its body; ``None`` if the event is no HTTP request.

    ``source`` names the caller that the front door has authenticated by IAM, for ``iam_caller``.
    """
    shape = shape_of(event)
    match shape:
        case None:
            return None
        case Shape.V2:
            method = str(event["requestContext"]["http"]["method"])
            path, query, headers = _path_of_v2(event), str(event.get("rawQueryString") or ""), _headers_of_v2(event)
        case Shape.V1:
            method, path = str(event["httpMethod"]), _escaped(event["path"])
            query, headers = urlencode(_pairs(event, "queryStringParameters"), errors="replace"), _headers(event)
        case Shape.ALB | Shape.ALB_MULTI_VALUE:
            method, path = str(event["httpMethod"]), str(event["path"])
            pairs = _pairs(event, "queryStringParameters")
            query, headers = "&".join(f"{name}={value}" for name, value in pairs), _headers(event)
    return Request(
        method=method.upper(),
        path=path,
        query=query,
        headers=headers,
        source=_iam_caller(event) or REMOTE,
    )


def to_response(response: Response, shape: Shape) -> dict[str, Any]:
    """A response in the form for events of this shape."""
    kind = response.header("content-type") or "text/plain"
    as_text = kind.startswith(TEXTS)
    body = response.body.decode() if as_text else base64.b64encode(response.body).decode()
    answer: dict[str, Any] = {"statusCode": response.status, "body": body, "isBase64Encoded": not as_text}
    match shape:
        case Shape.V2:
            cookies = [value for name, value in response.headers if name == "set-cookie"]
            headers = _joined([pair for pair in response.headers if pair[0] != "set-cookie"])
            return answer | {"headers": headers} | ({"cookies": cookies} if cookies else {})
        case Shape.V1:
            return answer | {"multiValueHeaders": _listed(response.headers)}
        case Shape.ALB:
            return answer | {"headers": _joined(list(response.headers)), "statusDescription": _described(response)}
        case Shape.ALB_MULTI_VALUE:
            return answer | {
                "multiValueHeaders": _listed(response.headers),
                "statusDescription": _described(response),
            }


# ── Requests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def stage_path(event: Event) -> str:
    """The path of the stage that browsers have in their addresses, and the path of a request has not; empty for none.

    An HTTP API tells both together. A REST API tells the path as browsers see it apart
    (https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html).
    """
    context = _mapping(event.get("requestContext"))
    if isinstance(event.get("path"), str):
        whole, path = str(context.get("path", "")), str(event["path"])
        return quote(whole.removesuffix(path), errors="replace") if whole.endswith(path) else ""
    stage, raw = context.get("stage"), str(event.get("rawPath") or "/")
    if ".lambda-url." in str(context.get("domainName", "")) or stage in {None, "", DEFAULT_STAGE}:
        return ""
    return quote(f"/{stage}", errors="replace") if raw.startswith(f"/{stage}/") else ""


def _path_of_v2(event: Event) -> str:
    raw = str(event.get("rawPath") or "/")
    if ".lambda-url." in str(_mapping(event.get("requestContext")).get("domainName", "")):
        return raw
    return quote(raw, errors="replace").removeprefix(stage_path(event))  # an HTTP API has decoded it


def _escaped(path: str) -> str:
    """Escape a path that an HTTP API with payload format 1.0 may have decoded. A REST API's needs no escaping."""
    return quote(path, safe="/%:@!$&'()*+,;=~", errors="replace")


def _headers_of_v2(event: Event) -> Pairs:
    """The headers. This payload format joins several values of a header by commas, and keeps cookies apart."""
    cookies = event.get("cookies")
    given = [(str(name).lower(), str(value)) for name, value in _mapping(event.get("headers")).items()]
    if isinstance(cookies, list) and cookies:
        given.append(("cookie", "; ".join(map(str, cast("list[Any]", cookies)))))
    return tuple(given)


def _headers(event: Event) -> Pairs:
    return tuple((name.lower(), value) for name, value in _pairs(event, "headers"))


def _pairs(event: Event, name: str) -> list[tuple[str, str]]:
    """The pairs of a field, from its multi-value variant if the event has that."""
    multi = _mapping(event.get(f"multiValue{name[0].upper()}{name[1:]}"))
    if multi:
        return [(str(each), str(value)) for each, values in multi.items() for value in _listing(values)]
    return [(str(each), str(value)) for each, value in _mapping(event.get(name)).items()]


def body_of(event: Event, limit_bytes: int) -> bytes:
    """The body of the request in an event, decoded.

    Raises ``PayloadTooLarge`` if it is over the limit, ``InvalidInput`` if it is broken.
    """
    body = event.get("body")
    if not isinstance(body, str):
        return b""
    encoded = bool(event.get("isBase64Encoded"))
    if (len(body) * 3 // 4 - 2 if encoded else len(body)) > limit_bytes:
        raise PayloadTooLarge(f"the body is over {limit_bytes} bytes")
    if not encoded:
        return body.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("the event says that its body is base 64, but it is not") from None


def _iam_caller(event: Event) -> Source | None:
    """The caller that the front door has authenticated by IAM. Only a front door can write the request's context."""
    context = _mapping(event.get("requestContext"))
    by_v2 = _mapping(_mapping(context.get("authorizer")).get("iam")).get("userArn")
    by_v1 = _mapping(context.get("identity")).get("userArn")
    arn = by_v2 or by_v1
    return Vouched(arn) if isinstance(arn, str) and arn else None


def _listing(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _mapping(value: Any) -> Event:
    return cast("Event", value) if isinstance(value, dict) else {}


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _joined(headers: list[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _listed(headers: Pairs) -> dict[str, list[str]]:
    listed: dict[str, list[str]] = {}
    for name, value in headers:
        listed.setdefault(name, []).append(value)
    return listed


def _described(response: Response) -> str:
    """The status with its phrase, which a load balancer needs."""
    try:
        return f"{response.status} {HTTPStatus(response.status).phrase}"
    except ValueError:
        return f"{response.status} Unknown"
