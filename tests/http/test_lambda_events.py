"""The shapes of AWS Lambda's HTTP front doors, after the example events of AWS's documentation.

Function URLs: "Invoking Lambda function URLs". HTTP APIs: "Create AWS Lambda proxy integrations for HTTP APIs in API
Gateway". REST APIs: "Lambda proxy integrations in API Gateway". Load balancers: "Use Lambda functions as targets of an
Application Load Balancer".
"""

from __future__ import annotations

import base64
import json

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.http.lambda_events import Shape, body_of, shape_of, to_request, to_response
from holdfast.http.messages import Remote, Vouched
from holdfast.http.respond import respond

ARN = "arn:aws:iam::111122223333:user/ann"


def function_url(method="POST", path="/v1/workflows/checkout/a", *, iam=True, **more):
    authorizer = {"iam": {"accessKey": "AKIA...", "accountId": "111122223333", "userArn": ARN, "userId": "AIDA..."}}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "wait=10s&tag=a%3Db",
        "cookies": ["cookie1", "cookie2"],
        "headers": {"Header1": "value1", "header2": "value1,value2", "content-type": "application/json"},
        "queryStringParameters": {"wait": "10s", "tag": "a=b"},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "<urlid>",
            "authentication": None,
            "authorizer": authorizer if iam else None,
            "domainName": "<url-id>.lambda-url.us-west-2.on.aws",
            "domainPrefix": "<url-id>",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "123.123.123.123",
                "userAgent": "agent",
            },
            "requestId": "id",
            "routeKey": "$default",
            "stage": "$default",
            "time": "12/Mar/2020:19:03:58 +0000",
            "timeEpoch": 1583348638390,
        },
        "body": '["tok"]',
        "pathParameters": None,
        "isBase64Encoded": False,
        "stageVariables": None,
    } | more


def http_api(method="POST", path="/v1/workflows/checkout/a", *, stage="$default", **more):
    event = function_url(method, path)
    context = event["requestContext"] | {"domainName": "id.execute-api.us-east-1.amazonaws.com", "stage": stage}
    return event | {"requestContext": context} | more


def rest_api(method="POST", path="/v1/workflows/checkout/a", **more):
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": {"Header1": "value1", "Header2": "value2", "Content-Type": "application/json"},
        "multiValueHeaders": {
            "Header1": ["value1"],
            "Header2": ["value1", "value2"],
            "Content-Type": ["application/json"],
        },
        "queryStringParameters": {"wait": "10s", "tag": "a=b&c"},
        "multiValueQueryStringParameters": {"wait": ["10s"], "tag": ["a=b&c"]},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "id",
            "httpMethod": method,
            "identity": {"sourceIp": "IP", "userAgent": "user-agent", "userArn": ARN},
            "path": f"/prod{path}",
            "protocol": "HTTP/1.1",
            "requestId": "id=",
            "resourcePath": "/{proxy+}",
            "stage": "prod",
        },
        "pathParameters": {"proxy": path.lstrip("/")},
        "stageVariables": None,
        "body": '["tok"]',
        "isBase64Encoded": False,
    } | more


def balancer(method="POST", path="/v1/workflows/checkout/a", *, multi=False, **more):
    arn = "arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/lambda-279XGJDqGZ5rsrHC2Fjr/49e9d65c45c6791a"
    headers = {"header1": "value1", "content-type": "application/json", "x-forwarded-for": "72.12.164.125"}
    query = {"wait": "10s", "tag": "a%3Db"}
    listed = {
        "multiValueHeaders": {name: [value] for name, value in headers.items()} | {"header2": ["value1", "value2"]},
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()},
    }
    return {
        "requestContext": {"elb": {"targetGroupArn": arn}},
        "httpMethod": method,
        "path": path,
        **(listed if multi else {"headers": headers, "queryStringParameters": query}),
        "body": '["tok"]',
        "isBase64Encoded": False,
    } | more


def balancer_multi(*args, **more):
    return balancer(*args, multi=True, **more)


DOORS = {
    function_url: Shape.V2,
    http_api: Shape.V2,
    rest_api: Shape.V1,
    balancer: Shape.ALB,
    balancer_multi: Shape.ALB_MULTI_VALUE,
}

doors = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)


@doors
async def test_a_request_is_served_and_answered_in_its_shape(memory_shop, door):
    event = door()
    shape = shape_of(event)
    assert shape is DOORS[door]
    async with memory_shop.working() as api:
        request = to_request(event)
        assert request is not None
        request = replace(request, body=body_of(event, 1000))
        answer = to_response(await respond(memory_shop.app, request, api.options), shape)
    assert answer["statusCode"] == 200
    assert answer["isBase64Encoded"] is False
    body = json.loads(answer["body"])
    assert body["result"] == {"payment": "pay-tok-100"}
    assert body["tags"] == ({"a": "b&c"} if door is rest_api else {"a": "b"})
    json.dumps(answer)


@doors
def test_headers_keep_all_their_values(door):
    request = to_request(door())
    assert request is not None
    assert request.header_values("header1") == ("value1",)
    assert request.header_values("content-type") == ("application/json",)
    expected = {
        function_url: ("value1,value2",),
        http_api: ("value1,value2",),
        rest_api: ("value1", "value2"),
        balancer: (),
        balancer_multi: ("value1", "value2"),
    }
    assert request.header_values("header2") == expected[door]
    assert request.header_values("cookie") == (("cookie1; cookie2",) if DOORS[door] is Shape.V2 else ())


