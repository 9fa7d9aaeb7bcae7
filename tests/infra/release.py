"""What a function of the tests runs. ``COLOR`` is replaced before it is packed, and so is the code of its workflows."""

import holdfast as hf

app = hf.App("shop")


@app.step
async def charge(order: str) -> str:
    return f"charged {order} on COLOR"


@app.workflow(versions="pinned")
async def pinned(order: str) -> list[str]:
    paid = await charge(order)
    by = await hf.signal("go", str)
    return ["COLOR", paid, by]


@app.workflow
async def compatible(order: str) -> list[str]:
    paid = await charge(order)
    by = await hf.signal("go", str)
    return ["COLOR", paid, by]


handler = app.lambda_handler()
