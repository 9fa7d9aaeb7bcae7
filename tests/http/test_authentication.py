"""Who may call: nobody that is not known, but for whoever sits at this machine."""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.http.conftest import Api, read

import holdfast as hf
from holdfast.coordination.audit import rows_since
from holdfast.http import authentication
from holdfast.http.messages import Loopback, Remote, Vouched
from holdfast.http.network import is_loopback_host
from holdfast.http.respond import respond
from holdfast.http.routes import ROUTES, find

ALWAYS_SERVED = [route for route in ROUTES if route.is_served is None]
"""Of the protocol of Step Functions each action has a right of its own: see tests/http/states/test_rights.py."""

ANN, GRAFANA = "a" * 32, "b" * 40
PLACES = {
    "workflow": "approval",
    "id": "a",
    "name": "asked",
    "actor": "Cart",
    "key": "k",
    "method": "total",
    "event": "Placed",
    "place": "p",
    "message": "m",
    "operation": "o",
    "queue": "mail",
    "limit": "bank",
    "token": "hf1.x.y",
}


CONTROLS = ("cancel", "terminate", "pause", "resume", "move", "retry", "retry-now", "fork")
READS = {"POST /v1/actors/{actor}/{key}/{method}": hf.Right.READ}
"""Routes that need another right for what is asked here: the method of ``PLACES`` only reads."""


def path_of(route):
    return route.path.format_map(PLACES)


async def status_of(api, method, path, *, source=None, body=b"", **headers):
    given = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    request = hf.Request(method=method, path=path, headers=given, source=source or Remote(), body=body)
    return read(await respond(api.app, request, api.options))


@pytest.mark.parametrize("route", ALWAYS_SERVED, ids=str)
async def test_a_route_is_open_only_if_it_says_so(memory_shop, route):
    async with memory_shop.working(authenticate=None) as api:
        status, answer = await status_of(api, route.method, path_of(route))
        if route.right is None:
            assert status in {200, 400, 404} and "unauthenticated" not in str(answer)
        else:
            assert (status, answer["code"]) == (401, "unauthenticated")


def test_only_callbacks_and_health_are_open():
    assert {str(route) for route in ROUTES if route.right is None} == {
        "GET /v1/health",
        "POST /v1/callbacks/{token}",
        "POST /v1/callbacks/{token}/fail",
        "POST /v1/callbacks/{token}/heartbeat",
    }


def test_nothing_is_changed_by_get():
    assert all((route.method == "GET") == _only_looks(route) for route in ALWAYS_SERVED if route.right)
    assert not any(route.action for route in ROUTES if route.method == "GET")


def _only_looks(route):
    return route.right is hf.Right.READ or (route.right is hf.Right.CONTROL and not route.action)


@pytest.mark.parametrize("route", [route for route in ALWAYS_SERVED if route.right], ids=str)
@pytest.mark.parametrize("right", hf.Right)
async def test_a_caller_does_what_he_has_the_right_to(memory_shop, route, right):
    caller = hf.Caller("ann", frozenset({right}))
    async with memory_shop.working(authenticate=lambda _request: caller) as api:
        status, answer = await status_of(api, route.method, path_of(route))
        needed = READS.get(str(route), route.right)
        assert (status == 403) == (right is not needed)
        if status == 403:
            assert answer["code"] == "forbidden"
            assert answer["detail"] == f"ann has no right to {needed} here"


