"""Services of AWS for tasks that nothing is mapped for: ``aws=True``. The account is that of the process.

A resource names a service and an action of its API; botocore knows what they take and answer. What Step Functions waits
for by ``.sync``, a job of Batch say, is not offered: map a workflow that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from holdfast.asl.errors import Error
from holdfast.asl.jsontext import compact, read
from holdfast.asl.resources import REQUEST_RESPONSE, WAIT_FOR_TASK_TOKEN, is_lambda, resource_of
from holdfast.asl.teststate.shapes import SDK, SERVICES
from holdfast.asl.validation.kinds import is_list, is_object
from holdfast.errors import ConfigurationError
from holdfast.workflows.scope import current

Client = Any
"""A client of botocore, which is not typed."""

LAMBDA_INVOKE: Final = "lambda:invoke"
TOKEN_CHARACTERS: Final = 32

NAMES: Final = {
    "dynamodb": ("DynamoDB", "DynamoDb"),
    "eventbridge": ("EventBridge", "EventBridge"),
    "events": ("EventBridge", "EventBridge"),
    "secretsmanager": ("SecretsManager", "SecretsManager"),
    "sfn": ("StepFunctions", "Sfn"),
    "sns": ("SNS", "Sns"),
    "sqs": ("SQS", "Sqs"),
}
"""What errors of a service are called, by optimised integrations and by ``aws-sdk``; others are capitalized."""


def connect(service: str) -> Client:
    """A client of a service, of the account and region of this process."""
    try:
        import botocore.session as sessions  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  # an extra
    except ModuleNotFoundError as error:
        raise ConfigurationError("aws=True needs botocore: pip install '.[aws]' in a checkout of Holdfast") from error
    session: Any = sessions.Session()
    return session.create_client(service)


class Amazon:
    """Calls services of AWS. ``connect`` makes the client of a service."""

    def __init__(self, connect: Callable[[str], Client] = connect) -> None:
        self._connect = connect
        self._clients: dict[str, Client] = {}

    def target(self, text: str) -> Callable[[Any], Any] | None:
        """What calls the resource; ``None`` if it names no service that can be called."""
        resource = resource_of(text)
        if is_lambda(text):
            return partial(self._function, text)
        service, _, action = resource.call.removeprefix(SDK).partition(":")
        if not action or ":" in action or resource.pattern not in (REQUEST_RESPONSE, WAIT_FOR_TASK_TOKEN):
            return None
        if resource.call == LAMBDA_INVOKE:
            return self._invoke
        return partial(self._call, service, action, is_sdk=resource.call.startswith(SDK))

    def _client(self, service: str) -> Client:
        if service not in self._clients:
            self._clients[service] = self._connect(SERVICES.get(service, service))
        return self._clients[service]

    def _function(self, name: str, given: Any) -> Any:
        return self._invoked({"FunctionName": name, "Payload": given})["Payload"]

    def _invoke(self, given: Any) -> Any:
        return self._invoked(given if is_object(given) else {})

    def _invoked(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        payload = compact(asked.get("Payload", {})).encode()
        answer = self._sent("lambda", "Invoke", {**asked, "Payload": payload}, is_sdk=False)
        text = answer.pop("Payload").read().decode()
        told: Any = read(text) if text else None
        if "FunctionError" in answer:
            named = told.get("errorType") if is_object(told) else None
            raise Error(str(named or "Lambda.Unknown"), text)
        return {**_told(answer), "Payload": told}

    def _call(self, service: str, action: str, given: Any, *, is_sdk: bool) -> Any:
        model = self._client(service).meta.service_model
        operation = next((name for name in model.operation_names if name.lower() == action.lower()), None)
        if operation is None:
            raise Error("States.Runtime", f"{service} has no action {action}")
        shape: Any = model.operation_model(operation).input_shape
        members: Mapping[str, Any] = {} if shape is None else shape.members
        asked = {} if shape is None else _asked(shape, given if is_object(given) else {})
        for name, member in members.items():
            if member.metadata.get("idempotencyToken"):
                asked.setdefault(name, current().idempotency_key[:TOKEN_CHARACTERS])
        return _told(self._sent(service, operation, asked, is_sdk=is_sdk))

    def _sent(self, service: str, operation: str, asked: Mapping[str, Any], *, is_sdk: bool) -> dict[str, Any]:
        import botocore as aws  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  # an extra
        import botocore.exceptions as failures  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  # see above

        method = getattr(self._client(service), cast("Any", aws).xform_name(operation))
        try:
            answer: dict[str, Any] = method(**asked)
        except failures.ClientError as error:
            raise _failure(service, error, is_sdk=is_sdk) from error
        except failures.BotoCoreError as error:
            raise Error(f"{_name(service, is_sdk=is_sdk)}.SdkClientException", str(error)) from error
        answer.pop("ResponseMetadata", None)
        return answer


def _name(service: str, *, is_sdk: bool) -> str:
    return NAMES.get(service, (service.capitalize(), service.capitalize()))[is_sdk]


def _failure(service: str, error: Any, *, is_sdk: bool) -> Error:
    told, name = error.response.get("Error", {}), _name(service, is_sdk=is_sdk)
    code = str(told.get("Code", "Unknown")).rpartition(".")[2]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    suffix = "" if code.endswith("Exception") else "Exception"
    return Error(f"{name}.{code}{suffix}", f"{told.get('Message', '')} (Service: {name}, Status Code: {status})")


def _asked(shape: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments under the names of the API: Step Functions begins all of them with a capital."""
    members = {name.lower(): (name, member) for name, member in shape.members.items()}
    asked: dict[str, Any] = {}
    for name, value in given.items():
        found = members.get(name.lower())
        asked[name if found is None else found[0]] = value if found is None else _value(found[1], value)
    return asked


def _value(shape: Any, given: Any) -> Any:
    if shape.type_name == "string" and not isinstance(given, str):
        return compact(given)  # a message that is given as JSON
    if shape.type_name == "structure" and is_object(given):
        return _asked(shape, given)
    if shape.type_name == "list" and is_list(given):
        return [_value(shape.member, each) for each in given]
    if shape.type_name == "map" and is_object(given):
        return {name: _value(shape.value, each) for name, each in given.items()}
    return given


def _told(answer: Any) -> Any:
    """An answer as Step Functions has it: names with a capital, and nothing but JSON."""
    if is_object(answer):
        return {f"{name[:1].upper()}{name[1:]}": _told(value) for name, value in answer.items()}
    if is_list(answer):
        return [_told(each) for each in answer]
    if isinstance(answer, datetime):
        return answer.isoformat()
    if isinstance(answer, bytes):
        return answer.decode(errors="replace")
    return answer.read().decode(errors="replace") if hasattr(answer, "read") else answer
