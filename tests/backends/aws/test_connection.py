"""How the clients of botocore are made. Nothing is sent."""

from __future__ import annotations

import pytest

from holdfast.backends.aws.connection import new_client

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(("service", "checked"), [("dynamodb", False), ("s3", True), ("sqs", True)])
def test_requests_are_checked_here_too_where_a_wrong_one_could_mean_something_else(service: str, checked: bool) -> None:
    client = new_client("eu-west-1", NOWHERE, service)
    assert (type(client._serializer).__name__ == "ParamValidationDecorator") is checked
    assert client.meta.config.user_agent.endswith(" lib/holdfast")
    assert client.meta.config.retries["total_max_attempts"] == 1
    client.close()
