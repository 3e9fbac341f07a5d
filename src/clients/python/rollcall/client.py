"""The client: keeps true over reconnects what an app wants, to be in a live and to watch lives."""

import asyncio
import base64
import contextlib
import inspect
import json
import logging
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self, cast
from urllib.parse import urlencode, urlsplit, urlunsplit

import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from .connection import REQUEST_TIMEOUT, Connection
from .messages import Closed, Counts, Joined, Message, Opened
from .rules import PASSING, Backoff, Later, Over, RollcallError, after_close, after_refusal, soon_after

Role = Literal["viewer", "streamer", "service"]
Hook = Callable[[str], str | Awaitable[str | None] | None]
"""Returns a token. It is told why: `connect`, `refresh` or `expired`."""

CONNECT_TIMEOUT = 15.0
CLOSE_TIMEOUT = 2.0
# Without heartbeats, a Ping follows so long after the last one, and its answer may take as long.
PING_EVERY = 20.0
# A token is renewed so long before its end, less a random part.
REFRESH_EARLY = 120.0
TOKEN = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
LONGEST_TOKEN = 8_192

log = logging.getLogger("rollcall")


@dataclass(frozen=True)
class Status:
    """`state` is idle, connecting, open, waiting (until `retry_at`, in Unix seconds) or closed, with the reason."""

    state: Literal["idle", "connecting", "open", "waiting", "closed"]
    reason: str | None = None
    message: str | None = None
    retry_at: float | None = None


@dataclass(eq=False)
class Room:
    """A live that the app wants to be in. `connection` is the one on which it was joined last."""

    wish: Message
    joined: asyncio.Future[Joined]
    connection: Connection | None = None
    # Where the client was before. A join that fails changes nothing.
    held: "Room | None" = None
    # The caller of the join gave it up.
    is_withdrawn: bool = False

    def refuse(self, error: RollcallError) -> None:
        """Lets the caller know, unless the join has succeeded."""
        if not self.joined.done():
            self.joined.set_exception(error)


@dataclass(eq=False)
class Latest:
    """Keeps the newest message for one loop over a watched live."""

    message: Message | None = None
    error: RollcallError | None = None
    has_ended: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def push(self, message: Message) -> None:
        """Replaces what the loop has not read yet. The gateway tells each version of `info` once."""
        unread = self.message or {}
        told = {name: value for name, value in unread.items() if name in ("info", "info_version")}
        self.message = {**told, **message}
        self.news.set()

    def finish(self, error: RollcallError | None = None) -> None:
        """Nothing follows."""
        self.error = error
        self.has_ended = True
        self.news.set()


@dataclass(eq=False)
class Watch:
    """A live that is watched, by one loop or several."""

    loops: set[Latest] = field(default_factory=set)
    seen: bool = False


