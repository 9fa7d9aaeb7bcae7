"""A function with an idempotent handler of ours; the home is the environment's. See ``measure_cold.py``."""

import holdfast as hf

FIRST_EVENT = {"id": "o-1", "cents": 1}

app = hf.App("bench")
app.sync().open()


@app.idempotent(key="event.id")
def handler(event, context):  # noqa: ARG001 - the signature of a Lambda handler
    return {"paid": event["cents"]}
