"""How the clients of botocore are made. Nothing is sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.backends.aws.local import credentials

from holdfast.backends.aws.connection import AnswerCut, new_client, perform
from holdfast.backends.aws.failures import AnswerLost, explained
from holdfast.testing.hostile.wire import Messages

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(("service", "checked"), [("dynamodb", False), ("s3", True), ("sqs", True)])
def test_requests_are_checked_here_too_where_a_wrong_one_could_mean_something_else(service: str, checked: bool) -> None:
    client = new_client("eu-west-1", NOWHERE, service)
    assert (type(client._serializer).__name__ == "ParamValidationDecorator") is checked
    assert client.meta.config.user_agent.endswith(" lib/holdfast")
    assert client.meta.config.retries["total_max_attempts"] == 1
    client.close()


@pytest.fixture
def answered() -> Iterator[Callable[[str, bytes], Any]]:
    """``answered(service, answer)``: a client whose requests get this answer, and then the end of the connection."""
    with ExitStack() as stack:
        stack.enter_context(credentials())

        def make(service: str, answer: bytes) -> Any:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def serve() -> None:
                connection, _ = listener.accept()
                messages = Messages()
                with connection:
                    while not list(messages.feed(connection.recv(65_536))):
                        pass
                    connection.sendall(answer)

            thread = threading.Thread(target=serve)
            thread.start()
            stack.callback(thread.join)
            client = new_client("eu-west-1", f"http://127.0.0.1:{listener.getsockname()[1]}", service)
            stack.callback(client.close)
            return client

        yield make


ITEM = b'{"Item":{"p":{"S":"p"}}}'
GET = {"TableName": "shop-holdfast", "Key": {"p": {"S": "p"}, "s": {"S": "@"}}}


def ok(length: int, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%b" % (
        length,
        body,
    )


@pytest.mark.parametrize("arrived", range(len(ITEM)))
def test_an_answer_that_is_cut_is_lost_and_not_an_answer_that_there_is_no_item(arrived: int, answered: Any) -> None:
    with pytest.raises(AnswerCut) as cut:
        perform(answered("dynamodb", ok(len(ITEM), ITEM[:arrived])), "GetItem", GET)
    assert isinstance(explained(cut.value, "shop-holdfast"), AnswerLost)


def test_a_whole_answer_is_taken(answered: Any) -> None:
    assert perform(answered("dynamodb", ok(len(ITEM), ITEM)), "GetItem", GET)["Item"] == {"p": {"S": "p"}}


def test_an_answer_without_a_body_by_its_nature_is_whole(answered: Any) -> None:
    head = perform(answered("s3", ok(500, b"")), "HeadObject", {"Bucket": "b", "Key": "k"})
    assert head["ContentLength"] == 500


def test_an_object_that_is_cut_is_no_object(answered: Any) -> None:
    with pytest.raises(Exception, match="bytes|incomplete|Incomplete"):
        perform(answered("s3", ok(500, b"half")), "GetObject", {"Bucket": "b", "Key": "k"})
