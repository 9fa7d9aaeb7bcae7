"""What is wrong with a class, an address or a call is said where it is made, and changes nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import holdfast as hf


@pytest.fixture
def app(memory_world):
    return memory_world.app(limit_bytes=10_000)


def actor(app, body, **options):
    return type("Thing", (hf.Actor,), body, app=app, **options)


async def method(self: Any) -> None: ...


def plain(self: Any) -> None: ...


class Opaque:
    def method(self) -> None: ...


@pytest.mark.parametrize(
    ("body", "error", "told"),
    [
        ({"__annotations__": {"n": int}}, hf.ConfigurationError, "field 'n' of actor Thing has no default"),
        ({"__annotations__": {"n": list[int]}, "n": [1]}, hf.ConfigurationError, "default_factory"),
        ({"__annotations__": {"n": Opaque}, "n": None}, hf.SerializationError, "field 'n' of actor Thing"),
        ({"__annotations__": {"n": "Unheard"}, "n": None}, hf.ConfigurationError, "cannot be resolved"),
        ({"__annotations__": {"key": str}, "key": ""}, hf.ConfigurationError, "'key' of its own"),
        ({"__annotations__": {"kind": str}, "kind": ""}, hf.ConfigurationError, "'kind' of its own"),
        ({"at": method}, hf.ConfigurationError, "'at' of its own"),
        ({"partition": method}, hf.ConfigurationError, "'partition' of its own"),
        ({"__init__": plain}, hf.ConfigurationError, "has an __init__"),
    ],
)
def test_a_class_that_cannot_be_an_actor_is_refused_when_it_is_declared(app, body, error, told):
    with pytest.raises(error, match=told):
        actor(app, body)
    assert app.registry.actors == {}


def test_a_method_whose_types_are_no_data_is_refused_when_it_is_declared(app):
    async def give(self: Any, thing: Opaque) -> None: ...

    async def take(self: Any) -> Opaque: ...

    for each in (give, take):
        with pytest.raises(hf.SerializationError, match=rf"Thing\.{each.__name__}"):
            actor(app, {each.__name__: each})


def test_a_timer_is_async(app):
    with pytest.raises(hf.ConfigurationError, match="async def"):
        hf.timer(plain)


def yields(self: Any) -> Any:
    yield 1


async def yields_later(self: Any) -> Any:
    yield 1


GIVEN = [
    (plain, "the def plain"),
    (yields, "the generator yields, which yields"),
    (yields_later, "the generator yields_later, which yields"),
    (lambda self: None, "a lambda"),
    (Opaque, "the class Opaque"),
    (classmethod(plain), "the classmethod plain"),
    (Opaque().method, "the method Opaque.method"),
    (property(plain), "property object"),
]


@pytest.mark.parametrize(("given", "told"), GIVEN)
def test_what_is_called_and_is_no_method_is_named(app, given, told):
    thing = actor(app, {"method": method, "other": given})
    with pytest.raises(AttributeError, match=rf"public async methods only, and 'other' is .*{told}.*: method$"):
        thing.at("k").other  # noqa: B018 - looking it up is what fails
    with pytest.raises(AttributeError, match="'missing' is none of them: method"):
        thing.at("k").missing  # noqa: B018


@pytest.mark.parametrize("decorator", [hf.read, hf.method(timeout=1)], ids=["read", "method"])
@pytest.mark.parametrize(("given", "told"), GIVEN)
def test_a_decorator_of_methods_names_what_is_none(decorator, given, told):
    with pytest.raises(hf.ConfigurationError, match=rf"is for an async def in an actor, and was given .*{told}"):
        decorator(given)


def test_options_that_make_no_sense_are_refused(app):
    with pytest.raises(hf.ConfigurationError, match="'park' or 'halt'"):
        actor(app, {}, poison="drop")
    with pytest.raises(hf.InvalidInput):
        actor(app, {}, reply_window="soon")
    for mailbox in (0, -1, "many"):
        with pytest.raises(hf.ConfigurationError, match="mailbox"):
            actor(app, {}, mailbox=mailbox)
    for upcasters in ({0: dict}, {2: dict}, {1: dict, 3: dict}):
        with pytest.raises(hf.ConfigurationError, match="upcaster"):
            actor(app, {}, upcasters=upcasters)


def test_two_actors_of_one_name_are_refused(app):
    actor(app, {})
    with pytest.raises(hf.DuplicateName, match="Thing"):
        actor(app, {})
    assert actor(app, {}, name="Other").at("k")


class Fruit(hf.Actor):
    """A base: it belongs to no app, and is no actor itself."""

    limit: ClassVar[int] = 3
    eaten: int = 0
    by: list[str] = hf.field(default_factory=list)

    async def eat(self, who: str) -> int:
        self.eaten += 1
        self.by.append(who)
        return self.eaten

    @hf.read
    async def eaters(self) -> list[str]:
        return self.by


async def test_actors_share_what_their_bases_declare(app):
    class Apple(Fruit, app=app):
        pips: int = 5

        async def plant(self) -> int:
            self.pips -= 1
            return self.pips

    class Pippin(Apple, app=app):
        ripe: bool = False

        async def eat(self, who: str) -> int:
            self.ripe = True
            return await super().eat(f"{who} (ripe)")

    async with app.worker():
        assert await Apple.at("a").eat("eve") == 1
        assert await Apple.at("a").plant() == 4
        assert await Pippin.at("a").eat("adam") == 1
        assert await Pippin.at("a").plant() == 4
        assert await Pippin.at("a").eaters() == ["adam (ripe)"]
        assert await Apple.at("a").eaters() == ["eve"]
        assert (await app.actor("Apple", "a").status()).state == {"pips": 4, "eaten": 1, "by": ["eve"]}
    assert Apple.limit == 3


def declare(app):
    class Cart(hf.Actor, app=app):
        n: int = 0
        items: dict[str, int] = hf.field(default_factory=dict)

        async def add(self, sku: str, n: int = 1) -> int:
            self.items[sku] = n
            self.n += n
            return self.n

        async def set_undeclared(self) -> None:
            self.total = 3

        async def set_wrong(self, what: str) -> None:
            self.n = what  # type: ignore[assignment]

        async def put_wrong(self) -> None:
            self.items["x"] = "y"  # type: ignore[assignment]

        async def answer_wrong(self) -> int:
            self.n = 99
            return "many"  # type: ignore[return-value]

        async def grow(self, size: int) -> None:
            self.items = {"x" * size: 1}

        async def overwrite_a_method(self) -> None:
            self.add = 3  # type: ignore[method-assign, assignment]

        def not_async(self) -> int:
            return self.n

        async def _private(self) -> None: ...

        @hf.read
        async def get(self) -> int:
            return self.n

        @hf.timer
        async def ring(self) -> None: ...

    return Cart


@pytest.mark.parametrize("name", ["unknown", "n", "items", "not_async", "_private", "ring"])
async def test_an_address_has_the_public_methods_and_nothing_of_the_state(app, name):
    cart = declare(app)
    async with app.worker():
        await cart.at("k").add("a")
        with pytest.raises(AttributeError, match=f"public async methods only, and {name!r}"):
            getattr(cart.at("k"), name)
        with pytest.raises(AttributeError):
            setattr(cart.at("k"), name, 1)


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ((), {}, "missing argument 'sku'"),
        ((1,), {}, "argument 'sku' of Cart.add"),
        (("a", "1"), {}, "argument 'n' of Cart.add"),
        (("a", 1, 2), {}, "add"),
        (("a",), {"count": 1}, "count"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(app, args, kwargs, told):
    cart = declare(app)
    async with app.worker():
        with pytest.raises(hf.InvalidInput, match=told):
            await cart.at("k").add(*args, **kwargs)
        with pytest.raises(hf.InvalidInput, match=told):
            await hf.send(cart.at("k").add, *args, **kwargs)
        with pytest.raises(hf.NotFound):
            await app.actor("Cart", "k").status()


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda cart: cart.set_undeclared(), AttributeError, "no field 'total'"),
        (lambda cart: cart.overwrite_a_method(), AttributeError, "no field 'add'"),
        (lambda cart: cart.set_wrong("x"), hf.SerializationError, "the state of Cart"),
        (lambda cart: cart.put_wrong(), hf.SerializationError, "the state of Cart"),
        (lambda cart: cart.answer_wrong(), hf.SerializationError, "the result of Cart.answer_wrong"),
        (lambda cart: cart.grow(20_000), hf.PayloadTooLarge, "the state of Cart"),
    ],
)
async def test_a_call_whose_state_or_result_does_not_fit_fails_and_changes_nothing(app, call, error, told):
    cart = declare(app)
    async with app.worker():
        await cart.at("k").add("a", 2)
        with pytest.raises(error, match=told):
            await call(cart.at("k"))
        assert await cart.at("k").add("b") == 3
        assert (await app.actor("Cart", "k").status()).state == {"n": 3, "items": {"a": 2, "b": 1}}


@pytest.mark.parametrize("key", ["", "a\nb", "\ud800", "\x00", 7, None, "x" * 501])
def test_a_key_is_printable_text(app, key):
    cart = declare(app)
    with pytest.raises(hf.InvalidInput, match="key"):
        cart.at(key)


@pytest.mark.parametrize("key", ["a#b", "#", "🐚 ü", "x" * 500, "a/b c", "%_*'\""])
async def test_any_printable_text_is_a_key(world, key):
    app = world.app()
    cart = declare(app)
    async with app.worker():
        assert await cart.at(key).add("a") == 1
        await hf.send(cart.at(key).add, "b")
        assert await cart.at("another").get() == 0
        assert (await app.actor("Cart", key).status()).key == key
        (listed,) = (await app.list_actors("Cart")).items
        assert listed.key == key


async def test_a_closed_app_says_so(app):
    cart = declare(app)
    with pytest.raises(hf.ConfigurationError, match="not open"):
        await cart.at("k").add("a")
    with pytest.raises(hf.ConfigurationError, match="not open"):
        await hf.send(cart.at("k").add, "a")
    with pytest.raises(hf.ConfigurationError, match="not open"):
        await cart.at("k").get()


def test_a_timer_is_set_inside_its_actor_only(app):
    cart = declare(app)
    with pytest.raises(AttributeError):
        cart.ring.after("1s")
    with pytest.raises(hf.InvalidInput, match="inside a method"):
        object.__new__(cart).ring  # noqa: B018 - looking it up is the mistake


async def test_an_actor_cannot_be_made_by_calling_its_class(app):
    cart = declare(app)
    with pytest.raises(TypeError, match="at"):
        cart()


@pytest.mark.parametrize("limit", [0, -1, 1001, "10"])
async def test_a_page_of_actors_has_a_sensible_size(app, limit):
    async with app:
        with pytest.raises(hf.InvalidInput, match="limit"):
            await app.list_actors(limit=limit)
