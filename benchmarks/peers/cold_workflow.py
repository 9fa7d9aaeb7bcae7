"""A function with a workflow of ours. See ``measure_cold.py``."""

import holdfast as hf

app = hf.App("bench")


@app.step
async def charge(order: str) -> str:
    return order


@app.workflow
async def checkout(order: str) -> str:
    return await charge(order)


handler = app.lambda_handler()