MATRIX = {
    # action: the right it needs
    ("GET", "/v1/metrics"): "read",
    ("GET", "/v1/workflows"): "read",
    ("GET", "/v1/workflows/approval"): "read",
    ("GET", "/v1/workflows/approval/a"): "read",
    ("GET", "/v1/workflows/approval/a/history"): "read",
    ("GET", "/v1/workflows/approval/a/show"): "read",
    ("GET", "/v1/workflows/approval/a/queries/asked"): "read",
    ("GET", "/v1/actors/Cart/k/total"): "read",
    ("POST", "/v1/actors/Cart/k/total"): "read",
    ("GET", "/v1/actors/Cart/k/requests/r"): "read",
    **{("GET", f"/v1/{name}"): "read" for name in ("overview", "outbox", "schedules", "leases", "workers")},
    ("GET", "/v1/audit"): "control",
    ("GET", "/v1/queues"): "read",
    ("GET", "/v1/queues/mail"): "read",
    **{("POST", f"/v1/queues/mail/{name}"): "control" for name in ("pause", "resume", "set", "reset", "purge")},
    ("GET", "/v1/limits"): "read",
    ("GET", "/v1/limits/bank"): "read",
    **{("POST", f"/v1/limits/bank/{name}"): "control" for name in ("set", "reset")},
    ("POST", "/v1/workflows/approval"): "write",
    ("POST", "/v1/workflows/approval/a"): "write",
    ("POST", "/v1/workflows/approval/a/signals/decision"): "write",
    ("POST", "/v1/actors/Cart/k/add"): "write",
    ("POST", "/v1/actors/Cart/k/add/send"): "write",
    ("POST", "/v1/actors/Cart/k/nothing"): "write",
    ("POST", "/v1/actors/Nobody/k/total"): "write",
    ("POST", "/v1/events/Placed"): "write",
    ("DELETE", "/v1/workflows/approval/a"): "control",
    ("POST", "/v1/workflows/approval/a/callbacks/o"): "control",
    ("GET", "/v1/actors"): "control",
    ("GET", "/v1/actors/Cart"): "control",
    ("GET", "/v1/actors/Cart/k"): "control",
    ("DELETE", "/v1/actors/Cart/k"): "control",
    ("POST", "/v1/actors/Cart/k/halted/resume"): "control",
    ("POST", "/v1/actors/Cart/k/halted/park"): "control",
    ("POST", "/v1/actors/Cart/k/parked/p/unpark"): "control",
    ("DELETE", "/v1/actors/Cart/k/parked/p"): "control",
    ("GET", "/v1/dlq"): "control",
    ("GET", "/v1/dlq/m"): "control",
    ("POST", "/v1/dlq/m/redrive"): "control",
    ("DELETE", "/v1/dlq/m"): "control",
    **{("POST", f"/v1/workflows/approval/a/{action}"): "control" for action in CONTROLS},
}
ROLES = [frozenset(rights) for count in range(4) for rights in combinations(hf.Right, count)]


@pytest.mark.parametrize("rights", ROLES, ids=lambda rights: "+".join(sorted(rights)) or "none")
async def test_a_role_may_do_what_its_rights_say_and_nothing_else(memory_shop, rights):
    caller = hf.Caller("ann", rights)
    async with memory_shop.working(authenticate=lambda _request: caller) as api:
        refused = {(method, path) for method, path in MATRIX if (await status_of(api, method, path))[0] == 403}
    assert refused == {action for action, right in MATRIX.items() if right not in rights}


def test_the_matrix_has_every_route_that_needs_a_right():
    found = {str(find(method, path).route) for method, path in MATRIX}
    assert found == {str(route) for route in ALWAYS_SERVED if route.right}


async def test_who_may_not_read_hears_no_result_of_what_it_starts(memory_shop):
    caller = hf.Caller("ann", frozenset({hf.Right.WRITE, hf.Right.CONTROL}))
    async with memory_shop.working(authenticate=lambda _request: caller) as api:
        status, answer = await api.post("/v1/workflows/checkout/a?wait=10s", ["canary"])
        assert (status, answer["status"]) == (200, "COMPLETED")
        _, failed = await api.post("/v1/workflows/checkout/b?wait=10s&tag=a=canary", ["bad"])
        _, forked = await api.post("/v1/workflows/checkout/a/fork", {"id": "c"})
    assert "canary" not in str([answer, failed, forked]) and "declined" not in str(failed)


async def test_telemetry_hears_who_did_what_to_what(memory_shop):
    told = []
    memory_shop.app.telemetry.subscribe(lambda event, fields: told.append((event, fields)))
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/approval/a/cancel")
    route = "POST /v1/workflows/{workflow}/{id}/cancel"
    fields = {"route": route, "status": 404, "caller": "tester", "target": "approval a"}
    assert ("http_answered", fields) in told


@pytest.mark.parametrize("answer", [None, "", hf.Caller("ann"), "ann"])
@pytest.mark.parametrize("waits", [False, True])
async def test_authenticate_may_be_async_and_answer_a_caller_a_name_or_nobody(memory_shop, answer, waits):
    async def later(_request):
        return answer

    async with memory_shop.working(authenticate=later if waits else lambda _request: answer) as api:
        status, _ = await api.get("/v1/workflows")
        assert status == (200 if answer else 401)


async def test_an_authenticate_that_fails_lets_nobody_in(memory_shop, errors_expected):
    def fails(_request):
        raise RuntimeError("canary")

    async with memory_shop.working(authenticate=fails) as api:
        status, problem = await api.get("/v1/workflows")
        assert (status, problem["code"]) == (500, "internal")


