"""Direct invocations of the trial's function, with commands as JSON."""

from __future__ import annotations

import json
from typing import Any

from holdfast.errors import StoreUnavailable
from holdfast.verify.bench import Bench


async def invoke(bench: Bench, command: dict[str, Any], function: str | None = None) -> Any:
    """The function's answer to a command. Raises ``StoreUnavailable`` with the error that it raised."""
    payload = json.dumps(command).encode()
    answer = await bench.cloud.send("lambda", "Invoke", FunctionName=function or bench.function, Payload=payload)
    told = json.loads(answer["Payload"])
    if "FunctionError" in answer:
        raise StoreUnavailable(f"the function failed at {command['holdfast']}: {told.get('errorMessage', told)}")
    return told


def call(key: str, method: str, *args: Any, actor: str = "Counter", **more: Any) -> dict[str, Any]:
    """The command that calls a method of an actor."""
    return {"holdfast": "call", "actor": actor, "key": key, "method": method, "args": list(args), **more}
