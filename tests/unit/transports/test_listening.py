"""The sockets of the process: handed from one configuration to the next, and unchanged if one can't be bound."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import pytest
import uvloop

from app.transports.listening import Address, Listening, OwnPorts, Sockets, SocketsListener, remove_socket, require_free

TLS = Path(__file__).parents[2] / "data" / "tls"
HOST = "127.0.0.1"
ALL = "0.0.0.0"
KINDS = ["tcp", "unix"]
GUARD = 20


class Greeter(asyncio.Protocol):
    """Greets each client, and returns the first bytes it sends."""

    def __init__(self, greeting: str) -> None:
        self._greeting = greeting.encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._greeting)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)
        self._transport.close()


class Server:
    """A server that greets with its name, wherever it listens."""

    def __init__(self, name: str) -> None:
        self.name = name

    def connection(self) -> asyncio.Protocol:
        return Greeter(self.name)

    def at(self, address: Address, tls: ssl.SSLContext | None = None) -> Listening:
        return Listening(self.name, address, self.connection, tls)


class Process:
    """The sockets of one process."""

    def __init__(self) -> None:
        self.own_ports = OwnPorts()
        self.sockets = Sockets(self.own_ports)

    async def apply(self, *wanted: Listening, only: bool = True) -> None:
        """What a configuration does that listens there."""
        listener = SocketsListener(self.sockets, wanted, only=only)
        try:
            await listener.bind()
        except OSError:
            await listener.abandon()
            raise
        await listener.serve()


A, B = Server("a"), Server("b")


class Client:
    """An open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def is_open(self) -> bool:
        """Whether the server still responds. It closes the connection then."""
        self._writer.write(b"?")
        rest = await self._reader.read()
        self._writer.close()
        return rest == b"?"


async def connected(address: Address, tls: ssl.SSLContext | None = None) -> tuple[str, Client]:
    """A connection, and the greeting that it began with. Raises `OSError` if nothing accepts it."""
    async with asyncio.timeout(GUARD):
        if address.socket is not None:
            reader, writer = await asyncio.open_unix_connection(address.socket)
        else:
            host = HOST if address.bind == ALL else address.bind
            reader, writer = await asyncio.open_connection(host, address.port, ssl=tls)
        return (await reader.readexactly(1)).decode(), Client(reader, writer)


async def greeting(address: Address, tls: ssl.SSLContext | None = None) -> str:
    """Who accepts a new connection; empty for nobody."""
    try:
        name, client = await connected(address, tls)
    except (ConnectionRefusedError, FileNotFoundError):
        return ""
    assert await client.is_open()
    return name


def free_port(host: str = HOST) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def an_address(kind: str, folder: Path, name: str = "s") -> Address:
    return Address(HOST, free_port()) if kind == "tcp" else Address(f"unix:{folder}/{name}", 0)


@contextmanager
def holding(address: Address, *, reuse: bool = False) -> Iterator[None]:
    """Somebody else's socket that listens there."""
    with socket.socket(socket.AF_UNIX if address.socket else socket.AF_INET) as holder:
        if reuse:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(address.socket or (address.bind, address.port))
        holder.listen()
        yield


def open_files() -> int:
    return len(names_in(Path("/proc/self/fd")))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


# -- one configuration after another, over TCP and Unix sockets


@pytest.mark.parametrize("kind", KINDS)
async def test_connections_are_accepted_once_an_address_is_served(kind: str, tmp_path: Path) -> None:
    process, address = Process(), an_address(kind, tmp_path)
    listener = SocketsListener(process.sockets, [A.at(address)])
    await listener.bind()
    found = [await greeting(address)]
    await listener.serve()
    found += [await greeting(address), await greeting(address)]
    await process.apply()
    assert (found, await greeting(address), process.sockets.addresses) == (["", "a", "a"], "", ())


@pytest.mark.parametrize("kind", KINDS)
async def test_both_addresses_are_open_until_the_new_one_is_served(kind: str, tmp_path: Path) -> None:
    process, old, new = Process(), an_address(kind, tmp_path, "old"), an_address(kind, tmp_path, "new")
    await process.apply(A.at(old))
    following = SocketsListener(process.sockets, [A.at(new)])
    await following.bind()
    found = [await greeting(old), await greeting(new)]
    await following.serve()
    found += [await greeting(old), await greeting(new)]
    await process.apply()
    assert found == ["a", "", "", "a"]