class Rollcall:
    """A client of a gateway, for one event loop. It connects with the first call that needs that.

    `token` is a token, or a function that returns one, which may be a coroutine. With `--auth off`, give `user_id` and
    `role` instead. With `count=False` the user takes part and is in no figure. With `heartbeat=False` Pings alone keep
    the user present, and find out whether the gateway is there.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | Hook | None = None,
        user_id: str | None = None,
        role: Role | None = None,
        count: bool | None = None,
        heartbeat: bool = True,
    ) -> None:
        self._url = socket_url(url, user_id=user_id, role=role, count=count)
        self._token = token
        self._heartbeat = heartbeat
        self._status = Status("idle")
        self._listeners: dict[str, list[Callable[[Any], object]]] = {}
        self._run: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._opened = asyncio.Event()
        self._closed = asyncio.Event()
        self._backoff = Backoff()
        self._why = "connect"
        self._room: Room | None = None
        self._watches: dict[str, Watch] = {}
        self._is_away = False
        self._is_watching = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --------------------------------------------------------------------------------------------- what an app may do

    @property
    def status(self) -> Status:
        """How the client is connected now."""
        return self._status

    def on(self, type: str, listener: Callable[[Any], object]) -> Callable[[], None]:
        """Calls the listener with each message of a type, or with each `Status` for `state`; returns what ends that.

        A listener may be a coroutine function.
        """
        listeners = self._listeners.setdefault(type, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop

    def connect(self) -> None:
        """Connects. Everything else does so by itself."""
        if self._run is None:
            self._closed.clear()
            self._run = asyncio.create_task(self._stay_connected())

    async def close(self) -> None:
        """Leaves, stops watching, and ends the connection cleanly."""
        run = self._run
        if run is None:
            return
        self._finish(Over("requested", "requested"))
        run.cancel()
        await asyncio.wait([run])

    async def wait_closed(self) -> Status:
        """Waits until the client does not come back by itself: it was closed, removed, or refused for good."""
        if self._status.state != "closed":
            self.connect()
        await self._closed.wait()
        return self._status

    async def join(self, live_id: str, *, counts: bool = False, friends: bool = False) -> Joined:
        """Joins a live, and again after each reconnect, until it closes or is left. A refused join changes nothing."""
        before = self._room
        joined: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        room = Room({"type": "join", "live_id": live_id, "counts": counts, "friends": friends}, joined)
        if before is not None:
            before.refuse(RollcallError("superseded", "another live was joined"))
            room.held = before if before.connection is not None else before.held
        self._room = room
        self.connect()
        if self._connection is not None:
            self._start(self._enter(room, self._connection))
        try:
            return await joined
        except asyncio.CancelledError:
            self._withdraw(room)
            raise

    async def leave(self) -> None:
        """Leaves the live."""
        room = self._room
        self._room = None
        if room is None:
            return
        room.refuse(RollcallError("superseded", "the live was left"))
        if self._connection is not None:
            await self._connection.request({"type": "leave"})

    async def watch(self, live_id: str) -> AsyncGenerator[Counts | Closed, None]:
        """The newest counts of a live whenever the loop asks, and `closed` at last. Over a reconnect the loop waits."""
        latest = Latest()
        watch = self._watches.setdefault(live_id, Watch())
        watch.loops.add(latest)
        self.connect()
        if self._connection is not None:
            self._start(self._look(live_id, self._connection))
        try:
            while True:
                await latest.news.wait()
                latest.news.clear()
                message = latest.message
                latest.message = None
                if message is not None:
                    yield cast(Counts | Closed, message)
                if latest.error is not None:
                    raise latest.error
                if latest.has_ended and latest.message is None:
                    return
        finally:
            watch.loops.discard(latest)
            if not watch.loops and self._watches.get(live_id) is watch:
                del self._watches[live_id]
                self._start(self._tell({"type": "unwatch", "live_id": live_id, "id": "unwatch"}))

    async def open_live(self, live_id: str, *, streamer_id: str | None = None, slices: int | None = None) -> Opened:
        """Opens a live, for streamers and services."""
        message = {"type": "open", "live_id": live_id, "streamer_id": streamer_id, "slices": slices}
        return cast(Opened, await self.request(message))

    async def close_live(self, live_id: str) -> Closed:
        """Closes a live, for its streamer and for services."""
        return cast(Closed, await self.request({"type": "close", "live_id": live_id}))

    def away(self) -> None:
        """The user looks elsewhere, and goes on to count."""
        self._look_away(True)

    def back(self) -> None:
        """The user looks again."""
        self._look_away(False)

    def watching(self, is_watching: bool) -> None:
        """Whether the picture plays and can be seen. Each heartbeat says so from now on."""
        self._is_watching = is_watching
        if self._room is not None and self._connection is not None:
            self._start(self._connection.watch(is_watching))

    async def request(self, message: Message) -> Message:
        """Sends any message as soon as there is a connection; returns its answer."""
        self.connect()
        if self._connection is None:
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT):
                    await self._opened.wait()
            except TimeoutError:
                raise RollcallError("timeout", "no connection in time") from None
        if self._connection is None:
            raise RollcallError(self._status.reason or "disconnected", self._status.message)
        return await self._connection.request(message)

    # ------------------------------------------------------------------------------------------------- the connection

    async def _stay_connected(self) -> None:
        while True:
            self._become(Status("connecting"))
            try:
                end = await self._attempt()
            except Exception as error:
                log.exception("an attempt to connect failed in an unforeseen way")
                end = Later("failed", str(error), self._backoff.next())
            if isinstance(end, Over):
                self._finish(end)
                return
            self._become(Status("waiting", end.reason, end.message, time.time() + end.after))
            await asyncio.sleep(end.after)

    async def _attempt(self) -> Later | Over:
        """Connects once, and stays to the end of the connection."""
        try:
            token = await self._ask_token(self._why)
        except RollcallError as error:
            return Over(error.code, error.message)
        except Exception as error:
            return Later("token", str(error) or type(error).__name__, self._backoff.next())
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        can_renew = callable(self._token) and self._why != "expired"
        try:
            socket = await connect(
                self._url,
                additional_headers=headers,
                subprotocols=[Subprotocol("rollcall.v1")],
                open_timeout=CONNECT_TIMEOUT,
                close_timeout=CLOSE_TIMEOUT,
                ping_interval=None if self._heartbeat else PING_EVERY,
                ping_timeout=PING_EVERY,
            )
        except websockets.InvalidStatus as refused:
            answer = refused.response
            if answer.status_code == 401 and can_renew:
                self._why = "expired"
            return after_refusal(answer.status_code, answer.headers, problem_in(answer.body), can_renew, self._backoff)
        except (OSError, TimeoutError, websockets.WebSocketException) as error:
            return Later("unreachable", str(error) or type(error).__name__, self._backoff.next())
        return await self._through(socket, token)

    async def _through(self, socket: ClientConnection, token: str | None) -> Later | Over:
        connection = Connection(socket, self._hear, self._heartbeat)
        began = time.monotonic()
        self._why = "connect"
        self._connection = connection
        self._opened.set()
        try:
            if callable(self._token) and token is not None:
                connection.start(asyncio.create_task(self._renew(connection, expiry_of(token))))
            if self._room is not None:
                connection.start(asyncio.create_task(self._enter(self._room, connection)))
            for live_id in self._watches:
                connection.start(asyncio.create_task(self._look(live_id, connection)))
            self._become(Status("open"))
            code = await connection.run()
        finally:
            self._connection = None
            self._opened.clear()
        self._backoff.lasted(time.monotonic() - began)
        if code == 4001:
            self._why = "expired"
        come_back_after = None
        if connection.come_back_at is not None:
            come_back_after = max(0.0, connection.come_back_at - time.monotonic())
        return after_close(code, come_back_after, callable(self._token), self._backoff)

    def _finish(self, end: Over) -> None:
        error = RollcallError(end.reason, end.message)
        self._run = None
        if self._room is not None:
            self._room.refuse(error)
        self._room = None
        for watch in self._watches.values():
            for latest in watch.loops:
                latest.finish(error)
        self._watches.clear()
        self._become(Status("closed", end.reason, end.message))
        self._closed.set()
        # Requests that wait for a connection find none, and why.
        self._opened.set()
        self._opened = asyncio.Event()

    async def _ask_token(self, why: str) -> str | None:
        found: Any = self._token
        if callable(found):
            found = found(why)
            if inspect.isawaitable(found):
                found = await finished(found)
        return None if found is None else token_in(found)

    async def _renew(self, connection: Connection, expires_at: float | None) -> None:
        """Asks the hook for a new token before this one ends."""
        while expires_at is not None:
            left = expires_at - time.time()
            # Either no try succeeded, or this clock is wrong. The gateway's clock decides: it closes with 4001.
            if left <= 0:
                return
            early = min(REFRESH_EARLY, left / 4) * random.uniform(0.5, 1)
            await asyncio.sleep(max(left - early, 1))
            try:
                token = await self._ask_token("refresh")
                if token is None:
                    return
                refreshed = await connection.request({"type": "refresh", "token": token})
            except Exception as error:
                # Until the token has ended, there is time for another try.
                log.warning("a token was not renewed: %s", str(error) or type(error).__name__)
                continue
            expires_at = refreshed["expires_at"] / 1000

    # --------------------------------------------------------------------------------------------------- the messages

    def _hear(self, message: Message) -> None:
        kind = message.get("type", "")
        if kind == "counts":
            watch = self._watches.get(message["live_id"])
            if watch is not None:
                watch.seen = True
                for latest in watch.loops:
                    latest.push(message)
        elif kind == "closed":
            self._end_live(message)
        elif kind == "unwatched" and "id" not in message:
            self._end_watch(message["live_id"])
        self._dispatch(kind, message)

    def _end_live(self, message: Message) -> None:
        live_id = message["live_id"]
        room = self._room
        if room is not None and room.held is not None and room.held.wish["live_id"] == live_id:
            room.held = None
        if room is not None and room.wish["live_id"] == live_id:
            self._refuse(room, RollcallError("live_not_open", f"live {live_id} closed"))
        watch = self._watches.pop(live_id, None)
        if watch is not None:
            for latest in watch.loops:
                latest.push(message)
                latest.finish()

    def _end_watch(self, live_id: str) -> None:
        """The user hosts the live no more, and may not watch it."""
        watch = self._watches.pop(live_id, None)
        if watch is not None:
            for latest in watch.loops:
                latest.finish(RollcallError("forbidden", f"live {live_id} may not be watched any more"))

    def _end_live_meanwhile(self, live_id: str) -> None:
        """The live closed while this client was not connected."""
        message = {"type": "closed", "live_id": live_id, "reason": "unknown"}
        self._end_live(message)
        self._dispatch("closed", message)

    async def _enter(self, room: Room, connection: Connection) -> None:
        while self._room is room and self._connection is connection:
            try:
                joined = await connection.request(room.wish)
            except RollcallError as error:
                if error.code == "disconnected" or self._room is not room:
                    return
                if error.code in PASSING:
                    await asyncio.sleep(soon_after(error))
                    continue
                if room.connection is not None and error.code == "live_not_open":
                    self._end_live_meanwhile(room.wish["live_id"])
                else:
                    self._refuse(room, error)
                return
            room.connection = connection
            room.held = None
            newer = self._room
            if newer is not None and newer is not room:
                if room.is_withdrawn and newer.held is not None:
                    # Should the newer join fail, the client must go back to where it was before both.
                    newer.held.connection = None
                else:
                    # Should the newer join fail, this is where the client is.
                    newer.held = room
            if not room.joined.done():
                room.joined.set_result(cast(Joined, joined))
            if self._is_away:
                await self._tell({"type": "away"})
            await connection.watch(self._is_watching)
            return

    def _refuse(self, room: Room, error: RollcallError) -> None:
        """The client is where it was before this join. If that was on another connection, it joins there again."""
        held = room.held
        room.refuse(error)
        if held is not None and held.is_withdrawn:
            # That join was answered after all, and nobody wants to be there.
            self._room = None
            if held.connection is self._connection:
                self._start(self._tell({"type": "leave"}))
            return
        self._room = held
        if held is not None and self._connection is not None and held.connection is not self._connection:
            self._start(self._enter(held, self._connection))

    def _withdraw(self, room: Room) -> None:
        """Nobody waits for this join any more: the client goes back to where it was."""
        room.is_withdrawn = True
        if self._room is not room:
            return
        held = room.held
        if held is not None and held.is_withdrawn:
            # That join was answered after all, and nobody wants to be there.
            held = None
        self._room = held
        if self._connection is None:
            return
        if self._room is not None:
            self._start(self._enter(self._room, self._connection))
        else:
            self._start(self._tell({"type": "leave"}))

    async def _look(self, live_id: str, connection: Connection) -> None:
        watch = self._watches.get(live_id)
        while watch is not None and self._watches.get(live_id) is watch and self._connection is connection:
            try:
                await connection.request({"type": "watch", "live_id": live_id})
                return
            except RollcallError as error:
                if error.code == "disconnected" or self._watches.get(live_id) is not watch:
                    return
                if error.code in PASSING:
                    await asyncio.sleep(soon_after(error))
                    continue
                if watch.seen and error.code == "live_not_open":
                    self._end_live_meanwhile(live_id)
                    return
                del self._watches[live_id]
                for latest in watch.loops:
                    latest.finish(error)

    def _look_away(self, is_away: bool) -> None:
        if self._is_away == is_away:
            return
        self._is_away = is_away
        if self._room is not None:
            self._start(self._tell({"type": "away" if is_away else "back"}))

    async def _tell(self, message: Message) -> None:
        """Sends what has no answer that somebody waits for."""
        if self._connection is None:
            return
        # If the connection has ended, the next one begins anew.
        with contextlib.suppress(RollcallError):
            await self._connection.send(message)

    def _become(self, status: Status) -> None:
        self._status = status
        self._dispatch("state", status)

    def _dispatch(self, kind: str, detail: object) -> None:
        for listener in list(self._listeners.get(kind, ())):
            try:
                heard = listener(detail)
            except Exception:
                log.exception("a listener for %s failed", kind)
                continue
            if inspect.iscoroutine(heard):
                self._start(self._finish_hearing(kind, heard))

    async def _finish_hearing(self, kind: str, heard: Coroutine[Any, Any, object]) -> None:
        try:
            await heard
        except Exception:
            log.exception("a listener for %s failed", kind)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs beside the caller."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def finished(work: Awaitable[Any]) -> Any:
    """What the hook's work ends with. Work that was cancelled has failed, unless this client is being cancelled."""
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the hook was cancelled") from None


