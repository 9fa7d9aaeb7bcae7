"""The shop over HTTP: what each request may say, and which function does it.

Every process that serves also works: on checkouts, letters and projections, its own and those of processes that died.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

import msgspec
from examples.shopping_cart import carts, catalogue, letters, orders, stock
from examples.shopping_cart.checkout import checkout
from examples.shopping_cart.shop import Refused, app
from examples.shopping_cart.visits import Visits, owner_of, visit_of
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import holdfast as hf
from holdfast.http import IdempotentRequests

__all__ = ["letters", "service"]  # the letters' consumers are declared by importing them

T = TypeVar("T")

SHELVES = {
    catalogue.Product("bench", "A bench", 24_900): 20,
    catalogue.Product("lamp", "A lamp", 3_950): 100,
    catalogue.Product("mug", "A mug", 1_250): 1_000,
}
"""What the shop opens with."""

CHECKOUT_PATIENCE = "10s"
FOLLOW_AGAIN_SECONDS = 1.0


# ── What requests say ───────────────────────────────────────────────────────────────────────────────────────────────

Quantity = Annotated[int, msgspec.Meta(ge=0, le=carts.MOST_PIECES)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Cents = Annotated[int, msgspec.Meta(ge=0)]


class Add(msgspec.Struct, forbid_unknown_fields=True):
    """More of an article."""

    sku: Text
    quantity: Annotated[int, msgspec.Meta(ge=1, le=carts.MOST_PIECES)] = 1


class Change(msgspec.Struct, forbid_unknown_fields=True):
    """So many of an article; with ``version``, only if the cart is still at that."""

    quantity: Quantity
    version: Annotated[int, msgspec.Meta(ge=1)] | None = None


class LogIn(msgspec.Struct, forbid_unknown_fields=True):
    """A member's name. Who he is to prove that is not this example's subject."""

    name: Text


class CheckOut(msgspec.Struct, forbid_unknown_fields=True):
    """How to pay, and the total that the customer has seen and agrees to."""

    card: Text
    cents: Cents


class Price(msgspec.Struct, forbid_unknown_fields=True):
    """A new price."""

    cents: Cents


async def said(request: Request, kind: type[T]) -> T:
    """The request's body. Raises ``msgspec.ValidationError``."""
    return msgspec.json.decode(await request.body(), type=kind)


def answer(value: Any, status: int = 200, **headers: str) -> Response:
    """A response of typed JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


# ── The catalogue and the cart ──────────────────────────────────────────────────────────────────────────────────────


async def get_products(_: Request) -> Response:
    return answer(await catalogue.everything())


async def get_product(request: Request) -> Response:
    found = await catalogue.product(request.path_params["sku"])
    if found is None:
        raise hf.NotFound("there is no such article")
    return answer(found)


async def put_price(request: Request) -> Response:
    """For the shopkeeper: serve it behind a door of his own."""
    return answer(await catalogue.set_price(request.path_params["sku"], (await said(request, Price)).cents))


async def cart_answer(found: hf.Versioned[carts.Cart] | None, status: int = 200) -> Response:
    """The cart as its owner sees it: lines, total and version."""
    lines, version = (found.value.lines, found.version) if found is not None else ({}, 0)
    return answer({"lines": lines, "cents": await catalogue.shown_total(lines), "version": version}, status)


async def get_cart(request: Request) -> Response:
    return await cart_answer(await carts.look(owner_of(request.scope)))


async def add_line(request: Request) -> Response:
    wish = await said(request, Add)
    return await cart_answer(await carts.add(owner_of(request.scope), wish.sku, wish.quantity))


async def put_line(request: Request) -> Response:
    wish = await said(request, Change)
    owner, sku = owner_of(request.scope), request.path_params["sku"]
    try:
        return await cart_answer(await carts.set_quantity(owner, sku, wish.quantity, wish.version))
    except hf.Conflict as conflict:
        return await cart_answer(conflict.there, 409)


async def delete_line(request: Request) -> Response:
    return await cart_answer(await carts.set_quantity(owner_of(request.scope), request.path_params["sku"], 0, None))


# ── Visits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def log_in(request: Request) -> Response:
    visit = visit_of(request.scope)
    await visit.log_in((await said(request, LogIn)).name)
    return answer({"owner": visit.owner})


async def log_out(request: Request) -> Response:
    await visit_of(request.scope).log_out()
    return answer({})


# ── Orders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def check_out(request: Request) -> Response:
    """Order the cart. This may run again for one key, after a crash: the order's id is made of the key, so that it is
    the same order.
    """
    wish, customer = await said(request, CheckOut), owner_of(request.scope)
    id: str = request.scope["holdfast.idempotency_key"]
    order = await orders.place(id, customer, wish.card, wish.cents)
    handle = await checkout.start(order, id=order.id)
    try:
        outcome = await handle.result(timeout=CHECKOUT_PATIENCE)
    except (hf.WaitTimeout, hf.ExecutionError):  # it is late, or needs a person: look at the order later
        return answer({"order": order.id, "status": "submitted"}, 202, location=f"/orders/{order.id}")
    status = 201 if outcome.status == "confirmed" else 402
    return answer({"order": order.id, "status": outcome.status, "reason": outcome.reason}, status)


async def get_order(request: Request) -> Response:
    """One order, by its own stream: never behind."""
    order = await orders.kept.at(request.path_params["id"]).find()
    if order is None or order.value.customer != owner_of(request.scope):
        raise hf.NotFound("you have no such order")
    return answer(await orders.progress_of(order.value.id))


async def get_orders(request: Request) -> Response:
    """The customer's orders, by the projection: a moment behind."""
    page = await orders.history.list(owner_of(request.scope), limit=100)
    return answer({each.key[1]: each.value for each in page.documents})


