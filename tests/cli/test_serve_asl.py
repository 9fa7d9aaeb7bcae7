"""``holdfast serve --asl`` as a process: boto3 uses it over a socket, and a machine survives that it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

ROLE = "arn:aws:iam::000000000000:role/states"
MACHINE = "arn:aws:states:us-east-1:000000000000:stateMachine:checkout"
EXECUTION = "arn:aws:states:us-east-1:000000000000:execution:checkout:o-17"
PATIENCE_SECONDS = 100

SHOP = '''
    """A shop whose steps leave a line for each time that they ran."""

    from pathlib import Path

    import holdfast as hf

    app = hf.App("shop", home="sqlite:///shop.db")


    @app.step
    def charge(order: dict) -> dict:
        with Path("ran").open("a") as ran:
            ran.write("charge\\n")
        return {"paid": order["cents"]}


    @app.step
    def ship(order: dict) -> str:
        if Path("hold").exists():
            Path("reached").touch()
            raise hf.asl.Error("Hold", "the file is there")
        with Path("ran").open("a") as ran:
            ran.write("ship\\n")
        return "shipped"
'''

CHECKOUT = {
    "StartAt": "Charge",
    "States": {
        "Charge": {
            "Type": "Task",
            "Resource": "arn:aws:lambda:us-east-1:000000000000:function:charge",
            "ResultPath": "$.payment",
            "Next": "Ship",
        },
        "Ship": {
            "Type": "Task",
            "Resource": "arn:aws:lambda:us-east-1:000000000000:function:ship",
            "ResultPath": "$.shipping",
            "Retry": [{"ErrorEquals": ["Hold"], "IntervalSeconds": 1, "MaxAttempts": 1000, "BackoffRate": 1.0}],
            "End": True,
        },
    },
}


@pytest.fixture
def folder(tmp_path):
    lines = SHOP.splitlines()
    (tmp_path / "shop.py").write_text("\n".join(line.removeprefix("    ") for line in lines))
    return tmp_path


@contextmanager
def serving(folder: Path):
    """A server in a process of its own, and the client of it."""
    options = ("-a", "shop:app", "--port", "0", "--work", "--asl", "--json")
    command = [sys.executable, "-m", "holdfast.cli", "serve", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, env=os.environ, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def client(url: str, secret: str):
    return boto3.client(
        "stepfunctions",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="anybody",
        aws_secret_access_key=secret,
        config=Config(inject_host_prefix=False),
    )


def token_in(folder: Path) -> str:
    return (folder / "shop.db-token").read_text().split()[-1]


def until(check) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not check():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@pytest.mark.process
def test_an_execution_goes_on_where_it_was_when_its_server_was_killed(folder):
    (folder / "hold").touch()
    with serving(folder) as (process, url):
        boto = client(url, token_in(folder))
        boto.create_state_machine(name="checkout", definition=json.dumps(CHECKOUT), roleArn=ROLE)
        boto.start_execution(stateMachineArn=MACHINE, name="o-17", input='{"cents": 500}')
        until((folder / "reached").exists)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (folder / "hold").unlink()
    with serving(folder) as (_, url):
        boto = client(url, token_in(folder))
        until(lambda: boto.describe_execution(executionArn=EXECUTION)["status"] != "RUNNING")
        told = boto.describe_execution(executionArn=EXECUTION)
        events = boto.get_execution_history(executionArn=EXECUTION)["events"]
    assert (told["status"], json.loads(told["output"])) == (
        "SUCCEEDED",
        {"cents": 500, "payment": {"paid": 500}, "shipping": "shipped"},
    )
    assert (folder / "ran").read_text().split() == ["charge", "ship"], "what was done is not done again"
    assert [each["type"] for each in events if "State" in each["type"]] == [
        "TaskStateEntered",
        "TaskStateExited",
        "TaskStateEntered",
        "TaskStateExited",
    ]


@pytest.mark.process
def test_the_server_wants_the_token_of_the_file_as_the_secret(folder):
    with serving(folder) as (_, url):
        assert client(url, token_in(folder)).list_state_machines()["stateMachines"] == []
        with pytest.raises(ClientError, match="UnrecognizedClientException"):
            client(url, "nothing").list_state_machines()
