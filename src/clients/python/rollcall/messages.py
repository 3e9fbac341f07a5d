"""The types of what the gateway says. docs/websocket.md says what the messages mean."""

from typing import Any, Literal, NotRequired, TypedDict

Message = dict[str, Any]
"""A message as it is on the wire."""

Quality = Literal["exact", "partial", "stale"]


class Answer(TypedDict):
    """What names the request that a message answers."""

    id: NotRequired[str | float]


class Rights(TypedDict):
    """What the user may do in the live beside watching it."""

    moderator: bool
    host: bool


class Info(TypedDict):
    """What a back end wrote about a live, if this client lacks that version."""

    info: NotRequired[Any]
    info_version: NotRequired[int]


class Welcome(TypedDict):
    """The first message of a connection."""

    type: Literal["welcome"]
    user_id: str
    gateway_id: str
    socket_id: str
    heartbeat_ms: int
    timeout_ms: int


class Joined(Info, Answer):
    """The client is in a live."""

    type: Literal["joined"]
    live_id: str
    streamer_id: str
    viewers: int
    fans: int
    guests: int
    you: NotRequired[Rights]


class HeartbeatAck(Info, Answer):
    """The gateway has heard a heartbeat. In no live, all but the interval are None."""

    type: Literal["heartbeat_ack"]
    live_id: str | None
    fan: bool | None
    viewers: int | None
    fans: int | None
    guests: int | None
    heartbeat_ms: int


class Stream(TypedDict):
    """What a media server has of a live's stream. A stream that stays lost closes its live at `closes_at`."""

    state: Literal["live", "lost"]
    began_at: int
    closes_at: NotRequired[int]


class Counts(Info, Answer):
    """The figures of a live. Times are Unix milliseconds."""

    type: Literal["counts"]
    live_id: str
    epoch: int
    seq: int
    viewers: int
    fans: int
    guests: int
    peak_viewers: int
    peak_fans: int
    opened_at: int
    as_of: int
    quality: Quality
    away: int
    watching: int
    confirmed: NotRequired[int]
    joins: int
    leaves: int
    stream: NotRequired[Stream]


class Friends(TypedDict):
    """Which friends are in the live."""

    type: Literal["friends"]
    live_id: str
    count: int
    user_ids: list[str]
    partial: bool


class Opened(Answer):
    """A live is open."""

    type: Literal["opened"]
    live_id: str
    epoch: int
    slices: int


class Closed(Answer):
    """A live has closed. If that was while this client was not connected, the reason is `unknown`, without figures."""

    type: Literal["closed"]
    live_id: str
    reason: str
    peak_viewers: NotRequired[int]
    peak_fans: NotRequired[int]
    duration_ms: NotRequired[int]


class You(TypedDict):
    """What the user may do in the joined live has changed."""

    type: Literal["you"]
    live_id: str
    moderator: bool
    host: bool


class Left(Answer):
    """The client is in no live any more."""

    type: Literal["left"]
    live_id: str


class Unwatched(Answer):
    """A live is not watched any more; None if all were meant."""

    type: Literal["unwatched"]
    live_id: str | None


class Refreshed(Answer):
    """The gateway took another token, which is good until then, in Unix milliseconds."""

    type: Literal["refreshed"]
    expires_at: int


class Reconnect(TypedDict):
    """The gateway is about to stop, and asks to come back after so long."""

    type: Literal["reconnect"]
    after_ms: int


class ErrorMessage(Answer):
    """A request was refused. The client adds the live that the request was about."""

    type: Literal["error"]
    code: str
    message: str
    ban_ends_at: NotRequired[int]
    ban_reason: NotRequired[str]
    live_id: NotRequired[str]
