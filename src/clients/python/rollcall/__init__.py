"""The client of Rollcall, a live-stream presence gateway, for asyncio. docs/client.md shows how to use it.

`client` keeps true what an app wants over reconnects, `connection` is one WebSocket, `rules` says what follows when one
ends or is refused, and `messages` has the types of what the gateway says.
"""

from .client import Hook, Rollcall, Status
from .messages import (
    Closed,
    Counts,
    ErrorMessage,
    Friends,
    HeartbeatAck,
    Joined,
    Left,
    Opened,
    Reconnect,
    Refreshed,
    Rights,
    Stream,
    Unwatched,
    Welcome,
    You,
)
from .rules import RollcallError

__version__ = "0.1.0"
__all__ = [
    "Closed",
    "Counts",
    "ErrorMessage",
    "Friends",
    "HeartbeatAck",
    "Hook",
    "Joined",
    "Left",
    "Opened",
    "Reconnect",
    "Refreshed",
    "Rights",
    "Rollcall",
    "RollcallError",
    "Status",
    "Stream",
    "Unwatched",
    "Welcome",
    "You",
]
