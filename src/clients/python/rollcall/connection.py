"""One WebSocket: pairs answers with requests, keeps to the gateway's limit on messages, and sends heartbeats."""

import asyncio
import contextlib
import itertools
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from .messages import Message
from .rules import RollcallError

# How long an answer may take, in seconds like all times here.
REQUEST_TIMEOUT = 10.0
# A gateway that may be gone has so long to answer one more heartbeat.
DOUBT = 5.0
# Messages at once, and the time in which one more may follow: well within the gateway's limit.
BURST = 15
PACE = 0.125
# What a request is answered whose connection ended.
GONE: Message = {"type": "error", "code": "disconnected", "message": "the connection ended"}


def since_boot() -> float:
    """Seconds of a clock that runs on while the machine is suspended, and that nobody sets.

    On Linux and macOS, `time.monotonic` stands still then.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()


class Pace:
    """Says when the next message may be sent."""

    def __init__(self) -> None:
        self._credit = float(BURST)
        self._at = time.monotonic()

    def take(self) -> float:
        """Takes the place of one message; returns how long it has to wait for it."""
        now = time.monotonic()
        self._credit = min(BURST, self._credit + (now - self._at) / PACE) - 1
        self._at = now
        return max(0.0, -self._credit * PACE)


@dataclass(frozen=True)
class Request:
    """A message that waits for its answer, and the live that it is about."""

    answer: asyncio.Future[Message]
    live_id: str | None


class Connection:
    """A WebSocket that is open. `hear` is called with each message, before the answer to a request is handed over."""

    def __init__(self, socket: ClientConnection, hear: Callable[[Message], None], heartbeat: bool) -> None:
        self.come_back_at: float | None = None
        self._socket = socket
        self._hear = hear
        self._heartbeat = heartbeat
        self._ids = itertools.count(1)
        self._requests: dict[int, Request] = {}
        self._turn = asyncio.Lock()
        self._pace = Pace()
        self._interval = 5.0
        self._timeout = 15.0
        self._answered_at = since_boot()
        self._answered = asyncio.Event()
        self._is_watching = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Reads to the end of the connection; returns the close code, 1006 if there was none."""
        try:
            async for text in self._socket:
                self._take(text)
        except ConnectionClosed:
            pass
        finally:
            for task in self._tasks:
                task.cancel()
            for request in self._requests.values():
                if not request.answer.done():
                    request.answer.set_result(GONE)
            await self._socket.close()
        return self._socket.close_code or 1006

    def start(self, task: asyncio.Task[None]) -> None:
        """Keeps a task that ends with the connection."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def send(self, message: Message) -> None:
        """Sends as soon as the limit allows, in the order of the calls."""
        async with self._turn:
            await asyncio.sleep(self._pace.take())
            try:
                await self._socket.send(json.dumps(message))
            except ConnectionClosed:
                raise RollcallError("disconnected", "the connection ended") from None

    async def request(self, message: Message) -> Message:
        """Sends a message and waits for its answer."""
        number = next(self._ids)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._requests[number] = Request(answer, message.get("live_id"))
        try:
            await self.send({**message, "id": number})
            async with asyncio.timeout(REQUEST_TIMEOUT):
                message = await answer
        except TimeoutError:
            raise RollcallError("timeout", "no answer in time") from None
        finally:
            del self._requests[number]
        if message["type"] == "error":
            raise RollcallError(message["code"], message["message"])
        return message

    def _take(self, text: str | bytes) -> None:
        try:
            message: Message = json.loads(text)
            kind = message["type"]
        except (ValueError, KeyError, TypeError):
            # It is no gateway that says this.
            return
        if kind == "welcome":
            self._interval = message["heartbeat_ms"] / 1000
            self._timeout = message["timeout_ms"] / 1000
            if self._heartbeat:
                self.start(asyncio.create_task(self._beat()))
        elif kind == "heartbeat_ack":
            self._interval = message["heartbeat_ms"] / 1000
            self._answered_at = since_boot()
            self._answered.set()
        elif kind == "reconnect":
            self.come_back_at = time.monotonic() + message["after_ms"] / 1000
        request = self._requests.get(message.get("id", 0))
        if kind == "error" and request is not None and request.live_id is not None:
            message["live_id"] = request.live_id
        self._hear(message)
        if request is not None and not request.answer.done():
            request.answer.set_result(message)

    async def _beat(self) -> None:
        # Clients that connected in the same moment do not beat in the same moment.
        await asyncio.sleep(random.uniform(0, self._interval))
        while True:
            if since_boot() - self._answered_at <= self._timeout:
                await self._send_heartbeat()
            elif not await self._is_there():
                # A network that was cut tells neither side.
                self._socket.transport.abort()
                return
            await asyncio.sleep(self._interval)

    async def _is_there(self) -> bool:
        """Asks once more: who was suspended may have an answer that is not read yet, or has asked nothing meanwhile."""
        self._answered.clear()
        await self._send_heartbeat()
        try:
            async with asyncio.timeout(DOUBT):
                await self._answered.wait()
        except TimeoutError:
            return False
        return True

    async def watch(self, is_watching: bool) -> None:
        """Says whether the user watches, now if that changed, and with each heartbeat."""
        if is_watching == self._is_watching:
            return
        self._is_watching = is_watching
        with contextlib.suppress(RollcallError):
            await self.send({"type": "heartbeat", "watching": is_watching})

    async def _send_heartbeat(self) -> None:
        message: Message = {"type": "heartbeat"}
        if self._is_watching:
            message["watching"] = True
        # If the connection has ended, `run` notices.
        with contextlib.suppress(RollcallError):
            await self.send(message)
