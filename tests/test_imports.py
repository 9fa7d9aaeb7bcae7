"""`import holdfast` is cheap and says exactly what is public: nothing is loaded before it is asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.stub import stub

import holdfast
from holdfast.workflows import bodies

NOT_LOADED = [
    "apsw",
    "asyncio",
    "boto3",
    "botocore",
    "click",
    "jinja2",
    "msgspec",
    "redis",
    "starlette",
    "uvicorn",
    "zoneinfo",
]
"""What `import holdfast` must not load: backends, servers, the command line, and whatever is slow to import."""

MODULES_AT_MOST = 35
"""How many modules `import holdfast` may load on top of a bare interpreter: the noise-free twin of its 50 ms."""

OURS_AT_MOST = 80
"""How many of our own modules an app with a workflow and a step loads, before it is opened."""

OURS_AT_WORK_AT_MOST = 268
"""How many its worker has loaded once it has run the workflow, with those of the store."""


def in_a_fresh_interpreter(code: str, folder: Path) -> dict[str, list[str]]:
    """Run code there; it answers with the modules it loaded, and with what it left in ``answer``."""
    report = "import json; print(json.dumps({'loaded': sorted(set(sys.modules) - before), 'answer': answer}))"
    script = f"import sys; before = set(sys.modules); answer = []\n{code}\n{report}"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def bare_import(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return in_a_fresh_interpreter("import holdfast", tmp_path_factory.mktemp("bare"))["loaded"]


@pytest.mark.parametrize("module", NOT_LOADED)
def test_a_bare_import_does_not_load(module: str, bare_import: list[str]) -> None:
    assert not [name for name in bare_import if name.split(".")[0] == module]


def test_a_bare_import_loads_few_modules(bare_import: list[str]) -> None:
    assert "holdfast" in bare_import
    assert len(bare_import) <= MODULES_AT_MOST, bare_import


DECLARED = """
import holdfast as hf

app = hf.App("shop")


@app.step
async def charge(order: str) -> str:
    return order


@app.workflow
async def checkout(order: str) -> str:
    return await charge(order)
"""

AT_WORK = """
import asyncio


async def main():
    async with app.worker():
        assert await checkout("o-1") == "o-1"


asyncio.run(main())
"""


def ours(loaded: list[str]) -> list[str]:
    return [name for name in loaded if name.startswith("holdfast.")]


def parts_of(loaded: list[str]) -> set[str]:
    """The parts of Holdfast that are among the modules."""
    return {name.split(".")[1] for name in ours(loaded)}


def test_an_app_that_only_declares_a_workflow_loads_nothing_that_opens_starts_or_runs_it(tmp_path: Path) -> None:
    loaded = in_a_fresh_interpreter(DECLARED, tmp_path)["loaded"]
    assert len(ours(loaded)) <= OURS_AT_MOST, ours(loaded)
    assert not parts_of(loaded) & {
        "actors",
        "asl",
        "backends",
        "coordination",
        "http",
        "messaging",
        "opening",
        "runtime",
    }
    run_it = {f"holdfast.workflows.{name}" for name in ("execution", "handle", "launch", "operations", "programs")}
    assert not run_it & set(loaded)
    assert not {"holdfast.flow.declarations", "holdfast.flow.limits"} & set(loaded), "it has no queue and no limit"
    heavy = {"apsw", "boto3", "botocore", "click", "jinja2", "redis", "starlette", "uvicorn"}
    slow = {"pathlib", "sysconfig", "urllib", "zoneinfo"}
    assert not (heavy | slow) & {name.split(".")[0] for name in loaded}
    assert not list(tmp_path.iterdir()), "an App opens nothing"


def test_a_worker_of_workflows_alone_turns_no_actors_and_declares_no_messages(tmp_path: Path) -> None:
    loaded = in_a_fresh_interpreter(DECLARED + AT_WORK, tmp_path)["loaded"]
    assert len(ours(loaded)) <= OURS_AT_WORK_AT_MOST, ours(loaded)
    assert not [name for name in loaded if name.startswith(("holdfast.actors.turn", "holdfast.actors.calling"))]
    assert not {"holdfast.actors.definition", "holdfast.messaging.declarations"} & set(loaded)
    assert not parts_of(loaded) & {"asl", "bulk", "executions", "http"}


OPENED_FIRST = """
import asyncio
import sys


def where() -> str:
    return "here"


@app.workflow
async def asks() -> None:
    hf.get_logger("shop").info("%s %s", hf.now(), hf.uuid())
    hf.query(where)
    await hf.sleep(0.001)
    async with hf.saga():
        await charge("o-1")
    assert hf.patched("later")
    hf.callback(str)
    await hf.map(charge, ["o-1", "o-2"])
    try:
        await hf.signal("go", str, timeout=0.001)
    except TimeoutError:
        pass


