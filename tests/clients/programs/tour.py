"""The README's tour as an app in Python takes it: the back end with the client that openapi-python-client makes of the
OpenAPI document, the streamer and the viewer with the package."""

import asyncio
import sys

from rollcall import Closed, Counts, HeartbeatAck, Rollcall, RollcallError
from rollcall_api import AuthenticatedClient
from rollcall_api.api.fans import get_fan, list_fans
from rollcall_api.api.follows import follow
from rollcall_api.api.lives import close_live, get_live, open_live
from rollcall_api.models import FanPresence, FollowState, Live, OpenLive, PageFan, Problem


async def look_on(streamer: Rollcall) -> tuple[Counts | None, Closed | None]:
    """The fullest counts that a dashboard shows, and the end."""
    fullest: Counts | None = None
    async for message in streamer.watch("42"):
        if message["type"] == "closed":
            return fullest, message
        if fullest is None or message["fans"] >= fullest["fans"]:
            fullest = message
    return fullest, None


async def main(url: str) -> None:
    # With --auth off, a gateway does not look at the token.
    api = AuthenticatedClient(base_url=url, token="none", raise_on_unexpected_status=True)
    opened = await open_live.asyncio("42", client=api, body=OpenLive(streamer_id="s1"))
    assert isinstance(opened, Live), opened
    assert (opened.live_id, opened.state, opened.streamer_id) == ("42", "open", "s1"), opened
    followed = await follow.asyncio("u1", "s1", client=api)
    assert isinstance(followed, FollowState) and followed.follows and followed.changed, followed

    async with Rollcall(url, user_id="s1", role="streamer") as streamer, Rollcall(url, user_id="u1") as viewer:
        dashboard = asyncio.create_task(look_on(streamer))
        becomes_fan: asyncio.Future[HeartbeatAck] = asyncio.get_running_loop().create_future()
        hears_end: asyncio.Future[Closed] = asyncio.get_running_loop().create_future()

        def heard(ack: HeartbeatAck) -> None:
            if ack["fan"] and ack["fans"] == 1 and not becomes_fan.done():
                becomes_fan.set_result(ack)

        viewer.on("heartbeat_ack", heard)
        viewer.on("closed", hears_end.set_result)
        joined = await viewer.join("42")
        assert (joined["live_id"], joined["streamer_id"], joined["viewers"]) == ("42", "s1", 1), joined
        assert viewer.status.state == "open", viewer.status
        assert (await becomes_fan)["viewers"] == 1

        fans = await list_fans.asyncio("42", client=api)
        assert isinstance(fans, PageFan) and [fan.user_id for fan in fans.items] == ["u1"], fans
        fan = await get_fan.asyncio("42", "u1", client=api)
        assert isinstance(fan, FanPresence) and fan.online, fan

        unknown = await get_live.asyncio("nope", client=api)
        assert isinstance(unknown, Problem) and unknown.code == "live_not_found", unknown
        try:
            await viewer.join("nope")
            raise AssertionError("a live that is not open is joined")
        except RollcallError as refused:
            assert refused.code == "live_not_open", refused

        closed = await close_live.asyncio("42", client=api)
        assert isinstance(closed, Live) and (closed.state, closed.reason) == ("closed", "requested"), closed
        fullest, end = await dashboard
        assert fullest is not None and (fullest["viewers"], fullest["fans"]) == (1, 1), fullest
        assert end is not None and (end["reason"], end["peak_viewers"]) == ("requested", 1), end
        assert (await hears_end)["reason"] == "requested"
    assert viewer.status.reason == "requested", viewer.status
    print("the tour is over")


asyncio.run(main(sys.argv[1]))
