"""The types of what the gateway says. docs/websocket.md says what the messages mean."""

from typing import Any, Literal, NotRequired, TypedDict

Message = dict[str, Any]
"""A message as it is on the wire."""

Quality = Literal["exact", "partial", "stale"]


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


class Joined(Info):
    """The client is in a live."""

    type: Literal["joined"]
    live_id: str
    streamer_id: str
    viewers: int
    fans: int
    id: NotRequired[Any]


class HeartbeatAck(Info):
    """The gateway has heard a heartbeat. In no live, all but the interval are None."""

    type: Literal["heartbeat_ack"]
    live_id: str | None
    fan: bool | None
    viewers: int | None
    fans: int | None
    heartbeat_ms: int
    id: NotRequired[Any]


class Stream(TypedDict):
    """What a media server has of a live's stream. A stream that stays lost closes its live at `closes_at`."""

    state: Literal["live", "lost"]
    began_at: int
    closes_at: NotRequired[int]


class Counts(Info):
    """The figures of a live. Times are Unix milliseconds."""

    type: Literal["counts"]
    live_id: str
    epoch: int
    seq: int
    viewers: int
    fans: int
    peak_viewers: int
    peak_fans: int
    opened_at: int
    as_of: int
    quality: Quality
    away: int
    joins: int
    leaves: int
    stream: NotRequired[Stream]
    id: NotRequired[Any]


class Friends(TypedDict):
    """Which friends are in the live."""

    type: Literal["friends"]
    live_id: str
    count: int
    user_ids: list[str]
    partial: bool


class Opened(TypedDict):
    """A live is open."""

    type: Literal["opened"]
    live_id: str
    epoch: int
    slices: int
    id: NotRequired[Any]


class Closed(TypedDict):
    """A live has closed. If that was while this client was not connected, the reason is `unknown`, without figures."""

    type: Literal["closed"]
    live_id: str
    reason: str
    peak_viewers: NotRequired[int]
    peak_fans: NotRequired[int]
    duration_ms: NotRequired[int]
    id: NotRequired[Any]
