"""Keys of callback tokens from outside the store: they are rotated with executions under way, and forging needs one."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast import ids
from holdfast.texts import masked
from holdfast.workflows import callback_keys
from holdfast.workflows.callback_keys import KEYS_VARIABLE, known_keys, read_keys
from holdfast.workflows.callback_tokens import make_token, token_scope
from holdfast.workflows.finding import head_of
from holdfast.workflows.record import decode_record, partition_of

OLD, NEW = f"2026:{'a' * 64}", f"2027:{'b' * 64}"


@pytest.fixture
def tokens():
    """The tokens that the body was given, by the id of its execution."""
    return {}


@pytest.fixture
def parcel(app, tokens):
    @app.step
    async def tell(id: str, token: str) -> None:
        tokens[id] = token

    @app.workflow
    async def parcel() -> str:
        answer = hf.callback(str)
        await tell(hf.current().id, answer.token)
        return await answer

    return parcel


@pytest.fixture
def keys(monkeypatch):
    """Go on as a process with these keys."""

    def go_on(*known: str) -> None:
        monkeypatch.setenv(KEYS_VARIABLE, ",".join(known))
        known_keys.cache_clear()

    yield go_on
    known_keys.cache_clear()


async def test_old_and_new_keys_are_good_side_by_side(app, parcel, tokens, keys, eventually):
    async with app.worker():
        unkeyed = await parcel.start(id="unkeyed")
        await eventually(lambda: "unkeyed" in tokens)
        keys(OLD)
        old = await parcel.start(id="old")
        await eventually(lambda: "old" in tokens)
    keys(NEW, OLD)
    async with app.worker():
        new = await parcel.start(id="new")
        await eventually(lambda: "new" in tokens)
        assert [tokens[id].rsplit(".", 2)[0] for id in ("unkeyed", "old", "new")] == ["hf1", "hf2.2026", "hf2.2027"]
        for handle in (unkeyed, old, new):
            await app.callback(tokens[handle.id]).complete(handle.id)
            assert await handle == handle.id


async def test_without_its_key_a_token_is_good_for_nothing_and_with_it_again_all_goes_on(
    app, parcel, tokens, keys, eventually, reaches
):
    keys(OLD)
    async with app.worker():
        handle = await parcel.start(id="old")
        await eventually(lambda: "old" in tokens)
    keys(NEW)
    async with app.worker():
        with pytest.raises(hf.InvalidToken, match="not valid"):
            await app.callback(tokens["old"]).complete("x")
        await handle.cancel()
        await reaches(handle, "BLOCKED")
        blocked = (await handle.status()).blocked
        assert "callback key '2026'" in blocked and "a" * 64 not in blocked
    keys(NEW, OLD)
    async with app.worker():
        await reaches(handle, "CANCELLED")


@pytest.mark.parametrize("forged_by", ["the store alone", "another key", "no key", "another id"])
async def test_who_reads_the_store_can_forge_no_token(app, parcel, tokens, keys, eventually, monkeypatch, forged_by):
    keys(OLD)
    async with app.worker():
        await parcel.start(id="p")
        await eventually(lambda: "p" in tokens)
        secret = decode_record((await head_of(app.runtime(), partition_of("parcel", "p"))).body).secret
        scope = token_scope(tokens["p"])
        bare = tokens["p"].split(".")[2]
        match forged_by:
            case "the store alone":
                forged = f"hf2.2026.{bare}.{ids.sign(secret, f'hf2.2026.{bare}')}"
            case "another key":
                with monkeypatch.context() as other:
                    other.setattr(callback_keys, "known_keys", lambda: {"2026": "c" * 64})
                    forged = make_token(scope.partition, scope.run, scope.op, secret)
            case "no key":
                forged = make_token(scope.partition, scope.run, scope.op, secret.partition(":")[2])
            case _:
                forged = tokens["p"].replace("2026", "2027")
        with pytest.raises(hf.InvalidToken):
            await app.callback(forged).complete("x")
        await app.callback(tokens["p"]).heartbeat()


@pytest.mark.parametrize(
    "text", ["k", "k:short", f"k k:{'a' * 64}", f"k:{'a' * 64},k:{'b' * 64}", f"k:{'a' * 63}", f":{'a' * 64}"]
)
def test_keys_that_are_none_are_refused_and_not_quoted(text):
    with pytest.raises(hf.ConfigurationError, match="openssl") as raised:
        read_keys(text)
    assert "aaa" not in str(raised.value) and "short" not in str(raised.value)


def test_a_token_with_a_key_is_masked_too():
    assert masked(f"see hf2.2026.abc.{'0' * 64} there") == "see hf1.(token) there"