@pytest.mark.parametrize("kind", KINDS)
async def test_open_connections_stay_open_when_their_address_closes(kind: str, tmp_path: Path) -> None:
    process, old = Process(), an_address(kind, tmp_path, "old")
    await process.apply(A.at(old))
    _, client = await connected(old)
    await process.apply(A.at(an_address(kind, tmp_path, "new")))
    assert await client.is_open()
    await process.apply()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_socket_is_handed_to_the_next_server(kind: str, tmp_path: Path) -> None:
    process, address = Process(), an_address(kind, tmp_path)
    await process.apply(A.at(address))
    _, client = await connected(address)
    ((_, before),) = process.sockets._bound.items()
    await process.apply(B.at(address))
    ((_, after),) = process.sockets._bound.items()
    found = await greeting(address), await client.is_open(), after.sockets == before.sockets
    await process.apply()
    assert found == ("b", True, True)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_next_configuration_is_not_served_before_its_turn(kind: str, tmp_path: Path) -> None:
    process, address = Process(), an_address(kind, tmp_path)
    await process.apply(A.at(address))
    following = SocketsListener(process.sockets, [B.at(address)])
    await following.bind()
    found = [await greeting(address)]
    await following.abandon()
    found.append(await greeting(address))
    await process.apply()
    assert found == ["a", "a"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_bound_is_released_when_it_is_abandoned(kind: str, tmp_path: Path) -> None:
    process, old, new = Process(), an_address(kind, tmp_path, "old"), an_address(kind, tmp_path, "new")
    await process.apply(A.at(old))
    following = SocketsListener(process.sockets, [A.at(old), B.at(new)])
    for _ in range(2):
        await following.bind()
        await following.abandon()
    assert (await greeting(old), process.sockets.addresses) == ("a", (old,))
    with holding(new):  # nobody has it
        pass
    await process.apply()


@pytest.mark.parametrize("kind", KINDS)
async def test_if_one_address_can_not_be_bound_nothing_has_changed(kind: str, tmp_path: Path) -> None:
    process, old, new = Process(), an_address(kind, tmp_path, "old"), an_address(kind, tmp_path, "new")
    taken = Address(HOST, free_port())
    await process.apply(A.at(old))
    with holding(taken), pytest.raises(OSError, match=f"can't listen on {taken}: address already in use"):
        await process.apply(A.at(new), B.at(taken))
    assert (await greeting(old), await greeting(new), process.sockets.addresses) == ("a", "", (old,))
    await process.apply()


@pytest.mark.parametrize("kind", KINDS)
async def test_one_server_may_stop_listening_alone(kind: str, tmp_path: Path) -> None:
    process, first, second = Process(), an_address(kind, tmp_path, "first"), an_address(kind, tmp_path, "second")
    await process.apply(A.at(first), B.at(second))
    for _ in range(2):
        process.sockets.close("a")
    assert (await greeting(first), await greeting(second)) == ("", "b")
    await process.apply()


@pytest.mark.parametrize("kind", KINDS)
async def test_addresses_may_be_added_to_those_that_are_served(kind: str, tmp_path: Path) -> None:
    process, first, second = Process(), an_address(kind, tmp_path, "first"), an_address(kind, tmp_path, "second")
    await process.apply(A.at(first))
    await process.apply(B.at(second), only=False)
    assert (await greeting(first), await greeting(second)) == ("a", "b")
    await process.apply()


@pytest.mark.parametrize("kind", KINDS)
async def test_no_file_stays_open(kind: str, tmp_path: Path) -> None:
    process, addresses = Process(), [an_address(kind, tmp_path, name) for name in "xy"]
    counts = []
    for round_ in range(6):
        if round_ % 2:
            for address, server in zip(addresses, (A, B), strict=True):
                await process.apply(server.at(address))
                assert await greeting(address) == server.name
        await process.apply()
        await asyncio.sleep(0.01)
        counts.append(open_files())
    assert (len(set(counts[2:])), names_in(tmp_path), process.own_ports._ports) == (1, [], [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "test",
    [
        test_connections_are_accepted_once_an_address_is_served,
        test_both_addresses_are_open_until_the_new_one_is_served,
        test_open_connections_stay_open_when_their_address_closes,
        test_a_socket_is_handed_to_the_next_server,
        test_what_was_bound_is_released_when_it_is_abandoned,
        test_no_file_stays_open,
    ],
)
def test_the_same_with_uvloop(test: Callable[[str, Path], Awaitable[None]], kind: str, tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test(kind, tmp_path))  # type: ignore[arg-type]


async def test_a_server_that_stays_the_same_is_not_replaced() -> None:
    process, address = Process(), Address(HOST, free_port())
    await process.apply(A.at(address))
    ((_, bound),) = process.sockets._bound.items()
    (before,) = bound.servers
    await process.apply(A.at(address))
    assert (bound.servers, await greeting(address)) == ([before], "a")
    await process.apply()


# -- TLS


def showing(name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / f"{name}.pem", TLS / f"{name}.key")
    return context


async def certificate(address: Address) -> str:
    """The certificate that a new connection is shown, by the name of its file."""
    trusting = ssl.create_default_context(cafile=str(TLS / "ca.pem"))
    async with asyncio.timeout(GUARD):
        _, writer = await asyncio.open_connection(address.bind, address.port, ssl=trusting)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    files = {ssl.PEM_cert_to_DER_cert((TLS / f"{name}.pem").read_text()): name for name in ("server", "renewed")}
    return files[shown]


async def test_new_connections_use_the_next_certificate_and_open_ones_stay_open() -> None:
    process, address = Process(), Address(HOST, free_port())
    trusting = ssl.create_default_context(cafile=str(TLS / "ca.pem"))
    await process.apply(A.at(address, showing("server")))
    _, client = await connected(address, trusting)
    found = [await certificate(address)]
    await process.apply(A.at(address, showing("renewed")))
    found.append(await certificate(address))
    assert (found, await client.is_open()) == (["server", "renewed"], True)
    await process.apply(A.at(address))
    assert await greeting(address) == "a"
    await process.apply()


# -- ports


@pytest.mark.parametrize("binds", [(ALL, HOST, ALL), (HOST, ALL, HOST), (HOST, "127.0.0.2", ALL)], ids="->".join)
async def test_an_address_may_overlap_the_previous_one_on_its_port(binds: Sequence[str]) -> None:
    process, port = Process(), free_port(ALL)
    for bind in binds:
        await process.apply(A.at(Address(bind, port)))
        reached = "127.0.0.2" if bind == "127.0.0.2" else HOST
        assert [await greeting(Address(reached, port)) for _ in range(10)] == ["a"] * 10
        assert (process.own_ports._ports, process.sockets.port("a")) == ([port], port)
    await process.apply()


async def test_an_overlapping_address_can_be_abandoned() -> None:
    process, port = Process(), free_port(ALL)
    await process.apply(A.at(Address(ALL, port)))
    following = SocketsListener(process.sockets, [B.at(Address(HOST, port))])
    await following.bind()
    found = [await greeting(Address(HOST, port)) for _ in range(10)]
    await following.abandon()
    found += [await greeting(Address(HOST, port)) for _ in range(10)]
    assert (found, process.own_ports._ports) == (["a"] * 20, [port])
    await process.apply()


@pytest.mark.parametrize("reuse", [False, True], ids=["", "reuseport"])
@pytest.mark.parametrize("bind", [HOST, ALL])
@pytest.mark.parametrize("theirs", [HOST, ALL])
async def test_a_port_is_not_shared_with_another_process(theirs: str, bind: str, reuse: bool) -> None:
    address = Address(bind, free_port(ALL))
    with (
        holding(Address(theirs, address.port), reuse=reuse),
        pytest.raises(OSError, match=f"can't listen on {address}: address already in use"),
    ):
        await Process().apply(A.at(address))


async def test_two_processes_do_not_share_a_port() -> None:
    first, second, address = Process(), Process(), Address(HOST, free_port())
    await first.apply(A.at(address))
    with pytest.raises(OSError, match="address already in use"):
        await second.apply(B.at(address))
    await first.apply()
    await second.apply(B.at(address))
    assert await greeting(address) == "b"
    await second.apply()


async def test_a_free_port_is_one_of_its_own_and_stays() -> None:
    process, free = Process(), Address(HOST, 0)
    ports = set()
    for _ in range(3):
        await process.apply(A.at(free), B.at(free))
        ports.add((process.sockets.port("a"), process.sockets.port("b")))
    ((a, b),) = ports
    assert [await greeting(Address(HOST, port)) for port in (a, b)] == ["a", "b"]
    await process.apply()


async def test_a_server_that_does_not_listen_has_no_port(tmp_path: Path) -> None:
    process = Process()
    await process.sockets.bind([A.at(Address(HOST, 0))])
    with pytest.raises(LookupError, match="a does not listen"):
        process.sockets.port("a")
    process.sockets.abandon()
    await process.apply(A.at(Address(f"unix:{tmp_path}/s", 0)))
    assert process.sockets.port("a") == 0
    await process.apply()


@pytest.mark.parametrize("bind", [HOST, "localhost", "::1", ALL, "::"])
async def test_it_listens_at_names_and_addresses(bind: str) -> None:
    process = Process()
    await process.apply(A.at(Address(bind, 0)))
    reached = {ALL: HOST, "::": "::1"}.get(bind, bind)
    assert await greeting(Address(reached, process.sockets.port("a"))) == "a"
    await process.apply()


async def test_one_port_may_be_bound_for_ipv4_and_ipv6() -> None:
    process, port = Process(), free_port(ALL)
    await process.apply(A.at(Address(ALL, port)), B.at(Address("::", port)))
    assert [await greeting(Address(host, port)) for host in (HOST, "::1")] == ["a", "b"]
    await process.apply()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (Address("192.0.2.1", 0), "can't listen on 192.0.2.1:0: cannot assign requested address"),
        (Address("2001:db8::1", 8080), r"can't listen on \[2001:db8::1\]:8080: cannot assign requested address"),
        (Address("none.invalid", 8080), "can't listen on none.invalid:8080: "),
        (Address("unix:/none/s", 0), "can't listen on unix:/none/s: No such file or directory"),
        (Address("unix:/proc/s", 0), "can't listen on unix:/proc/s: "),
        (Address("unix:/" + "x" * 200, 0), "can't listen on unix:/x+: .*too long"),
    ],
    ids=str,
)
async def test_an_address_that_can_not_be_bound_is_an_os_error_that_names_it(address: Address, message: str) -> None:
    process = Process()
    with pytest.raises(OSError, match=message):
        await process.apply(A.at(address))
    assert (process.sockets.addresses, process.own_ports._ports) == ((), [])


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address(HOST, 80), "127.0.0.1:80"),
        (Address("localhost", 0), "localhost:0"),
        (Address("::1", 80), "[::1]:80"),
        (Address("unix:/run/s", 80), "unix:/run/s"),
    ],
    ids=str,
)
def test_an_address_as_text(address: Address, text: str) -> None:
    assert str(address) == text


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("taken", [False, True])
async def test_a_port_must_be_free_or_our_own(taken: bool, ours: bool) -> None:
    address = Address(HOST, free_port())
    ports = OwnPorts()
    if ours:
        ports.add(address.port)
    with holding(address if taken else Address(HOST, free_port())):
        if taken and not ours:
            with pytest.raises(OSError, match="address already in use"):
                await require_free(address, ports)
        else:
            await require_free(address, ports)


