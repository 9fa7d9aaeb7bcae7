"""The doorbell: who hears what, who is alive, and what a stranger can do to it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.backends.sqlite import SocketDoorbell, bell_folder, doorbell
from holdfast.backends.sqlite.bell_folder import DEAD, beside
from holdfast.backends.sqlite.doorbell import HELLO, RING_BYTES, new_owner
from holdfast.errors import StoreUnusable
from holdfast.hints import Hint, News


@pytest.fixture
def short(path: Path) -> str:
    path.touch()
    return str(path)


async def until(condition: Callable[[], bool]) -> None:
    """Until what happens on the event loop has happened."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


class Bell:
    """A doorbell, and all it has heard."""

    def __init__(self, path: str) -> None:
        self.owner = new_owner()
        self.bell = SocketDoorbell(path, self.owner)
        self.heard: list[Hint] = []
        self.address = str(beside(path) / self.owner)

    def listen(self) -> None:
        self.bell.listen(self.heard.append)

    async def hears(self, *rings: Hint) -> None:
        await until(lambda: len(self.heard) >= len(rings))
        assert self.heard == list(rings)
        self.heard.clear()


@pytest.fixture
def make(short):
    """Makes doorbells of one file, to be closed by the test's event loop or by its end."""
    return lambda: Bell(short)


