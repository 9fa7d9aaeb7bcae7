"""What each surface answers is a contract: bodies, statuses, texts and exit codes stay as they were recorded."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tests.commands.transcript import Transcript
from tests.http.conftest import Api

import holdfast as hf

HEADERS = ("content-type", "location", "allow", "retry-after", "www-authenticate")


# ── HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────────────

EXECUTION_ROUTES = (
    ("POST", "/v1/workflows/checkout/a?wait=10s&tag=customer=acme", ["tok"]),
    ("POST", "/v1/workflows/checkout/a", {"card": "tok"}),
    ("POST", "/v1/workflows/checkout/a", ["other"]),
    ("POST", "/v1/workflows/checkout/a", [1]),
    ("POST", "/v1/workflows/checkout/a", None),
    ("POST", "/v1/workflows/checkout/~a", ["tok"]),
    ("POST", "/v1/workflows/checkout/a?delay=1s&at=2030-01-01T00:00:00Z", ["tok"]),
    ("POST", "/v1/workflows/checkout/a?wait=soon", ["tok"]),
    ("POST", "/v1/workflows/checkout/a?nothing=1", ["tok"]),
    ("POST", "/v1/workflows/none/a", ["tok"]),
    ("POST", "/v1/workflows/checkout?wait=10s", ["tok"]),
    ("POST", "/v1/workflows/checkout/bad?wait=10s", ["bad"]),
    ("GET", "/v1/workflows/checkout/a", None),
    ("GET", "/v1/workflows/checkout/bad?wait=1s", None),
    ("GET", "/v1/workflows/checkout/none", None),
    ("GET", "/v1/workflows/none/a", None),
    ("HEAD", "/v1/workflows/checkout/a", None),
    ("GET", "/v1/workflows/checkout/a/history", None),
    ("GET", "/v1/workflows/checkout/bad/history", None),
    ("GET", "/v1/workflows/checkout/none/history", None),
    ("POST", "/v1/workflows/approval/b?delay=1h&timeout=1d", [7]),
    ("GET", "/v1/workflows/approval/b/queries/asked", None),
    ("POST", "/v1/workflows/approval/c", [7]),
    ("GET", "/v1/workflows/approval/c/queries/asked", None),
    ("GET", "/v1/workflows/approval/c/queries/broken", None),
    ("GET", "/v1/workflows/approval/c/queries/none", None),
    ("GET", "/v1/workflows/approval/none/queries/asked", None),
    ("POST", "/v1/workflows/approval/c/pause", None),
    ("POST", "/v1/workflows/approval/c/resume", None),
    ("POST", "/v1/workflows/approval/c/resume", None),
    ("POST", "/v1/workflows/approval/c/retry-now", None),
    ("POST", "/v1/workflows/approval/c/retry", None),
    ("POST", "/v1/workflows/approval/c/move", None),
    ("DELETE", "/v1/workflows/approval/c", None),
    ("POST", "/v1/workflows/approval/c/signals/decision", {"sku": "lamp", "n": 1}),
    ("GET", "/v1/workflows/approval/c?wait=10s", None),
    ("POST", "/v1/workflows/approval/c/signals/decision", {"sku": "lamp", "n": 1}),
    ("POST", "/v1/workflows/approval/c/cancel", None),
    ("POST", "/v1/workflows/approval/c/terminate", None),
    ("POST", "/v1/workflows/approval/c/pause", None),
    ("POST", "/v1/workflows/approval/d", [7]),
    ("POST", "/v1/workflows/approval/d/cancel", {"reason": "they left"}),
    ("GET", "/v1/workflows/approval/d?wait=10s", None),
    ("POST", "/v1/workflows/approval/d/cancel", None),
    ("POST", "/v1/workflows/approval/d/cancel", {"why": "they left"}),
    ("POST", "/v1/workflows/approval/e", [7]),
    ("POST", "/v1/workflows/approval/e/terminate", {"reason": "twice"}),
    ("GET", "/v1/workflows/approval/e?wait=10s", None),
    ("POST", "/v1/workflows/approval/f", [7]),
    ("POST", "/v1/workflows/approval/f/terminate", None),
    ("GET", "/v1/workflows/approval/f?wait=10s", None),
    ("DELETE", "/v1/workflows/approval/e", None),
    ("DELETE", "/v1/workflows/approval/e", None),
    ("POST", "/v1/workflows/checkout/bad/retry", None),
    ("GET", "/v1/workflows/checkout/bad?wait=10s", None),
    ("POST", "/v1/workflows/checkout/a/fork", {"id": "a-2"}),
    ("GET", "/v1/workflows/checkout/a-2?wait=10s", None),
    ("POST", "/v1/workflows/checkout/a/fork", {"id": "a-2"}),
    ("POST", "/v1/workflows/checkout/a/fork", {"id": "a-3", "before": "none#0"}),
    ("POST", "/v1/workflows/checkout/a/fork", {}),
    ("POST", "/v1/workflows/none/a/fork", {"id": "a-3"}),
    ("GET", "/v1/workflows?status=COMPLETED&limit=2", None),
    ("GET", "/v1/workflows/checkout?tag=customer=acme", None),
    ("GET", "/v1/workflows/checkout?status=GONE", None),
    ("GET", "/v1/workflows/checkout?since=now", None),
    ("GET", "/v1/workflows/checkout?limit=0", None),
    ("GET", "/v1/workflows/checkout?after=none", None),
    ("GET", "/v1/workflows/none", None),
    ("PUT", "/v1/workflows/checkout/a", None),
    ("GET", "/v1/nothing", None),
    ("GET", "/v1/health", None),
    *((method, f"/v1/workflows/checkout/none{path}", None) for method, path in (
        ("POST", "/signals/x"), ("POST", "/cancel"), ("POST", "/terminate"), ("POST", "/pause"), ("POST", "/resume"),
        ("POST", "/move"), ("POST", "/retry"), ("POST", "/retry-now"), ("DELETE", ""),
    )),
    *((method, f"/v1/workflows/none/none{path}", None) for method, path in (
        ("POST", "/signals/x"), ("POST", "/cancel"), ("POST", "/terminate"), ("POST", "/pause"), ("POST", "/resume"),
        ("POST", "/move"), ("POST", "/retry"), ("POST", "/retry-now"), ("DELETE", ""),
    )),
)  # fmt: skip

ACTOR_ROUTES = (
    ("POST", "/v1/actors/Cart/u1/add", {"sku": "lamp", "n": 2}),
    ("POST", "/v1/actors/Cart/u1/add", {"sku": 7}),
    ("POST", "/v1/actors/Cart/u1/add", None),
    ("POST", "/v1/actors/Cart/u1/add?wait=soon", ["lamp"]),
    ("POST", "/v1/actors/Cart/u1/add", ["lamp", 10]),
    ("POST", "/v1/actors/Cart/u1/add", ["bug"]),
    ("POST", "/v1/actors/Cart/u1/none", ["lamp"]),
    ("POST", "/v1/actors/None/u1/add", ["lamp"]),
    ("POST", "/v1/actors/!shop.bill/u1/handle", ["lamp"]),
    ("GET", "/v1/actors/Cart/u1/total", None),
    ("POST", "/v1/actors/Cart/u1/total", None),
    ("GET", "/v1/actors/Cart/u1/total?args=%5B%22lamp%22%5D", None),
    ("GET", "/v1/actors/Cart/u1/add", None),
    ("POST", "/v1/actors/Cart/u1/add/send", ["lamp"]),
    ("POST", "/v1/actors/Cart/u1/add/send?delay=never", ["lamp"]),
    ("POST", "/v1/actors/Cart/u1/add/send", [1]),
    ("POST", "/v1/actors/None/u1/add/send", ["lamp"]),
    ("GET", "/v1/actors/Cart/u1/requests/none", None),
    ("GET", "/v1/actors/Cart/none/requests/none", None),
    ("GET", "/v1/actors/None/u1/requests/none", None),
    ("POST", "/v1/events/Placed", {"order": "o-1"}),
    ("POST", "/v1/events/Placed", {"order": 1}),
    ("POST", "/v1/events/None", {"order": "o-1"}),
)

CALLBACK_ROUTES = (
    # each with the token of an execution of its own
    ("heartbeat", "/heartbeat", None),
    ("value", "", {"tracking": "3S"}),
    ("text", "", "3S"),
    ("fail", "/fail", {"message": "lost", "type": "Lost"}),
    ("no-message", "/fail", {}),
)


async def ask(api: Api, transcript: Transcript, method: str, path: str, value: Any, note: str = "") -> None:
    body = b"" if value is None else json.dumps(value).encode()
    response = await api.send(method, path, body)
    headers = {name: told for name in HEADERS if (told := response.header(name)) is not None}
    answer = json.loads(response.body) if response.body else None
    asked = f"{method} {note or path}" + ("" if value is None else f" {json.dumps(value)}")
    transcript.add(asked, {"status": response.status, "headers": headers, "body": answer})


async def test_http_answers_as_it_did(http_shop, errors_expected, eventually):
    transcript = Transcript("http")
    async with http_shop.working() as api:
        for route in (*EXECUTION_ROUTES, *ACTOR_ROUTES):
            await ask(api, transcript, *route)
        for id, path, value in CALLBACK_ROUTES:
            http_shop.tokens.clear()
            await api.post(f"/v1/workflows/parcel/{id}")
            await eventually(lambda: http_shop.tokens)
            (token,) = http_shop.tokens
            for _ in range(2):
                await ask(api, transcript, "POST", f"/v1/callbacks/{token}{path}", value, f"/v1/callbacks/{id}{path}")
            await ask(api, transcript, "GET", f"/v1/workflows/parcel/{id}?wait=200ms", None)
        await ask(api, transcript, "POST", "/v1/callbacks/none", 1)
        for rights in ("write", "read"):
            caller = hf.Caller("ann", frozenset({hf.Right(rights)}), tenant="acme/")
            limited = Api(api.app, authenticate=lambda _request, caller=caller: caller)
            for method, path in (
                ("POST", "/v1/workflows/checkout/acme%2Fa?wait=10s"),
                ("POST", "/v1/workflows/checkout/beta%2Fa?wait=10s"),
                ("GET", "/v1/workflows/checkout/acme%2Fa"),
                ("GET", "/v1/workflows/checkout"),
                ("POST", "/v1/workflows/checkout/acme%2Fa/cancel"),
            ):
                value = ["tok"] if "wait" in path else None
                await ask(limited, transcript, method, path, value, f"{path} by {rights}")
    transcript.check()


# ── Lambda ──────────────────────────────────────────────────────────────────────────────────────────────────────────

COMMANDS = (
    {"holdfast": "start", "workflow": "checkout", "id": "a", "input": ["tok"], "tags": {"customer": "acme"}},
    {"holdfast": "start", "workflow": "checkout", "id": "a", "input": {"card": "tok"}},
    {"holdfast": "start", "workflow": "checkout", "id": "a", "input": ["other"]},
    {"holdfast": "start", "workflow": "checkout", "id": "a", "input": [1]},
    {"holdfast": "start", "workflow": "checkout", "id": "a"},
    {"holdfast": "start", "workflow": "checkout", "input": ["tok"]},
    {"holdfast": "start", "workflow": "checkout", "id": "", "input": ["tok"]},
    {"holdfast": "start", "workflow": "checkout", "id": "~a", "input": ["tok"]},
    {"holdfast": "start", "workflow": "none", "id": "a"},
    {"holdfast": "start", "workflow": "checkout", "id": "bad", "input": ["bad"]},
    {"holdfast": "start", "workflow": "approval", "id": "b", "input": [7], "delay": "1h", "timeout": "1d"},
    {"holdfast": "start", "workflow": "approval", "id": "b", "input": [7], "at": "2030-01-01T00:00:00Z", "delay": "1h"},
    {"holdfast": "start", "workflow": "approval", "id": "c", "input": [7]},
    {"holdfast": "status", "workflow": "checkout", "id": "a"},
    {"holdfast": "status", "workflow": "checkout", "id": "bad"},
    {"holdfast": "status", "workflow": "approval", "id": "c"},
    {"holdfast": "status", "workflow": "checkout", "id": "none"},
    {"holdfast": "status", "workflow": "none", "id": "a"},
    {"holdfast": "pause", "workflow": "approval", "id": "c"},
    {"holdfast": "status", "workflow": "approval", "id": "c"},
    {"holdfast": "resume", "workflow": "approval", "id": "c"},
    {"holdfast": "retry", "workflow": "approval", "id": "c"},
    {"holdfast": "retry-now", "workflow": "approval", "id": "c"},
    {"holdfast": "move", "workflow": "approval", "id": "c"},
    {"holdfast": "delete", "workflow": "approval", "id": "c"},
    {"holdfast": "signal", "workflow": "approval", "id": "c", "name": "decision", "value": {"sku": "lamp", "n": 1}},
    {"holdfast": "status", "workflow": "approval", "id": "c"},
    {"holdfast": "signal", "workflow": "approval", "id": "c", "name": "decision", "signal_id": "once"},
    {"holdfast": "start", "workflow": "approval", "id": "d", "input": [7]},
    {"holdfast": "cancel", "workflow": "approval", "id": "d", "reason": "they left"},
    {"holdfast": "status", "workflow": "approval", "id": "d"},
    {"holdfast": "start", "workflow": "approval", "id": "e", "input": [7]},
    {"holdfast": "terminate", "workflow": "approval", "id": "e"},
    {"holdfast": "status", "workflow": "approval", "id": "e"},
    {"holdfast": "delete", "workflow": "approval", "id": "e"},
    {"holdfast": "status", "workflow": "approval", "id": "e"},
    {"holdfast": "retry", "workflow": "checkout", "id": "bad"},
    {"holdfast": "fork", "workflow": "checkout", "id": "a", "new_id": "a-2"},
    {"holdfast": "fork", "workflow": "checkout", "id": "a", "new_id": "a-3", "before": "none#0"},
    {"holdfast": "fork", "workflow": "checkout", "id": "a"},
    {"holdfast": "call", "actor": "Cart", "key": "u1", "method": "add", "args": {"sku": "lamp"}},
    {"holdfast": "call", "actor": "Cart", "key": "u1", "method": "add", "args": ["lamp"], "request_id": "r-1"},
    {"holdfast": "call", "actor": "Cart", "key": "u1", "method": "add", "args": ["lamp"], "request_id": "r-1"},
    {"holdfast": "call", "actor": "Cart", "key": "u1", "method": "total"},
    {"holdfast": "call", "actor": "Cart", "key": "u1", "method": "add", "args": ["lamp", 10]},
    {"holdfast": "call", "actor": "Cart", "key": "u1", "method": "add", "args": [1]},
    {"holdfast": "call", "actor": "Cart", "key": "u1", "method": "none"},
    {"holdfast": "call", "actor": "None", "key": "u1", "method": "none"},
    {"holdfast": "call", "actor": "!shop.bill", "key": "u1", "method": "handle"},
    {"holdfast": "send", "actor": "Cart", "key": "u1", "method": "add", "args": ["desk"]},
    {"holdfast": "send", "actor": "Cart", "key": "u1", "method": "add", "args": ["desk"], "request_id": "s-1"},
    {"holdfast": "send", "actor": "Cart", "key": "u1", "method": "add", "args": [1]},
    {"holdfast": "call", "actor": "Cart", "key": "u1", "method": "total"},
    {"holdfast": "sweep"},
    {"holdfast": "ring", "partition": "w#none#1"},
    {"holdfast": "none"},
    {"holdfast": "cancel", "workflow": "checkout"},
    {"holdfast": "cancel", "workflow": "checkout", "id": "none", "more": 1},
    *({"holdfast": tag, "workflow": workflow, "id": "none"} for workflow in ("checkout", "none") for tag in (
        "cancel", "terminate", "pause", "resume", "retry", "retry-now", "delete", "fork", "move",
    )),
    {"holdfast": "signal", "workflow": "checkout", "id": "none", "name": "x"},
    {"holdfast": "signal", "workflow": "checkout", "id": "none"},
)  # fmt: skip


class Context:
    def __init__(self, number: int) -> None:
        self.aws_request_id = f"request-{number}"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


async def test_a_function_answers_as_it_did(http_shop, errors_expected):
    transcript = Transcript("lambda")
    handler = http_shop.app.lambda_handler()
    for number, command in enumerate(COMMANDS):
        try:
            answered = {"answer": await handler.invoke(command, Context(number))}
        except Exception as error:
            answered = {"error": f"{type(error).__name__}: {error}"}
        transcript.add(json.dumps(command), answered)
    await handler.aclose()
    transcript.check()


# ── The command line ────────────────────────────────────────────────────────────────────────────────────────────────

LINES = (
    "start checkout '[\"tok\"]' --id N_a --tag customer=acme --wait",
    "start checkout '[\"other\"]' --id N_a",
    "start checkout [1] --id N_a",
    "start checkout [] --id N_a",
    "start checkout '[\"tok\"]' --id ~a",
    "start checkout '[\"tok\"]' --id ''",
    "start none [] --id N_a",
    "start checkout '[\"tok\"]' --delay 1h --at 2030-01-01",
    "result checkout N_a",
    "result checkout N_none",
    "result checkout N_none --timeout 1s",
    "start approval 7 --id N_b",
    "result approval N_b --timeout 10ms",
    "pause approval N_b",
    "resume approval N_b",
    "resume approval N_b",
    "retry approval N_b",
    "retry approval N_b --now",
    "move approval N_b",
    "delete approval N_b",
    "signal approval N_b decision '\"yes\"' --signal-id s",
    "result approval N_b",
    "signal approval N_b decision '\"yes\"'",
    "signal approval N_b decision yes",
    "cancel approval N_b",
    "terminate approval N_b",
    "show approval N_b",
    "show approval N_b --payloads",
    "show approval N_none",
    "start approval 7 --id N_c",
    "cancel approval N_c --reason 'they left'",
    "result approval N_c",
    "start approval 7 --id N_d",
    "terminate approval N_d --reason twice",
    "result approval N_d",
    "delete approval N_d",
    "delete approval N_d",
    "start tour [] --id N_t",
    "move tour N_t",
    "fork checkout N_a N_a-2",
    "result checkout N_a-2",
    "fork checkout N_a N_a-3 --before none#0",
    "fork checkout N_a",
    "ls --workflow checkout --tag customer=acme",
    "ls --status GONE",
    "ls --workflow none",
    *(f"{name} checkout none" for name in ("cancel", "terminate", "pause", "resume", "delete", "move", "retry")),
    *(f"{name} none none" for name in ("cancel", "terminate", "pause", "resume", "delete", "move", "retry")),
    "retry none none --now",
    "signal none none x",
    "cancel checkout",
    "callback complete none 1",
    "callback fail none lost",
    "callback heartbeat none",
    'actor call Cart N_u add \'{"sku": "lamp", "n": 2}\'',
    "actor call Cart N_u add '[\"bad\"]'",
    "actor call Cart N_u add [1]",
    "actor call Cart N_u total",
    "actor call Cart N_u none",
    "actor call None N_u none",
    "actor send Cart N_u add '[\"bad\"]' --request-id s-1",
    "actor call Cart N_u add '[\"desk\"]'",
    "actor send Cart N_u add [1]",
    "actor show Cart N_u",
    "actor show Cart N_none",
    "actor show None N_none",
    "actor ls Cart",
    "actor ls None",
    "actor ls --status GONE",
    "dlq ls Cart",
    "actor discard Cart N_u none",
    "actor unpark Cart N_u none",
    "actor unpark Cart N_none none",
    "dlq show none",
    "dlq redrive none",
    "dlq discard none",
    "dlq discard",
    "dlq redrive --all --actor None",
    "dlq discard --all --actor Cart",
    "dlq ls",
    "actor resume Cart N_u",
    "actor park Cart N_u",
    "actor resume Cart N_none",
    "actor delete Cart N_u",
    "actor delete Cart N_none",
    "actor delete None N_none",
    "timers ls",
    "outbox ls",
)


def test_the_command_line_answers_as_it_did(shop, worker, errors_expected):
    transcript = Transcript("cli")
    for line in LINES:
        for form in ("text", "json"):
            words = shlex.split(line.replace("N_", f"{form}-"))
            result = shop.invoke(*words, *(["--json"] if form == "json" else []))
            answered = {"exit": result.exit_code, "out": result.stdout, "error": result.stderr}
            transcript.add(f"{line} as {form}", answered)
    transcript.check()
