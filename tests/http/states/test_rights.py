"""Who may perform which action: by rights, by token, by signature, and on this machine."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from tests.http.states.conftest import ENDPOINT, Boto
from tests.http.states.test_machines import PASS, ROLE, arn

import holdfast as hf
from holdfast.clock import SystemClock
from holdfast.coordination.audit import rows_since
from holdfast.http.api import Options
from holdfast.http.messages import Loopback, Remote
from holdfast.http.respond import respond
from holdfast.http.signatures import signature_of
from holdfast.http.states.actions import ACTIONS

TOKEN = "7" * 64

READ = """
DescribeStateMachine ListStateMachines ListStateMachineVersions DescribeStateMachineAlias ListStateMachineAliases
DescribeActivity ListActivities ListTagsForResource DescribeExecution DescribeStateMachineForExecution
ListExecutions GetExecutionHistory DescribeMapRun ListMapRuns ValidateStateMachineDefinition TestState
"""
WRITE = "StartExecution StartSyncExecution SendTaskSuccess SendTaskFailure SendTaskHeartbeat GetActivityTask"
CONTROL = """
CreateStateMachine UpdateStateMachine DeleteStateMachine PublishStateMachineVersion DeleteStateMachineVersion
CreateStateMachineAlias UpdateStateMachineAlias DeleteStateMachineAlias CreateActivity DeleteActivity TagResource
UntagResource StopExecution RedriveExecution UpdateMapRun
"""


async def asked(app, action, *, body=b"{}", source=None, options=None, **headers):
    request = hf.Request(
        method="POST",
        path="/",
        headers=(
            ("x-amz-target", f"AWSStepFunctions.{action}"),
            *((name.replace("_", "-"), value) for name, value in headers.items()),
        ),
        body=body,
        source=source or Remote(),
    )
    response = await respond(app, request, Options(**({"asl": True} | (options or {}))))
    return response.status, json.loads(response.body)


@pytest.mark.parametrize(
    "rights", [set(some) for n in range(4) for some in combinations(("read", "write", "control"), n)]
)
async def test_a_caller_performs_what_its_rights_say_and_nothing_else(memory_world, rights):
    app = memory_world.app()
    caller = hf.Caller("ann", frozenset(map(hf.Right, rights)))
    allowed = set()
    async with app.worker():
        for action in ACTIONS:
            status, answer = await asked(app, action, options={"authenticate": lambda _request: caller})
            if status != 403:
                allowed.add(action)
            else:
                assert answer["__type"] == "AccessDeniedException"
    matrix = {"read": READ, "write": WRITE, "control": CONTROL}
    assert allowed == {action for right in rights for action in matrix[right].split()}


def test_the_matrix_has_every_action():
    assert set(ACTIONS) == {*READ.split(), *WRITE.split(), *CONTROL.split()}


async def test_the_protocol_is_served_only_where_it_is_asked_for(memory_world):
    app = memory_world.app()
    async with app.worker():
        options = {"asl": False, "authenticate": lambda _request: "ann"}
        status, answer = await asked(app, "ListStateMachines", options=options)
    assert (status, answer["code"]) == (404, "no_route")


async def test_an_unknown_action_is_refused(memory_world):
    app = memory_world.app()
    async with app.worker():
        status, answer = await asked(app, "DropEverything", options={"authenticate": lambda _request: "ann"})
    assert (status, answer["__type"]) == (400, "UnknownOperationException")


async def test_a_tenant_has_no_machines(memory_world):
    app = memory_world.app()
    caller = hf.Caller("ann", tenant="acme/")
    async with app.worker():
        status, answer = await asked(app, "ListStateMachines", options={"authenticate": lambda _request: caller})
    assert (status, answer["__type"]) == (403, "AccessDeniedException")


async def test_what_changes_a_machine_is_kept_in_the_audit(memory_world):
    app = memory_world.app()
    async with app.worker():
        boto = Boto(app, authenticate=lambda _request: "ann")
        await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)
        await boto.list_state_machines()
        await boto.delete_state_machine(stateMachineArn=arn("orders"))
        rows = await rows_of(app)
    assert sorted(rows) == [
        ("ann", "CreateStateMachine", "orders"),
        ("ann", "DeleteStateMachine", arn("orders")),
    ]


async def rows_of(app):
    runtime = app.runtime()
    rows = await rows_since(runtime.home.store, runtime.clock, 0, 100)
    return [(row.who, row.action, row.what) for row in rows]


# ── Signatures ──────────────────────────────────────────────────────────────────────────────────────────────────────


def signing(secret=TOKEN, name="till"):
    return {"credentials": {"aws_access_key_id": name, "aws_secret_access_key": secret}}


@pytest.fixture
def tokens():
    return hf.BearerTokens({"till": TOKEN, "grafana": "8" * 64}, rights={"grafana": ["read"]}, signatures=True)


async def test_a_caller_is_known_by_its_signature(memory_world, tokens):
    app = memory_world.app()
    async with app.worker():
        boto = Boto(app, authenticate=tokens, **signing())
        assert await boto.list_state_machines() == {"stateMachines": []}
        await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)
        assert (await rows_of(app))[0][0] == "till"


@pytest.mark.parametrize(("secret", "name"), [("9" * 64, "till"), (TOKEN, "nobody"), (TOKEN, "grafana")])
async def test_another_secret_or_name_is_not_let_in(memory_world, tokens, secret, name):
    app = memory_world.app()
    async with app.worker():
        boto = Boto(app, authenticate=tokens, **signing(secret, name))
        with pytest.raises(Exception, match="UnrecognizedClientException"):
            await boto.list_state_machines()


async def test_the_rights_of_a_signer_are_those_of_its_token(memory_world, tokens):
    app = memory_world.app()
    async with app.worker():
        boto = Boto(app, authenticate=tokens, **signing("8" * 64, "grafana"))
        assert await boto.list_state_machines() == {"stateMachines": []}
        with pytest.raises(Exception, match="AccessDeniedException"):
            await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE)


async def signed(memory_world, tokens):
    """A signed request as it was sent."""
    seen = []
    app = memory_world.app()
    async with app.worker():

        def keep(request):
            seen.append(request)
            return tokens(request)

        await Boto(app, authenticate=keep, **signing()).list_state_machines(maxResults=7)
    return seen[0].__class__(
        method=seen[0].method, path="/", headers=seen[0].headers, body=b'{"maxResults": 7}', source=seen[0].source
    )


async def test_a_signature_covers_the_body_the_headers_and_the_time(memory_world, tokens):
    sent = await signed(memory_world, tokens)
    signature = signature_of(sent)
    now = SystemClock().now_ms()
    assert signature.matches(sent, TOKEN, now)
    for changed in (
        {"body": b'{"maxResults": 8}'},
        {"path": "/v1/workflows"},
        {"query": "a=b"},
        {"headers": tuple((n, "AWSStepFunctions.Drop" if n == "x-amz-target" else v) for n, v in sent.headers)},
    ):
        fields = {name: getattr(sent, name) for name in ("method", "path", "query", "headers", "body")} | changed
        assert not signature.matches(hf.Request(**fields), TOKEN, now)
    for late_ms in (-16 * 60_000, 16 * 60_000):
        assert not signature.matches(sent, TOKEN, now + late_ms)


async def test_without_signatures_a_signed_request_is_unknown(memory_world):
    app = memory_world.app()
    tokens = hf.BearerTokens({"till": TOKEN})
    assert TOKEN not in repr(vars(tokens))
    async with app.worker():
        with pytest.raises(Exception, match="UnrecognizedClientException"):
            await Boto(app, authenticate=tokens, **signing()).list_state_machines()


# ── This machine ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_home_that_is_nobodys_is_served_to_this_machine_whatever_signs(memory_world):
    app = memory_world.app()
    async with app.worker():
        assert await Boto(app).list_state_machines() == {"stateMachines": []}


async def test_a_private_home_wants_its_token_as_the_secret(sqlite_world):
    app = sqlite_world.app()
    async with app.worker():
        token = app.runtime().home.token()
        assert await Boto(app, **signing(token)).list_state_machines() == {"stateMachines": []}
        with pytest.raises(Exception, match="UnrecognizedClientException"):
            await Boto(app, **signing("another")).list_state_machines()


async def test_another_machine_is_not_let_in_without_tokens(memory_world):
    app = memory_world.app()
    async with app.worker():
        status, answer = await asked(app, "ListStateMachines", source=Remote())
        page, _ = await asked(
            app, "ListStateMachines", source=Loopback(), host=ENDPOINT.partition("//")[2], origin="http://evil.example"
        )
    assert (status, answer["__type"], page) == (401, "UnrecognizedClientException", 403)
