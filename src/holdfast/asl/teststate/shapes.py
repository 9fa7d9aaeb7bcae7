"""Whether a mocked result has the shape that the API of the service describes.

The shapes are those of botocore, which the extra ``aws`` brings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from holdfast.asl.resources import Resource
from holdfast.asl.teststate.refusal import Refused
from holdfast.asl.validation.kinds import is_list, is_object
from holdfast.errors import ConfigurationError

SDK: Final = "aws-sdk:"
SERVICES: Final = {
    "cloudwatchlogs": "logs",
    "cognitoidentityprovider": "cognito-idp",
    "elasticmapreduce": "emr",
    "eventbridge": "events",
    "sfn": "stepfunctions",
    "states": "stepfunctions",
}
"""Services that Step Functions names in another way than botocore."""
FREE_FIELDS: Final = {("lambda", "invoke"): frozenset({"Payload"})}
"""Fields of optimised integrations that hold any JSON where the API has text or bytes."""

ENDS_OF_JOBS: Final = {
    ("batch", "submitJob"): "describeJobs",
    ("ecs", "runTask"): "describeTasks",
    ("states", "startExecution"): "describeExecution",
}
"""With ``.sync`` the result is what this action answers of the job once it has ended."""

KINDS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "string": ((str,), "a string"),
    "character": ((str,), "a string"),
    "blob": ((str,), "a string"),
    "timestamp": ((str,), "a string"),
    "integer": ((int, float), "a number"),
    "long": ((int, float), "a number"),
    "float": ((int, float), "a number"),
    "double": ((int, float), "a number"),
    "boolean": ((bool,), "a boolean"),
    "list": ((list,), "an array"),
    "map": ((dict,), "an object"),
    "structure": ((dict,), "an object"),
}
MEASURED: Final = frozenset({"string", "blob", "list"})


def check_result(resource: Resource, result: Any, mode: str) -> None:
    """Refuse a result that the service does not answer. Fields that it has not are let through, as AWS does.

    ``mode``: with ``STRICT`` required fields have to be there, with ``NONE`` nothing is checked.
    """
    if mode == "NONE":
        return
    service, _, action = resource.call.removeprefix(SDK).partition(":")
    if resource.pattern:
        action = ENDS_OF_JOBS.get((service, action), "")
    shape = output_shape(SERVICES.get(service, service), action)
    if shape is None:
        return
    free = frozenset[str]() if resource.call.startswith(SDK) else FREE_FIELDS.get((service, action), frozenset())
    if not is_object(result):
        raise Refused("Mock result schema validation error: the result must be an object")
    check_structure(shape, result, free, strict=mode == "STRICT")


@lru_cache(256)
def output_shape(service: str, action: str) -> Any:
    """What an action of a service answers, or ``None`` where botocore does not know it."""
    try:
        import botocore.exceptions as failures  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  # an extra
        import botocore.session as sessions  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  # see above
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "a mock is compared with an API of AWS by botocore: pip install '.[aws]' in a checkout of Holdfast, or set "
            "fieldValidationMode to NONE"
        ) from error
    try:
        session: Any = sessions.Session()
        model = session.get_service_model(service)
    except failures.UnknownServiceError:
        return None
    operation = next((name for name in model.operation_names if name.lower() == action.lower()), None)
    return None if operation is None else model.operation_model(operation).output_shape


def check_structure(shape: Any, value: dict[str, Any], free: frozenset[str], *, strict: bool) -> None:
    """Compare an object with a structure, field by field; Step Functions writes their first letter as a capital."""
    members = {capitalised(name): member for name, member in shape.members.items()}
    for name in map(capitalised, shape.required_members if strict else ()):
        if name not in value:
            raise Refused(f"Mock result schema validation error: Required field '{name}' is missing")
    for name, inner in value.items():
        member = members.get(name)
        if member is not None and name not in free:
            check_value(name, member, inner, strict=strict)


def capitalised(name: str) -> str:
    """The name of a field as Step Functions writes it."""
    return name[:1].upper() + name[1:]


def check_value(name: str, shape: Any, value: Any, *, strict: bool) -> None:
    """Compare one value with its shape."""
    if shape.type_name not in KINDS:  # a document holds any JSON
        return
    types, told = KINDS[shape.type_name]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise invalid(name, f"must be {told}")
    if value not in (getattr(shape, "enum", None) or (value,)):
        raise invalid(name, "is not an expected value")
    check_bounds(name, shape, value)
    if is_list(value):
        for each in value:
            check_value(name, shape.member, each, strict=strict)
    elif is_object(value) and shape.type_name == "structure":
        check_structure(shape, value, frozenset(), strict=strict)
    elif is_object(value):
        for each in value.values():
            check_value(name, shape.value, each, strict=strict)


def check_bounds(name: str, shape: Any, value: Any) -> None:
    """Compare a length or a number with the bounds of its shape."""
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if shape.type_name in MEASURED:
        if least is not None and len(value) < least:
            raise invalid(name, "is smaller than the minimum length")
        if most is not None and len(value) > most:
            raise invalid(name, "exceeds the maximum length")
    elif isinstance(value, int | float):
        if least is not None and value < least:
            raise invalid(name, "is less than the minimum value")
        if most is not None and value > most:
            raise invalid(name, "exceeds the maximum value")


def invalid(field: str, why: str) -> Refused:
    """The refusal of a mock's result."""
    return Refused(f"Mock result schema validation error: Field '{field}' {why}")
