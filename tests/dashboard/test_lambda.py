"""The dashboard behind a function URL: every page and every action, one request at a time."""

from __future__ import annotations

import base64
from urllib.parse import urlencode

import pytest
from tests.dashboard.conftest import TOKENS, Page, tokens
from tests.http.test_lambda_events import http_api, rest_api

import holdfast as hf

DOMAIN = "abc.lambda-url.eu-central-1.on.aws"


class Url:
    """A browser at a function URL."""

    def __init__(self, handler) -> None:
        self.handler = handler
        self.cookies: dict[str, str] = {}

    def send(self, method, path, query="", fields=None, **headers):
        body = None if fields is None else base64.b64encode(urlencode(fields, doseq=True).encode()).decode()
        given = {"host": DOMAIN, "x-forwarded-proto": "https"} | headers
        if fields is not None:
            given |= {"origin": f"https://{DOMAIN}", "content-type": "application/x-www-form-urlencoded"}
        event = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": query,
            "headers": given,
            "cookies": [f"{name}={value}" for name, value in self.cookies.items()],
            "requestContext": {"http": {"method": method}, "domainName": DOMAIN, "stage": "$default"},
            "isBase64Encoded": body is not None,
        } | ({} if body is None else {"body": body})
        answer = self.handler(event, None)
        for cookie in answer.get("cookies", []):
            name, _, rest = cookie.partition("=")
            self.cookies[name] = rest.partition(";")[0]
        return answer


def test_the_dashboard_is_served_behind_a_function_url(shop):
    handler = shop.lambda_handler(http=tokens(), dashboard=hf.Dashboard())
    with_url = Url(handler)
    assert with_url.send("GET", "/dashboard/executions")["statusCode"] == 303
    assert with_url.send("POST", "/dashboard/login", fields={"token": "wrong"})["statusCode"] == 403
    entered = with_url.send("POST", "/dashboard/login", fields={"token": TOKENS["ann"]})
    assert entered["statusCode"] == 303
    (name,) = with_url.cookies
    assert name.startswith("__Secure-")
    assert "Secure" in entered["cookies"][0]
    started = with_url.send(
        "POST", "/v1/workflows/approval/a%2Fb", authorization=f"Bearer {TOKENS['ann']}", fields=None
    )
    assert started["statusCode"] == 400, "the API is served next to it"
    handler({"holdfast": "start", "workflow": "approval", "id": "a/b", "input": [5]}, None)
    page = with_url.send("GET", "/dashboard/execution", "workflow=approval&id=a%2Fb")
    assert page["statusCode"] == 200
    assert 'data-live="poll"' in page["body"]
    csrf = Page(page["body"]).root.all("input", name="csrf")[0].attributes["value"]
    fields = {"csrf": csrf, "action": "pause", "on": '["approval", "a/b"]', "back": "/dashboard/executions"}
    assert with_url.send("POST", "/dashboard/act", fields=fields)["statusCode"] == 303
    assert "paused" in with_url.send("GET", "/dashboard/executions")["body"]
    assert with_url.send("GET", "/dashboard/events", "watch=executions")["statusCode"] == 404
    icon = with_url.send("GET", "/dashboard/static/icon.svg")
    assert icon["isBase64Encoded"]
    assert base64.b64decode(icon["body"]).startswith(b"<svg")
    assert with_url.send("GET", "/dashboardx")["statusCode"] == 404
    handler.close()


def test_a_dashboard_behind_lambda_needs_callers(shop):
    with pytest.raises(hf.ConfigurationError):
        shop.lambda_handler(dashboard=hf.Dashboard())


@pytest.mark.parametrize(
    "at_stage",
    [
        lambda path: rest_api("GET", path),
        lambda path: http_api("GET", f"/prod{path}", stage="prod"),
    ],
)
def test_pages_lead_to_pages_of_their_stage(shop, at_stage):
    handler = shop.lambda_handler(http=lambda _request: "ann", dashboard=hf.Dashboard())
    event = at_stage("/dashboard/executions") | {"rawQueryString": "", "body": None}
    event |= {"queryStringParameters": None, "multiValueQueryStringParameters": None}
    answer = handler(event, None)
    handler.close()
    assert answer["statusCode"] == 200
    page = Page(answer["body"]).root
    led_to = [each.attributes["href"] for each in page.all("a") if each.attributes["href"] != "#main"]
    assert led_to
    assert all(each.startswith("/prod/dashboard/") for each in led_to)
    cookies = answer.get("cookies") or answer["multiValueHeaders"]["set-cookie"]
    assert "Path=/prod/dashboard;" in cookies[0]
