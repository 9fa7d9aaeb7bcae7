"""Functions that a generated module has if it needs them, as text."""

from __future__ import annotations

from typing import Final

IMPORTS: Final[dict[str, tuple[str, ...]]] = {
    "retried": ("from collections.abc import Awaitable, Callable",),
    "together": ("import asyncio", "from collections.abc import Coroutine"),
    "text": ("import json",),
    "until": ("from datetime import datetime",),
    "json": ("import json",),
    "base64": ("import base64",),
    "hashlib": ("import hashlib",),
}
"""What a helper imports. Some are a module and nothing else."""

HELPERS: Final[dict[str, str]] = {
    "BROKEN": '''
BROKEN = (LookupError, TypeError, NameError, NotImplementedError)
"""What a path that leads nowhere raises. Nothing catches it, as States.Runtime."""
''',
    "at": '''
def at(value: Any, *keys: str | int) -> Any:
    """What is at this place, or None."""
    for key in keys:
        if not has(value, key):
            return None
        value = value[key]
    return value
''',
    "caught": '''
def caught(error: Exception) -> dict[str, Any]:
    """What a catcher of the machine gets for an error."""
    match error:
        case hf.asl.Error():
            return {"Error": error.error, "Cause": error.cause or ""}
        case hf.StepTimeout():
            return {"Error": "States.Timeout", "Cause": ""}
        case hf.StepFailed():
            name = error.error_type.rpartition(".")[2]
            return {"Error": name, "Cause": error.error_message}
        case _:
            name = getattr(error, "error", type(error).__name__)
            return {"Error": name, "Cause": str(error)}
''',
    "has": '''
def has(value: Any, *keys: str | int) -> bool:
    """Whether there is something at this place."""
    for key in keys:
        match value, key:
            case dict(), str() if key in value:
                value = value[key]
            case list(), int() if -len(value) <= key < len(value):
                value = value[key]
            case _:
                return False
    return True
''',
    "is_flag": '''
def is_flag(*values: Any) -> bool:
    """Whether all of them are true or false."""
    return all(isinstance(value, bool) for value in values)
''',
    "is_number": '''
def is_number(*values: Any) -> bool:
    """Whether all of them are numbers; Python counts True as one."""
    return all(type(value) in (int, float) for value in values)
''',
    "is_text": '''
def is_text(*values: Any) -> bool:
    """Whether all of them are texts."""
    return all(isinstance(value, str) for value in values)
''',
    "not_converted": '''
def not_converted(pointer: str, original: str) -> Any:
    """Stands for what the machine has there. Write it in Python."""
    raise NotImplementedError(f"{pointer}: {original}")
''',
    "put": '''
def put(whole: Any, value: Any, *keys: str | int) -> Any:
    """A copy of the whole with the value at this place."""
    if not keys:
        return value
    key, *rest = keys
    if isinstance(key, int):
        copy = list(whole)
        copy[key] = put(copy[key], value, *rest)
        return copy
    return whole | {key: put(whole.get(key, {}), value, *rest)}
''',
    "retried": '''
async def retried(work: Callable[[], Awaitable[Any]], *policies: hf.Retry) -> Any:
    """Work that the first policy for its error repeats; each counts for itself."""
    attempts = [1] * len(policies)
    while True:
        try:
            return await work()
        except Exception as error:
            fit = (n for n, each in enumerate(policies) if each.retries(error, 0))
            n = next(fit, None)
            if n is None or not policies[n].retries(error, attempts[n]):
                raise
            delay = policies[n].delay_seconds(attempts[n], hf.random())
        attempts[n] += 1
        await hf.sleep(delay)
''',
    "text": '''
def text(value: Any) -> str:
    """A value within a text."""
    match value:
        case str():
            return value
        case bool() | int() | None:
            return json.dumps(value)
        case float() if value % 1 and 0.001 <= abs(value) < 1e7:
            return repr(value)
        case _:
            raise TypeError(f"decide how to print a {type(value).__name__}")
''',
    "together": '''
async def together(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    """The results of branches side by side. A failure cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in branches]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
''',
    "until": '''
def until(moment: str) -> float:
    """How many seconds are left until a moment."""
    return max(0.0, (datetime.fromisoformat(moment) - hf.now()).total_seconds())
''',
}

NEEDS: Final = {"at": ("has",)}
"""What a helper uses of the others."""