def strangers_datagram(bell: Bell, message: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(message, bell.bell._folder.address(bell.owner))


class TestRinging:
    async def test_every_other_home_hears_it(self, make) -> None:
        bells = [make() for _ in range(3)]
        for bell in bells:
            bell.listen()
        bells[0].bell.ring("p")
        await bells[1].hears("p")
        await bells[2].hears("p")
        assert bells[0].heard == []
        for bell in bells:
            await bell.bell.close()

    async def test_rings_of_a_tick_travel_together(self, make, monkeypatch) -> None:
        one, two = make(), make()
        two.listen()
        sent: list[bytes] = []
        send = one.bell._send_to
        monkeypatch.setattr(one.bell, "_send_to", lambda peers, message: (sent.append(message), send(peers, message)))
        for partition in ("p", "it's", "p", "ü\n\0"):
            one.bell.ring(partition)
        one.bell.ring(News("p"))
        await two.hears("p", "it's", "ü\n\0", News("p"))
        assert len(sent) == 1
        await one.bell.close()
        await two.bell.close()

    async def test_too_many_rings_become_one_for_all(self, make) -> None:
        one, two = make(), make()
        two.listen()
        for number in range(RING_BYTES // 8):
            one.bell.ring(f"p{number:06}")
        await two.hears(None)
        one.bell.ring("\ud800")  # no text that could travel
        await two.hears(None)
        await one.bell.close()
        await two.bell.close()

    async def test_rings_before_listening_wait(self, make) -> None:
        one, two = make(), make()
        one.bell.ring("p")
        await asyncio.sleep(0)
        two.listen()
        await two.hears("p")
        await one.bell.close()
        await two.bell.close()

    async def test_a_home_that_opens_later_is_heard_and_hears(self, make) -> None:
        one = make()
        one.listen()
        assert one.bell.peers() == frozenset()
        folder = Path(one.address).parent
        before = folder.stat().st_mtime_ns
        two = make()
        two.listen()
        # Even if the clock is so coarse that the folder seems unchanged: it said hello.
        os.utime(folder, ns=(before, before))
        await until(lambda: two.owner in one.bell.peers())
        one.bell.ring("p")
        await two.hears("p")
        two.bell.ring("q")
        await one.hears("q")
        await one.bell.close()
        await two.bell.close()

    async def test_alone_it_sends_nothing(self, make, monkeypatch) -> None:
        one = make()
        monkeypatch.setattr(doorbell, "_message", lambda _: pytest.fail("nobody to send it to"))
        one.bell.ring("p")
        await asyncio.sleep(0)
        await one.bell.close()

    async def test_closing_sends_what_was_rung(self, make) -> None:
        one, two = make(), make()
        two.listen()
        one.bell.ring("p")
        await one.bell.close()
        await two.hears("p")
        one.bell.ring("too late")
        await asyncio.sleep(0)
        await one.bell.close()
        await two.bell.close()
        assert two.heard == []


class TestFullQueues:
    async def test_a_home_that_does_not_listen_holds_nobody_up_and_hears_that_it_missed_some(self, make) -> None:
        one, two = make(), make()
        for number in range(2000):
            one.bell.ring(f"p{number}")
            await asyncio.sleep(0)
        assert one.bell._behind == {two.owner}
        two.listen()
        await until(lambda: None in two.heard)  # without another ring
        assert one.bell._behind == set()
        two.heard.clear()
        one.bell.ring("q")
        await two.hears("q")
        await one.bell.close()
        await two.bell.close()

    async def test_it_is_not_tried_for_ever(self, make, monkeypatch) -> None:
        monkeypatch.setattr(doorbell, "RETRY_SECONDS", (0.0, 0.001))
        one, two = make(), make()
        for number in range(2000):
            one.bell.ring(f"p{number}")
            await asyncio.sleep(0)
        await until(lambda: one.bell._retry is None)
        assert one.bell._behind == {two.owner}
        two.listen()
        await until(lambda: len(two.heard) > 5)
        two.heard.clear()
        one.bell.ring("q")
        await two.hears(None)
        await one.bell.close()
        await two.bell.close()

    async def test_closing_stops_trying(self, make) -> None:
        one, two = make(), make()
        for number in range(2000):
            one.bell.ring(f"p{number}")
            await asyncio.sleep(0)
        await one.bell.close()
        await two.bell.close()


class TestAlive:
    async def test_open_homes_are_alive_and_closed_ones_are_not(self, make) -> None:
        one, two = make(), make()
        assert one.bell.alive(one.owner)
        assert one.bell.alive(two.owner)
        assert one.bell.peers() == {two.owner}
        await two.bell.close()
        assert not one.bell.alive(two.owner)
        assert one.bell.peers() == frozenset()
        await one.bell.close()
        assert not one.bell.alive(one.owner)

    async def test_a_socket_that_nobody_has_open_is_dead_and_buried(self, make) -> None:
        one, two = make(), make()
        two.bell._socket.close()  # as the kernel does for a process that was killed
        assert two.owner in one.bell.peers()
        assert not one.bell.alive(two.owner)
        assert one.bell.peers() == frozenset()
        assert not Path(two.address).exists()
        three = make()
        assert not three.bell.alive(two.owner)  # although it has come after the burial
        await three.bell.close()
        await one.bell.close()

    async def test_ringing_at_the_dead_buries_them(self, make) -> None:
        one, two, three = make(), make(), make()
        three.listen()
        two.bell._socket.close()
        one.bell.ring("p")
        await three.hears("p")
        assert one.bell.peers() == {three.owner}
        await one.bell.close()
        await three.bell.close()

    async def test_opening_buries_the_dead(self, make) -> None:
        one = make()
        one.bell._socket.close()
        two = make()
        assert not Path(one.address).exists()
        await two.bell.close()

    async def test_proofs_go_when_nobody_needs_them_any_more(self, make) -> None:
        one, two, three = make(), make(), make()
        await two.bell.close()
        proof = Path(f"{two.address}{DEAD}")
        assert proof.exists()
        os.utime(proof, (0, 0))
        await three.bell.close()
        assert {each.name for each in proof.parent.iterdir()} == {one.owner, f"{three.owner}{DEAD}"}
        await one.bell.close()

    async def test_the_last_to_close_leaves_the_proof_that_it_is_gone(self, make) -> None:
        one = make()
        await one.bell.close()
        two = make()
        assert not two.bell.alive(one.owner)
        assert two.bell.peers() == frozenset()
        await two.bell.close()

    async def test_the_proof_of_a_death_outlasts_those_who_have_seen_it(self, make) -> None:
        one, two = make(), make()
        one.bell._socket.close()  # nobody has rung there since
        await two.bell.close()
        three = make()
        assert not three.bell.alive(one.owner)
        await three.bell.close()

    @pytest.mark.parametrize("owner", ["", "memory-1", "../x", "1-000000000000/..", "/etc/passwd", "1-0\0", "lambda:7"])
    async def test_of_strangers_nothing_is_known(self, make, owner) -> None:
        one = make()
        assert one.bell.alive(owner)
        await one.bell.close()

    async def test_what_cannot_be_asked_counts_as_alive(self, make, monkeypatch) -> None:
        one, two = make(), make()

        def refuse(*_: object) -> None:
            raise PermissionError

        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "connect", refuse)
            assert one.bell.alive(two.owner)
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "sendto", refuse)
            one.bell.ring("p")
            await asyncio.sleep(0)
        assert one.bell.peers() == {two.owner}
        await one.bell.close()
        await two.bell.close()

    @pytest.mark.parametrize("lost", ["socket", "folder"])
    async def test_whose_socket_was_removed_lives_as_far_as_anybody_knows(self, make, lost) -> None:
        one, two = make(), make()
        for bell in (one, two):
            bell.listen()
        if lost == "socket":
            Path(one.address).unlink()
        else:
            shutil.rmtree(Path(one.address).parent)
        two.bell.ring("lost")
        await asyncio.sleep(0)
        assert two.bell.alive(one.owner)
        assert one.bell.alive(two.owner)
        # At their next look, which their sweeps take, both are there again.
        one.bell.peers()
        two.bell.peers()
        await until(lambda: one.bell.peers() == {two.owner} and two.bell.peers() == {one.owner})
        two.heard.clear()
        one.bell.ring("p")
        await two.hears("p")
        two.bell.ring("q")
        await until(lambda: "q" in one.heard)
        one.bell._socket.close()
        assert not two.bell.alive(one.owner)
        await one.bell.close()
        await two.bell.close()

    async def test_a_folder_that_cannot_be_made_again_is_nobodys_end(self, make, monkeypatch) -> None:
        one, two = make(), make()
        shutil.rmtree(Path(one.address).parent)

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "mkdir", refuse)
            assert one.bell.peers() == frozenset()
            assert one.bell.alive(two.owner)
            assert one.bell.alive(one.owner)
        await one.bell.close()
        await two.bell.close()

    async def test_of_processes_under_another_kernel_nothing_is_known(self, make, monkeypatch) -> None:
        one = make()
        with monkeypatch.context() as patch:
            patch.setattr(doorbell, "_this_kernel", lambda: "0" * 8)
            two = make()
        two.bell._socket.close()  # as it looks from here: the folder is shared, the socket is not
        assert one.bell.alive(two.owner)
        one.bell.ring("p")
        await asyncio.sleep(0)
        assert one.bell.alive(two.owner)
        await one.bell.close()


