"""What two functions of the tests run: each step notes which of them it ran in."""

import os

import holdfast as hf

app = hf.App("shop")


@app.step
async def where(what: str) -> str:
    return f"{what} in {os.environ['AWS_LAMBDA_FUNCTION_NAME']}"


class Printer(hf.Actor, app=app):
    """It prints where it runs."""

    pages: int = 0

    async def page(self) -> str:
        self.pages += 1
        return f"page {self.pages} in {os.environ['AWS_LAMBDA_FUNCTION_NAME']}"


@app.workflow
async def render(order: str) -> list[str]:
    return [await where("rendered"), await Printer.at("a").page()]


@app.workflow
async def checkout(order: str) -> list[str]:
    return [await where("checked out"), *await render(order)]


handler = app.lambda_handler()