# ── Bearer tokens ───────────────────────────────────────────────────────────────────────────────────────────────────

TOKENS = hf.BearerTokens({"ann": ANN, "grafana": GRAFANA}, rights={"grafana": ["read"]})

HEADERS = [
    (f"Bearer {ANN}", "ann"),
    (f"bearer   {ANN} ", "ann"),
    (f"Bearer {GRAFANA}", "grafana"),
    (f"Bearer {ANN[:-1]}", None),
    (f"Bearer {ANN}x", None),
    ("Bearer ", None),
    ("Bearer", None),
    (f"Basic {ANN}", None),
    (ANN, None),
    ("Bearer \xff☃", None),
    ("", None),
]


@pytest.mark.parametrize(("header", "name"), HEADERS)
def test_a_token_names_its_caller(header, name):
    caller = TOKENS(hf.Request(method="GET", path="/", headers=(("authorization", header),)))
    assert (caller and caller.name) == name


def test_two_headers_or_none_name_nobody():
    for count in (0, 2):
        headers = (("authorization", f"Bearer {ANN}"),) * count
        assert TOKENS(hf.Request(method="GET", path="/", headers=headers)) is None


def test_every_token_is_compared_and_each_in_constant_time(monkeypatch):
    compared = []
    real = authentication.hmac.compare_digest
    monkeypatch.setattr(authentication.hmac, "compare_digest", lambda *two: compared.append(two) or real(*two))
    for given in (ANN, GRAFANA, "x"):
        TOKENS(hf.Request(method="GET", path="/", headers=(("authorization", f"Bearer {given}"),)))
    assert len(compared) == 6
    assert {len(digest) for two in compared for digest in two} == {32}


def test_tokens_are_in_no_text():
    assert ANN not in repr(TOKENS) + repr(vars(TOKENS))
    assert "ann, grafana" in repr(TOKENS)


@pytest.mark.parametrize(
    ("tokens", "rights", "told"),
    [
        ({"ann": "short"}, {}, "32"),
        ({"ann": "x" * 31}, {}, "32"),
        ({"ann": "x " * 32}, {}, "spaces"),
        ({"ann": "ü" * 32}, {}, "ASCII"),
        ({"ann": ANN}, {"bob": ["read"]}, "bob"),
        ({"ann": ANN}, {"ann": ["sudo"]}, "sudo"),
    ],
)
def test_what_is_no_token_is_refused(tokens, rights, told):
    with pytest.raises(hf.ConfigurationError, match=told) as raised:
        hf.BearerTokens(tokens, rights=rights)
    assert ANN not in str(raised.value)


def test_tokens_are_read_from_lines():
    tokens = hf.BearerTokens.read(f"# who may call\n\nann {ANN}\n  grafana\t{GRAFANA} read,control\n")
    caller = tokens(hf.Request(method="GET", path="/", headers=(("authorization", f"Bearer {GRAFANA}"),)))
    assert caller == hf.Caller("grafana", frozenset({hf.Right.READ, hf.Right.CONTROL}))


def test_a_line_may_confine_its_caller_to_a_tenant():
    tokens = hf.BearerTokens.read(f"ann {ANN} tenant=acme/\ngrafana {GRAFANA} read tenant=beta/")
    for token, name, rights, tenant in (
        (ANN, "ann", frozenset(hf.Right), "acme/"),
        (GRAFANA, "grafana", frozenset({hf.Right.READ}), "beta/"),
    ):
        caller = tokens(hf.Request(method="GET", path="/", headers=(("authorization", f"Bearer {token}"),)))
        assert caller == hf.Caller(name, rights, tenant)


@pytest.mark.parametrize(
    "tenants", [{"ann": "acme"}, {"ann": ""}, {"ann": "~a/"}, {"ann": "a/", "grafana": "a/b/"}, {"bob": "b/"}]
)
def test_a_tenant_that_would_see_another_is_refused(tenants):
    with pytest.raises(hf.ConfigurationError):
        hf.BearerTokens({"ann": ANN, "grafana": GRAFANA}, tenants=tenants)


@pytest.mark.parametrize("text", ["", "# nobody", "ann", f"ann {ANN} read more", f"ann {ANN}\nann {GRAFANA}"])
def test_lines_that_are_no_tokens_are_refused(text):
    with pytest.raises(hf.ConfigurationError, match="name token") as raised:
        hf.BearerTokens.read(text)
    assert ANN not in str(raised.value)