class TestStrangers:
    @pytest.mark.parametrize(
        "message",
        [
            b"",
            b"\xff\xfe",
            b"{}",
            b"7",
            b'"p"',
            b'["p", 7]',
            b'["p"',
            b"[" * 15_000,
            b'["' + b"x" * 60_000 + b'"]',
            b'["\\ud800"]',
            HELLO,
            os.urandom(500),
        ],
        ids=range(12),
    )
    async def test_nonsense_is_ignored(self, make, message) -> None:
        one, two = make(), make()
        two.listen()
        strangers_datagram(two, message)
        one.bell.ring("p")
        await two.hears("p")
        await one.bell.close()
        await two.bell.close()

    async def test_an_error_of_whoever_listens_does_not_end_the_listening(self, make) -> None:
        one, two = make(), make()
        heard: list[Hint] = []
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

        def hear(partition: str | None) -> None:
            heard.append(partition)
            raise ValueError(partition)

        two.bell.listen(hear)
        for partition in ("p", "q"):
            one.bell.ring(partition)
            await until(lambda partition=partition: partition in heard)
        assert [str(error) for error in reported] == ["p", "q"]
        await one.bell.close()
        await two.bell.close()

    async def test_other_files_in_the_folder_are_left_alone(self, make) -> None:
        one = make()
        other = Path(one.address).with_name("notes.txt")
        other.write_text("mine")
        one.bell.ring("p")
        await asyncio.sleep(0)
        assert one.bell.peers() == frozenset()
        await one.bell.close()
        assert other.read_text() == "mine"