def socket_url(url: str, **who: str | bool | None) -> str:
    """The address of the gateway's WebSocket. `url` may have a path, and a scheme of HTTP or of WebSockets."""
    parts = urlsplit(url)
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if parts.scheme not in schemes or not parts.hostname:
        raise RollcallError("invalid_option", "url: an address is expected, as in https://live.example.org")
    if parts.username or parts.password:
        raise RollcallError("invalid_option", "url: it must not have a user name or a password")
    if parts.query or parts.fragment:
        raise RollcallError("invalid_option", "url: it must not have a query or a fragment")
    path = parts.path.rstrip("/").removesuffix("/ws") + "/ws"
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in who.items()}
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return urlunsplit((schemes[parts.scheme], parts.netloc, path, query, ""))


def token_in(found: object) -> str:
    """The token in what an app gave, without the white space that files and shells add."""
    token = found.strip() if isinstance(found, str) else ""
    if TOKEN.fullmatch(token) and len(token) <= LONGEST_TOKEN:
        return token
    what = f"a value of the type {type(found).__name__}"
    if isinstance(found, str):
        what = f"a text of {len(token)} characters that begins with {token[:12]!r}" if token else "an empty text"
    raise RollcallError("invalid_token", f"token: {what} is not a JSON Web Token")


def expiry_of(token: str) -> float | None:
    """When a token ends, in Unix seconds; None if it does not say."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        exp = claims.get("exp")
    except (ValueError, AttributeError):
        return None
    return float(exp) if isinstance(exp, int | float) else None


def problem_in(body: bytes | bytearray | memoryview | None) -> dict[str, str]:
    """The problem document in the answer to an upgrade; empty if it was no gateway that answered."""
    try:
        problem = json.loads(bytes(body or b""))
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}