@doors
def test_a_body_may_be_base_64_or_missing(door):
    data = b"\x00\xff"
    encoded = base64.b64encode(data).decode()
    assert body_of(door(body=encoded, isBase64Encoded=True), 2) == data
    assert body_of(door(body=None), 0) == b""
    assert body_of(door(body="ü"), 2) == "ü".encode()
    with pytest.raises(hf.InvalidInput, match="base 64"):
        body_of(door(body="?", isBase64Encoded=True), 2)


@doors
@pytest.mark.parametrize("encoded", [False, True])
def test_a_body_over_the_limit_is_not_decoded(door, encoded):
    with pytest.raises(hf.PayloadTooLarge, match="over 6 bytes"):
        body_of(door(body="?" * 13, isBase64Encoded=encoded), 6)


@doors
def test_a_path_with_a_percent_sign_in_an_id_is_the_one_that_was_sent(door):
    """An HTTP API decodes the path; the others hand it on as it was sent."""
    sent, given = "/v1/workflows/checkout/50%25", "/v1/workflows/checkout/50%"
    assert to_request(door("GET", given if door is http_api else sent)).path == sent


@pytest.mark.parametrize("door", [function_url, rest_api, balancer, balancer_multi])
def test_a_slash_in_an_id_survives_but_for_http_apis(door):
    path = "/v1/workflows/checkout/a%2Fb"
    assert to_request(door("GET", path)).path == path


def test_the_stage_of_an_http_api_is_no_part_of_the_path():
    assert to_request(http_api(path="/prod/v1/health", stage="prod")).path == "/v1/health"
    assert to_request(http_api(path="/products/v1", stage="prod")).path == "/products/v1"


def test_several_values_of_a_query_parameter_are_kept():
    several = {"tag": ["a=1", "b=2"]}
    assert to_request(rest_api(multiValueQueryStringParameters=several)).query == "tag=a%3D1&tag=b%3D2"
    assert to_request(balancer_multi(multiValueQueryStringParameters=several)).query == "tag=a=1&tag=b=2"


@pytest.mark.parametrize("missing", [None, {}])
def test_what_a_door_leaves_out_is_empty(missing):
    event = rest_api("GET", multiValueHeaders=missing, headers=missing, body=None)
    event |= {"queryStringParameters": missing, "multiValueQueryStringParameters": missing}
    request = to_request(event)
    assert request == hf.Request(method="GET", path="/v1/workflows/checkout/a", source=Vouched(ARN))


# ── Who calls ───────────────────────────────────────────────────────────────────────────────────────────────────────


@doors
def test_the_door_says_whom_iam_knows(door):
    knows = door in {function_url, http_api, rest_api}
    assert to_request(door()).source == (Vouched(ARN) if knows else Remote())


@pytest.mark.parametrize(
    "event",
    [
        function_url(iam=False),
        function_url(iam=False, headers={"userArn": ARN}, userArn=ARN, identity={"userArn": ARN}),
        rest_api() | {"requestContext": {"identity": {"userArn": None}, "stage": "prod"}},
        rest_api() | {"requestContext": {"identity": None, "stage": "prod"}},
        rest_api() | {"requestContext": {"stage": "prod"}, "headers": {"userArn": ARN}},
    ],
)
def test_nobody_is_authenticated_by_what_he_says_himself(event):
    assert to_request(event).source == Remote()


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "text",
        {},
        {"Records": [{"eventSource": "aws:sqs"}]},
        {"version": "0", "source": "aws.events", "detail": {}},
        {"version": "2.0"},
        {"version": "2.0", "requestContext": {"http": None}},
        {"httpMethod": "GET"},
        {"httpMethod": "GET", "path": "/"},
        {"httpMethod": None, "path": "/", "requestContext": {"elb": {}}},
    ],
)
def test_what_is_no_http_request_is_none(event):
    assert shape_of(event) is None
    assert to_request(event) is None


# ── Responses ───────────────────────────────────────────────────────────────────────────────────────────────────────

RESPONSE = hf.Response(
    201,
    (("content-type", "application/json"), ("vary", "a"), ("vary", "b"), ("set-cookie", "a=1"), ("set-cookie", "b=2")),
    b"{}",
)


def test_a_response_of_payload_format_2():
    assert to_response(RESPONSE, Shape.V2) == {
        "statusCode": 201,
        "headers": {"content-type": "application/json", "vary": "a, b"},
        "cookies": ["a=1", "b=2"],
        "body": "{}",
        "isBase64Encoded": False,
    }


def test_a_response_of_payload_format_1():
    answer = to_response(RESPONSE, Shape.V1)
    assert answer["multiValueHeaders"]["set-cookie"] == ["a=1", "b=2"]
    assert "cookies" not in answer


def test_a_response_to_a_load_balancer():
    answer = to_response(RESPONSE, Shape.ALB)
    assert answer["statusDescription"] == "201 Created"
    assert answer["headers"]["vary"] == "a, b"
    answer = to_response(RESPONSE, Shape.ALB_MULTI_VALUE)
    assert answer["multiValueHeaders"]["vary"] == ["a", "b"]
    assert "headers" not in answer
    assert to_response(hf.Response(499), Shape.ALB)["statusDescription"] == "499 Unknown"


@pytest.mark.parametrize("shape", Shape)
def test_a_body_that_is_no_text_is_base_64(shape):
    answer = to_response(hf.Response(200, (("content-type", "image/png"),), b"\xff"), shape)
    assert (answer["isBase64Encoded"], base64.b64decode(answer["body"])) == (True, b"\xff")
