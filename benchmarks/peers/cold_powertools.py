"""A function with an idempotent handler, as Powertools' documentation begins. See ``measure_cold.py``."""

import os

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent

FIRST_EVENT = {"id": "o-1", "cents": 1}

layer = DynamoDBPersistenceLayer(table_name=os.environ["BENCH_TABLE"])


@idempotent(persistence_store=layer, config=IdempotencyConfig(event_key_jmespath="id"))
def handler(event, context):  # noqa: ARG001 - the signature of a Lambda handler
    return {"paid": event["cents"]}
