"""Addresses as Python objects: copied, shown, compared with what they are not."""

from __future__ import annotations

import copy
import pickle

import pytest

import holdfast as hf
from holdfast.actors.reference import Reference

COPIES = [copy.copy, copy.deepcopy, lambda address: copy.deepcopy({"cart": [address]})["cart"][0]]


@pytest.fixture
def cart(app):
    class Cart(hf.Actor, app=app):
        n: int = 0

        async def add(self) -> int:
            self.n += 1
            return self.n

    return Cart.at("u1")


@pytest.mark.parametrize("copied", COPIES, ids=["copy", "deepcopy", "within"])
async def test_a_copy_is_the_address_itself(app, cart, copied):
    async with app.worker():
        assert await copied(cart).add() == 1
        assert await copied(cart.add)() == 2


def test_it_is_shown_by_its_class_and_key(cart):
    assert repr(cart) == "Cart.at('u1')"
    assert repr(cart.add) == "Cart.at('u1').add"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_not_pickled_and_says_what_to_send_instead(cart, protocol):
    for address in (cart, cart.add):
        with pytest.raises(TypeError, match=r"Cart\.at\('u1'\).* cannot be pickled or sent: send its key"):
            pickle.dumps(address, protocol)


@pytest.mark.parametrize("name", ["__deepcopy", "__getstate", "__len__", "kind", "partition", "nothing"])
def test_what_python_asks_of_it_before_it_is_made_is_answered(name):
    with pytest.raises(AttributeError):
        getattr(Reference.__new__(Reference), name)


def test_what_is_no_method_is_an_attribute_error(cart):
    with pytest.raises(AttributeError, match="public async methods only"):
        _ = cart.nothing
    assert not hasattr(cart, "__len__")
