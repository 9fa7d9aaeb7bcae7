"""Two functions of one home on a stand-in for AWS: the template deployed, and each works on what is left to it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.infra.ministack import REGION, clients, wait_until
from tests.infra.test_ministack import Client, endpoint, settled
from tests.infra.test_two_versions import PACKAGES, Shop

from holdfast.infra import Fabric, Function, Routed, UploadedCode, template

__all__ = ["endpoint"]

pytestmark = [pytest.mark.aws, pytest.mark.slow, pytest.mark.process]

FABRIC = Fabric(
    prefix="shop",
    function=Function(code=UploadedCode("code-bucket", "several", "several")),
    functions={"pdf": Routed(workflows=["render"], actors=["Printer"], memory_mb=1024)},
)


def pack() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("handler.py", Path(__file__).with_name("several.py").read_text())
        for package in PACKAGES:
            for file in package.rglob("*"):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(package.parent).as_posix())
    return packed.getvalue()


@pytest.fixture
def client(endpoint: str) -> Iterator[Client]:
    with clients(endpoint) as get:
        get("s3").create_bucket(Bucket="code-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
        get("s3").put_object(Bucket="code-bucket", Key="several", Body=pack())
        yield get


def test_a_start_at_the_main_function_is_carried_out_by_both(client: Client) -> None:
    body = json.dumps(template(FABRIC))
    client("cloudformation").create_stack(StackName="shop", TemplateBody=body, Capabilities=["CAPABILITY_IAM"])
    assert settled(client) == "CREATE_COMPLETE"
    pdf = client("lambda").get_function_configuration(FunctionName="shop-holdfast-pdf")
    assert pdf["MemorySize"] == 1024
    shop = Shop(client)
    shop.start("checkout", "1")
    told = wait_until(lambda: told if (told := shop.ask("status", "checkout", "1"))["status"] == "COMPLETED" else None)
    assert told["result"] == [
        "checked out in shop-holdfast",
        "rendered in shop-holdfast-pdf",
        "page 1 in shop-holdfast-pdf",
    ]