COMPLAINTS = {
    "mode": r"written by other users \(mode 0770\).*chmod go-w",
    "link": "is a symbolic link",
    "file": "this user alone",
    "owner": "belongs to the user 12345",
}
"""How a folder is told to be no good, by what is wrong with it."""


class TestFolder:
    def test_it_is_beside_the_file(self, short) -> None:
        found = bell_folder.bell_folder(short)
        assert found == Path(f"{short}-bells")
        assert stat.S_IMODE(found.stat().st_mode) == 0o700
        assert bell_folder.bell_folder(short) == found

    @pytest.mark.parametrize("linux", [True, False])
    async def test_a_long_path_and_another_temporary_directory_change_nothing(
        self, tmp_path, monkeypatch, linux
    ) -> None:
        path = tmp_path / ("long" * 30) / "home.db"
        path.parent.mkdir()
        path.touch()
        if not linux:
            monkeypatch.setattr(bell_folder, "DESCRIPTORS", tmp_path / "none")
        with tempfile.TemporaryDirectory(prefix="hf") as another:
            one = Bell(str(path))
            monkeypatch.setattr(tempfile, "tempdir", another)
            two = Bell(str(path))
            assert Path(one.address).is_socket()
            assert Path(two.address).is_socket()
            two.listen()
            one.bell.ring("p")
            await two.hears("p")
            assert two.bell.alive(one.owner)
            one.bell._socket.close()
            assert not two.bell.alive(one.owner)
            await one.bell.close()
            await two.bell.close()
            assert not any(Path(another).iterdir())

    async def test_a_file_system_without_sockets_is_refused_with_the_reason(self, short, monkeypatch) -> None:
        def refuse(*_: object) -> None:
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(socket.socket, "bind", refuse)
        with pytest.raises(StoreUnusable, match=r"Operation not supported.*local file system"):
            Bell(short)

    @pytest.mark.parametrize("spoil", COMPLAINTS)
    async def test_a_folder_that_others_could_change_is_refused(self, tmp_path, short, spoil, monkeypatch) -> None:
        folder = bell_folder.bell_folder(short)
        folder.rmdir()
        if spoil == "mode":
            folder.mkdir(mode=0o700)
            folder.chmod(0o770)
        elif spoil == "link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            folder.symlink_to(tmp_path / "elsewhere")
        elif spoil == "file":
            folder.touch(mode=0o600)
        else:
            folder.mkdir(mode=0o700)
            theirs = os.stat_result((0o40700, *[0] * 3, 12345, *[0] * 5))
            monkeypatch.setattr(Path, "lstat", lambda _: theirs)
        with pytest.raises(StoreUnusable, match=COMPLAINTS[spoil]) as raised:
            bell_folder.bell_folder(short)
        assert str(folder) in str(raised.value)
        with pytest.raises(StoreUnusable):
            Bell(short)

    def test_no_room_for_it(self, short, monkeypatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "mkdir", refuse)
        with pytest.raises(StoreUnusable, match="Permission denied"):
            bell_folder.bell_folder(short)

    async def test_a_folder_that_goes_while_a_home_is_opened_is_made_again(self, short, monkeypatch) -> None:
        folder = beside(short)
        make = bell_folder.bell_folder

        def vanishing(path: str) -> Path:
            monkeypatch.undo()
            found = make(path)
            found.rmdir()
            return found

        monkeypatch.setattr(bell_folder, "bell_folder", vanishing)
        three = Bell(short)
        assert folder.is_dir()
        await three.bell.close()

    async def test_a_folder_that_always_vanishes(self, short, monkeypatch) -> None:
        monkeypatch.setattr(bell_folder, "bell_folder", lambda path: Path(f"{path}-none"))
        with pytest.raises(StoreUnusable, match="removed again and again"):
            Bell(short)