async def get_sales(_: Request) -> Response:
    """Sales by day, by the projection."""
    page = await orders.sales.list("days", limit=1_000)
    return answer({each.key[1]: each.value for each in page.documents})


# ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

STATUS_OF: dict[type[Exception], int] = {
    msgspec.DecodeError: 400,
    hf.InvalidInput: 400,
    hf.NotFound: 404,
    Refused: 422,
    hf.Conflict: 409,
    hf.StoreError: 503,
}


async def problem(_: Request, error: Exception) -> Response:
    status = next(status for kind, status in STATUS_OF.items() if isinstance(error, kind))
    body = msgspec.json.encode({"title": type(error).__name__, "status": status, "detail": str(error)})
    headers = {"retry-after": "1"} if status in {409, 503} else None
    return Response(body, status, headers, "application/problem+json")


# ── The service ─────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncGenerator[None]:
    """Open the app, stock the shelves, and work as long as it serves."""
    async with app.worker():
        for product, pieces in SHELVES.items():
            await catalogue.add_product(product)
            await stock.open_stock(product.sku, pieces)
        following = asyncio.create_task(keep_telling())
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])


async def keep_telling() -> None:
    """Keep the projections up to date. Several processes may; each event counts once."""
    while True:
        try:
            await orders.told.follow()
        except Exception:
            log.exception("the projections stand still for a moment")
            await asyncio.sleep(FOLLOW_AGAIN_SECONDS)


log = hf.get_logger("shopping_cart.service")

once = Middleware(IdempotentRequests, app=app, name="checkout", window="24h", wait="15s", caller=owner_of)
once_if_asked = Middleware(IdempotentRequests, app=app, name="lines", wait="5s", caller=owner_of, required=False)

service = Starlette(
    routes=[
        Route("/products", get_products),
        Route("/products/{sku}", get_product),
        Route("/products/{sku}/price", put_price, methods=["PUT"]),
        Route("/cart", get_cart),
        Route("/cart/lines", add_line, methods=["POST"], middleware=[once_if_asked]),
        Route("/cart/lines/{sku}", put_line, methods=["PUT"]),
        Route("/cart/lines/{sku}", delete_line, methods=["DELETE"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
        Route("/checkout", check_out, methods=["POST"], middleware=[once]),
        Route("/orders", get_orders),
        Route("/orders/{id}", get_order),
        Route("/sales", get_sales),
    ],
    middleware=[Middleware(Visits)],
    exception_handlers=dict.fromkeys(STATUS_OF, problem),
    lifespan=lifespan,
)