async def main():
    async with app.worker():
        before_the_call = set(sys.modules)
        await CALL
        answer.extend(sorted(set(sys.modules) - before_the_call))


asyncio.run(main())
"""


@pytest.mark.parametrize("call", ['checkout("o-1")', "asks()"])
def test_the_first_call_of_an_open_app_loads_nothing(call: str, tmp_path: Path) -> None:
    assert in_a_fresh_interpreter(DECLARED + OPENED_FIRST.replace("CALL", call), tmp_path)["answer"] == []


def test_a_worker_loads_all_that_bodies_ask_for_before_they_run() -> None:
    asked_for = {name.removeprefix("workflows.") for name in holdfast.PUBLIC_NAMES if name.startswith("workflows.")}
    assert asked_for == {*bodies.ASKED_FOR}


def test_the_command_line_loads_no_client_of_aws_or_redis(tmp_path: Path) -> None:
    loaded = in_a_fresh_interpreter("import holdfast.cli", tmp_path)["loaded"]
    assert "holdfast.cli.aws" in loaded
    assert not {"aws_cdk", "boto3", "botocore", "redis"} & {name.partition(".")[0] for name in loaded}


LAMBDA_HANDLER = (
    DECLARED.replace('hf.App("shop")', 'hf.App("shop", home="aws://shop?region=eu-west-1")')
    + """

class Cart(hf.Actor, app=app):
    async def add(self, sku: str) -> str:
        return sku


handler = app.lambda_handler()
"""
)


def test_the_module_of_a_lambda_function_loads_no_backend_no_server_and_no_command_line(tmp_path: Path) -> None:
    loaded = in_a_fresh_interpreter(LAMBDA_HANDLER, tmp_path)["loaded"]
    heavy = {"apsw", "aws_cdk", "boto3", "botocore", "click", "jinja2", "redis", "sqlite3", "starlette", "uvicorn"}
    assert not heavy & {name.split(".")[0] for name in loaded}
    parts = {name.split(".")[1] for name in loaded if name.startswith("holdfast.")}
    assert not parts & {"backends", "chaos", "cli", "cost", "dashboard", "demo", "infra", "moving", "testing"}
    assert {name for name in loaded if name.startswith("holdfast.http")} == {"holdfast.http", "holdfast.http.serving"}


def test_the_module_of_a_lambda_function_loads_what_its_first_invocation_needs(tmp_path: Path) -> None:
    loaded = in_a_fresh_interpreter(LAMBDA_HANDLER, tmp_path)["loaded"]
    assert {f"holdfast.{name}" for name in ("opening", "runtime.employing", "runtime.worker")} <= {*loaded}
    assert {f"holdfast.workflows.{name}" for name in bodies.ASKED_FOR} <= {*loaded}


def test_a_lambda_function_that_answers_http_loads_the_routes_before_its_first_request(tmp_path: Path) -> None:
    said = "app.lambda_handler(http=hf.iam_caller)"
    loaded = in_a_fresh_interpreter(LAMBDA_HANDLER.replace("app.lambda_handler()", said), tmp_path)["loaded"]
    assert "holdfast.http.routes" in loaded
    assert not [name for name in loaded if name.split(".")[0] == "starlette" or name.startswith("holdfast.http.asgi")]


def test_type_checkers_read_the_same_names() -> None:
    assert Path(holdfast.__file__).with_suffix(".pyi").read_text() == stub(), "run `make stub`"


def test_every_public_name_is_there(tmp_path: Path) -> None:
    code = "import holdfast\nanswer = [name for name in holdfast.__all__ if not hasattr(holdfast, name)]"
    assert in_a_fresh_interpreter(code, tmp_path)["answer"] == []


def test_every_public_name_is_listed_by_dir(tmp_path: Path) -> None:
    code = "import holdfast\nanswer = sorted(set(holdfast.__all__) - set(dir(holdfast)))"
    assert in_a_fresh_interpreter(code, tmp_path)["answer"] == []


def test_an_unknown_name_is_an_attribute_error(tmp_path: Path) -> None:
    code = "import holdfast\ntry:\n    holdfast.nothing\nexcept AttributeError as error:\n    answer = [str(error)]"
    (message,) = in_a_fresh_interpreter(code, tmp_path)["answer"]
    assert "holdfast" in message
    assert "nothing" in message


def test_a_package_says_where_to_start_in_it():
    """``Start with`` in the docstring of a package names modules of it."""
    folder = Path(holdfast.__file__).parent
    named = 0
    for package in folder.rglob("__init__.py"):
        for sentence in re.findall(r"Start with [^.;]*", package.read_text()):
            for name in re.findall(r"``(\w+)``", sentence):
                assert (package.parent / f"{name}.py").exists(), f"{package}: there is no {name}"
                named += 1
    assert named > 0