# ── This machine, and gateways ──────────────────────────────────────────────────────────────────────────────────────

LOCAL = [
    # host, origin, status
    ("127.0.0.1:8080", None, 200),
    ("localhost:8080", None, 200),
    ("[::1]:8080", None, 200),
    ("localhost:8080", "http://localhost:8080", 200),
    ("localhost:8080", "http://localhost:3000", 403),
    ("localhost:8080", "https://evil.example", 403),
    ("localhost:8080", "null", 403),
    ("evil.example:8080", None, 403),
    ("127.0.0.1.evil.example", None, 403),
    ("sync-states.localhost:8080", None, 200),
    ("states.localhost.evil.example", None, 403),
    ("", None, 403),
]


@pytest.mark.parametrize(("host", "origin", "status"), LOCAL)
async def test_without_authentication_this_machine_may_but_no_page_of_another_site(memory_shop, host, origin, status):
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    async with memory_shop.working(authenticate=None) as api:
        assert (await status_of(api, "GET", "/v1/workflows", source=Loopback(), **headers))[0] == status


async def test_without_a_host_nothing_is_local(memory_shop):
    async with memory_shop.working(authenticate=None) as api:
        assert (await status_of(api, "GET", "/v1/workflows", source=Loopback()))[0] == 403


async def test_with_authentication_this_machine_is_asked_too(memory_shop):
    async with memory_shop.working(authenticate=TOKENS) as api:
        status, _ = await status_of(api, "GET", "/v1/workflows", source=Loopback(), host="localhost")
        assert status == 401
        authorization = f"Bearer {GRAFANA}"
        assert (await status_of(api, "GET", "/v1/workflows", authorization=authorization))[0] == 200
        assert (await status_of(api, "POST", "/v1/workflows/checkout/a", authorization=authorization))[0] == 403


async def test_a_gateways_word_counts_only_where_the_app_says_so(memory_shop):
    ann = Vouched("arn:aws:iam::1:user/ann")
    for authenticate, status in ((None, 401), (TOKENS, 401), (hf.iam_caller, 200)):
        async with memory_shop.working(authenticate=authenticate) as api:
            assert (await status_of(api, "GET", "/v1/workflows", source=ann))[0] == status
    for source in (Remote(), Loopback()):
        async with memory_shop.working(authenticate=hf.iam_caller) as api:
            assert (await status_of(api, "GET", "/v1/workflows", source=source, host="localhost"))[0] == 401


async def test_a_refusal_says_how_to_be_known(memory_shop):
    api = Api(memory_shop.app, authenticate=TOKENS)
    response = await api.send("GET", "/v1/workflows")
    assert (response.status, response.header("www-authenticate")) == (401, "Bearer")


@pytest.mark.parametrize("host", ["::ffff:127.0.0.1", "[::ffff:127.0.0.1]:1", "127.8.8.8", "LOCALHOST"])
def test_names_of_this_machine(host):
    assert is_loopback_host(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "[::]:80", "[::1", "localhost.evil.example", "", ":80"])
def test_names_of_others(host):
    assert not is_loopback_host(host)


# ── The audit ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("action", [*CONTROLS, "delete"])
async def test_every_change_by_control_is_kept_in_the_audit_and_nothing_else_is(memory_shop, action):
    ann, bob = hf.Caller("ann"), hf.Caller("bob", frozenset({hf.Right.READ, hf.Right.WRITE}))
    async with memory_shop.working(authenticate=lambda request: bob if request.header_values("x-bob") else ann) as api:
        await api.post("/v1/workflows/approval/a", [1])
        await api.get("/v1/workflows/approval/a")
        await api.post("/v1/workflows/approval/a/signals/other", 1)
        method, path = ("DELETE", "") if action == "delete" else ("POST", f"/{action}")
        refused = await status_of(api, method, f"/v1/workflows/approval/a{path}", **{"x-bob": "1"})
        body = b'{"id": "b"}' if action == "fork" else b""
        status, _ = await status_of(api, method, f"/v1/workflows/approval/a{path}", body=body)
        runtime = api.app.runtime()
        (row,) = await rows_since(runtime.home.store, runtime.clock, 0, 10)
    assert refused[0] == 403
    assert (row.who, row.action, row.what) == ("ann", action, "approval a")
    assert (row.outcome == "done") == (status < 400)
