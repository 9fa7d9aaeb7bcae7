"""A durable function on AWS's SDK, as its documentation begins. See ``measure_cold.py``."""

from aws_durable_execution_sdk_python import DurableContext, StepContext, durable_execution, durable_step


@durable_step
def charge(step_context: StepContext, order: str) -> str:  # noqa: ARG001 - the signature of a step
    return order


@durable_execution
def handler(event: dict, context: DurableContext) -> str:
    return context.step(charge(event["order"]))
