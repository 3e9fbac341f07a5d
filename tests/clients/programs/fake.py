"""What an app may rely on where a gateway is silent or refuses, with a gateway that the test plays."""

import asyncio
import base64
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import rollcall.client
import rollcall.connection
from rollcall import ErrorMessage, Rollcall, RollcallError
from websockets.asyncio.server import ServerConnection, serve

Message = dict[str, Any]


class Gateway:
    """Hands over each connection, and says only what the test tells it to say."""

    def __init__(self) -> None:
        self.url = ""
        self._arrived: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def connection(self, **times: int) -> ServerConnection:
        """The next connection, which is welcomed."""
        socket = await self._arrived.get()
        await say(socket, {"type": "welcome", "heartbeat_ms": 50, "timeout_ms": 60_000, **times})
        return socket

    async def take(self, socket: ServerConnection) -> None:
        self._arrived.put_nowait(socket)
        await socket.wait_closed()


@contextlib.asynccontextmanager
async def gateway() -> AsyncIterator[Gateway]:
    played = Gateway()
    async with serve(played.take, "127.0.0.1", 0, ping_interval=None) as server:
        played.url = "http://127.0.0.1:{}".format(next(iter(server.sockets)).getsockname()[1])
        yield played


async def say(socket: ServerConnection, message: Message) -> None:
    await socket.send(json.dumps(message))


async def asked(socket: ServerConnection, kind: str) -> Message:
    """The next request of this type."""
    while True:
        message: Message = json.loads(await socket.recv())
        if message["type"] == kind:
            return message


async def answer(socket: ServerConnection) -> None:
    """Answers heartbeats."""
    with contextlib.suppress(Exception):
        while True:
            await asked(socket, "heartbeat")
            ack = {"live_id": None, "fan": None, "viewers": None, "fans": None, "heartbeat_ms": 50}
            await say(socket, {"type": "heartbeat_ack", **ack})


async def a_suspended_machine_asks_at_once() -> None:
    clock = rollcall.connection.since_boot
    rollcall.connection.DOUBT = 2
    async with gateway() as played, Rollcall(played.url, user_id="u1"):
        first = await played.connection()
        answering = asyncio.create_task(answer(first))
        await asyncio.sleep(0.2)
        # The gateway still has the connection.
        rollcall.connection.since_boot = lambda: clock() + 3_600
        await asyncio.sleep(0.5)
        assert not first.close_code and not answering.done()
        # It has forgotten the connection. An answer that is under way arrives before the next question.
        answering.cancel()
        await asyncio.sleep(0.2)
        rollcall.connection.since_boot = lambda: clock() + 7_200
        await played.connection()
    rollcall.connection.since_boot = clock


async def a_dead_connection_is_noticed_without_heartbeats() -> None:
    rollcall.client.PING_EVERY = 1
    async with gateway() as played, Rollcall(played.url, user_id="u1", heartbeat=False):
        first = await played.connection()
        await asyncio.sleep(2.5)
        assert not first.close_code, "its Pings are answered"
        first.transport.pause_reading()
        await played.connection()


async def a_join_that_was_withdrawn_does_not_win() -> None:
    async with gateway() as played, Rollcall(played.url, user_id="u1") as client:
        socket = await played.connection(heartbeat_ms=60_000)

        async def joins(live_id: str) -> tuple[asyncio.Task[Any], Message]:
            joining = asyncio.create_task(client.join(live_id))
            return joining, await asked(socket, "join")

        joining, request = await joins("a")
        await say(socket, {**request, "type": "joined"})
        await joining
        joining, request = await joins("b")
        joining.cancel()
        back = await asked(socket, "join")
        assert back["live_id"] == "a", back
        # The answer comes too late, and "a" has closed meanwhile.
        await say(socket, {**request, "type": "joined"})
        error = {"type": "error", "code": "banned", "message": "", "id": back["id"]}
        await say(socket, error)
        await asked(socket, "leave")
        await socket.close()
        socket = await played.connection()
        # It joins nothing: the first thing that it says is a heartbeat.
        first = json.loads(await socket.recv())
        assert first["type"] == "heartbeat", first


async def of_two_joins_that_were_withdrawn_neither_wins() -> None:
    async with gateway() as played, Rollcall(played.url, user_id="u1") as client:
        socket = await played.connection(heartbeat_ms=60_000)

        async def gives_up(live_id: str) -> Message:
            joining = asyncio.create_task(client.join(live_id))
            request = await asked(socket, "join")
            joining.cancel()
            return request

        late = await gives_up("a")
        await asked(socket, "leave")
        joining = asyncio.create_task(client.join("b"))
        await asked(socket, "join")
        await say(socket, {**late, "type": "joined"})
        # The client has heard the answer once it has heard what comes after it.
        heard = asyncio.Event()
        client.on("info", lambda _: heard.set())
        await say(socket, {"type": "info", "live_id": "a", "info": None, "info_version": 1})
        await heard.wait()
        joining.cancel()
        # It does not go back to the first one.
        message = json.loads(await socket.recv())
        assert message["type"] == "leave", message


async def an_error_says_which_live_it_is_about() -> None:
    async with gateway() as played, Rollcall(played.url, user_id="u1") as client:
        told: list[ErrorMessage] = []
        client.on("error", told.append)
        socket = await played.connection()
        joining = asyncio.create_task(client.join("a"))
        request = await asked(socket, "join")
        await say(socket, {"type": "error", "code": "banned", "message": "no", "id": request["id"]})
        with contextlib.suppress(RollcallError):
            await joining
        assert [(error["code"], error.get("live_id")) for error in told] == [("banned", "a")], told


async def a_renewal_that_fails_is_logged() -> None:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Lines()
    logging.getLogger("rollcall").addHandler(handler)

    def hook(why: str) -> str:
        if why == "refresh":
            raise OSError("the platform is away")
        claims = json.dumps({"exp": time.time() + 1.5}).encode()
        return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"

    async with gateway() as played, Rollcall(played.url, token=hook):
        await played.connection()
        while not lines:
            await asyncio.sleep(0.05)
    logging.getLogger("rollcall").removeHandler(handler)
    assert lines[0] == "a token was not renewed: the platform is away", lines


async def main() -> None:
    for story in (
        a_suspended_machine_asks_at_once,
        a_dead_connection_is_noticed_without_heartbeats,
        a_join_that_was_withdrawn_does_not_win,
        of_two_joins_that_were_withdrawn_neither_wins,
        an_error_says_which_live_it_is_about,
        a_renewal_that_fails_is_logged,
    ):
        async with asyncio.timeout(20):
            await story()
        print(story.__name__)
    print("all of it holds")


asyncio.run(main())
