"""Two published versions live at once, on a stand-in for AWS: the template deployed, an alias moved, real calls."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.infra.ministack import REGION, clients, wait_until
from tests.infra.test_ministack import Client, endpoint, outputs, settled

import holdfast as hf
from holdfast.cli import main
from holdfast.infra import Fabric, Function, UploadedCode, template

__all__ = ["endpoint"]

pytestmark = [pytest.mark.aws, pytest.mark.slow, pytest.mark.process]

PACKAGES = [Path(str(module.__file__)).parent for module in (hf, msgspec)]


def pack(color: str) -> bytes:
    """A zip file as one would deploy it: the handler, Holdfast and what it needs. boto3 is there already."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        source = Path(__file__).with_name("release.py").read_text()
        archive.writestr("handler.py", source.replace("COLOR", color))
        for package in PACKAGES:
            for file in package.rglob("*"):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(package.parent).as_posix())
    return packed.getvalue()


def stack(color: str) -> dict[str, str]:
    fabric = Fabric(prefix="shop", function=Function(code=UploadedCode("code-bucket", color, color)))
    return {"StackName": "shop", "TemplateBody": json.dumps(template(fabric))}


@pytest.fixture
def client(endpoint: str) -> Iterator[Client]:
    with clients(endpoint) as get:
        get("s3").create_bucket(Bucket="code-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
        for color in ("red", "blue"):
            get("s3").put_object(Bucket="code-bucket", Key=color, Body=pack(color))
        yield get


class Shop:
    """The function, as its callers see it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known = outputs(client)

    def ask(self, what: str, workflow: str, id: str, **more: Any) -> Any:
        event = {"holdfast": what, "workflow": workflow, "id": id, **more}
        told = self._client("lambda").invoke(FunctionName=self._known["Function"], Payload=json.dumps(event))
        payload = told["Payload"].read()
        assert "FunctionError" not in told, payload
        return json.loads(payload)

    def start(self, workflow: str, id: str) -> None:
        told = self.ask("start", workflow, id, input=[id])
        assert told["status"] == "SUSPENDED", told

    def signal(self, workflow: str, id: str) -> None:
        """By a message, as from outside."""
        event = {"holdfast": "signal", "workflow": workflow, "id": id, "name": "go", "value": "ann"}
        self._client("sqs").send_message(QueueUrl=self._known["DoorbellQueue"], MessageBody=json.dumps(event))

    def reaches(self, workflow: str, id: str, status: str) -> Any:
        told = wait_until(lambda: told if (told := self.ask("status", workflow, id))["status"] == status else None)
        return told.get("result")


def test_two_versions_are_live_at_once_and_one_goes(client: Client, endpoint: str) -> None:
    client("cloudformation").create_stack(**stack("red"), Capabilities=["CAPABILITY_IAM"])
    assert settled(client) == "CREATE_COMPLETE"
    shop = Shop(client)
    for workflow, id in (("pinned", "one"), ("pinned", "two"), ("compatible", "three")):
        shop.start(workflow, id)

    client("cloudformation").update_stack(**stack("blue"), Capabilities=["CAPABILITY_IAM"])
    assert settled(client) == "UPDATE_COMPLETE"
    assert client("lambda").get_alias(FunctionName="shop-holdfast", Name="live")["FunctionVersion"] == "2"
    shop.start("pinned", "four")
    for workflow, id in (("pinned", "one"), ("compatible", "three"), ("pinned", "four")):
        shop.signal(workflow, id)
    assert shop.reaches("pinned", "one", "COMPLETED") == ["red", "charged one on red", "ann"]
    assert shop.reaches("compatible", "three", "COMPLETED") == ["blue", "charged three on red", "ann"]
    assert shop.reaches("pinned", "four", "COMPLETED") == ["blue", "charged four on blue", "ann"]

    client("lambda").delete_function(FunctionName="shop-holdfast", Qualifier="1")
    shop.signal("pinned", "two")
    shop.reaches("pinned", "two", "BLOCKED")
    home = f"aws://shop?region={REGION}&endpoint={endpoint}"
    listed = CliRunner().invoke(main, ["ls", "--home", home, "--status", "BLOCKED", "--scan", "--json"])
    assert [each["id"] for each in json.loads(listed.output)["executions"]] == ["two"], listed.output
    diagnosed = CliRunner().invoke(main, ["doctor", "--home", home])
    assert "execution 'two' of workflow 'pinned'" in diagnosed.output
    assert "published as shop-holdfast:1" in diagnosed.output

    shop.ask("move", "pinned", "two")
    assert shop.reaches("pinned", "two", "COMPLETED") == ["blue", "charged two on red", "ann"]
