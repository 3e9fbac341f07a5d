"""One WebSocket: pairs answers with requests, keeps to the gateway's limit on messages, and sends heartbeats."""

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections.abc import Callable

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


class Connection:
    """A WebSocket that is open. `hear` is called with each message, before the answer to a request is handed over."""

    def __init__(self, socket: ClientConnection, hear: Callable[[Message], None], heartbeat: bool) -> None:
        self.come_back_at: float | None = None
        self._socket = socket
        self._hear = hear
        self._heartbeat = heartbeat
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._turn = asyncio.Lock()
        self._pace = Pace()
        self._interval = 5.0
        self._timeout = 15.0
        self._unanswered_since: float | None = None
        self._answered = asyncio.Event()
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
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_result(GONE)
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
        self._answers[number] = answer
        try:
            await self.send({**message, "id": number})
            async with asyncio.timeout(REQUEST_TIMEOUT):
                message = await answer
        except TimeoutError:
            raise RollcallError("timeout", "no answer in time") from None
        finally:
            del self._answers[number]
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
            self._unanswered_since = None
            self._answered.set()
        elif kind == "reconnect":
            self.come_back_at = time.monotonic() + message["after_ms"] / 1000
        self._hear(message)
        answer = self._answers.get(message.get("id", 0))
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def _beat(self) -> None:
        # Clients that connected in the same moment do not beat in the same moment.
        await asyncio.sleep(random.uniform(0, self._interval))
        while True:
            since = self._unanswered_since
            if since is not None and time.monotonic() - since > self._timeout and not await self._is_there():
                # A network that was cut tells neither side.
                self._socket.transport.abort()
                return
            if self._unanswered_since is None:
                self._unanswered_since = time.monotonic()
            await self._send_heartbeat()
            await asyncio.sleep(self._interval)

    async def _is_there(self) -> bool:
        """Asks once more: a process that was suspended may have an answer that it did not read yet."""
        self._answered.clear()
        await self._send_heartbeat()
        try:
            async with asyncio.timeout(DOUBT):
                await self._answered.wait()
        except TimeoutError:
            return False
        return True

    async def _send_heartbeat(self) -> None:
        # If the connection has ended, `run` notices.
        with contextlib.suppress(RollcallError):
            await self.send({"type": "heartbeat"})