@pytest.mark.parametrize("address", [Address("192.0.2.1", 0), Address("unix:/none/s", 80)], ids=str)
async def test_a_free_port_and_a_unix_socket_need_no_check(address: Address) -> None:
    await require_free(address, OwnPorts())


def test_a_port_is_our_own_until_the_last_socket_releases_it() -> None:
    ports, found = OwnPorts(), []
    for step in (ports.add, ports.add, ports.remove, ports.remove):
        step(80)
        found.append((80 in ports, 81 in ports))
    assert found == [(True, False), (True, False), (True, False), (False, False)]


# -- paths of Unix sockets


async def test_the_port_of_a_unix_socket_does_not_count(tmp_path: Path) -> None:
    process, path = Process(), tmp_path / "s"
    inodes = set()
    for port in (0, 8080, 9090):
        await process.apply(A.at(Address(f"unix:{path}", port)))
        inodes.add(path.stat().st_ino)
    assert (len(inodes), process.own_ports._ports) == (1, [])
    await process.apply()


async def test_a_socket_left_by_a_process_that_is_gone_is_replaced(tmp_path: Path) -> None:
    process, address = Process(), Address(f"unix:{tmp_path}/s", 0)
    with holding(address):
        pass
    assert (tmp_path / "s").is_socket()
    await process.apply(A.at(address))
    assert await greeting(address) == "a"
    await process.apply()


async def test_a_file_that_is_not_a_socket_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    with pytest.raises(OSError, match=r"can't listen on unix:.*in use"):
        await Process().apply(A.at(Address(f"unix:{tmp_path}/s", 0)))
    assert (tmp_path / "s").read_text() == "mine"


async def test_a_path_that_another_process_has_by_now_stays(tmp_path: Path) -> None:
    first, second, address = Process(), Process(), Address(f"unix:{tmp_path}/s", 0)
    await first.apply(A.at(address))
    await second.apply(B.at(address))
    await first.apply()
    assert await greeting(address) == "b"
    await second.apply()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("state", ["ours", "somebody else's", "gone"])
def test_a_path_is_removed_if_it_is_the_same_socket(state: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with suppress(OSError), holding(Address(f"unix:{path}", 0)):
        inode = path.stat().st_ino
    if state == "gone":
        path.unlink()
    remove_socket(path, inode if state == "ours" else inode + 1)
    assert path.exists() is (state == "somebody else's")
