"""What an app may rely on, with a real gateway that checks tokens."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Awaitable

from rollcall import Closed, Counts, HeartbeatAck, Rollcall, RollcallError
from signing import sign

URL, SECRET = sys.argv[1:]


def client_of(sub: str, role: str = "viewer") -> Rollcall:
    return Rollcall(URL, token=sign(SECRET, sub, role))


async def code_of(call: Awaitable[object]) -> str:
    """The code with which a call fails."""
    try:
        return f"no error: {await call!r}"
    except RollcallError as error:
        return error.code


async def live_of(client: Rollcall) -> str | None:
    """The live in which the gateway has a client."""
    ack = await client.request({"type": "heartbeat"})
    live_id: str | None = ack["live_id"]
    return live_id


async def a_refused_join_changes_nothing(streamer: Rollcall) -> None:
    async with client_of("u1") as viewer:
        await viewer.join("a")
        assert await code_of(viewer.join("nope")) == "live_not_open"
        assert await live_of(viewer) == "a"
        await viewer.join("b")
        assert await live_of(viewer) == "b"
        await viewer.leave()
        assert await live_of(viewer) is None
        # To leave twice is no mistake.
        await viewer.leave()


async def a_join_is_superseded_by_another(streamer: Rollcall) -> None:
    async with client_of("u1") as viewer:
        first = asyncio.create_task(viewer.join("a"))
        await asyncio.sleep(0)
        await viewer.join("b")
        assert await code_of(first) == "superseded"
        assert await live_of(viewer) == "b"


async def a_cancelled_join_changes_nothing(streamer: Rollcall) -> None:
    async with client_of("u1") as viewer:
        await viewer.join("a")
        joining = asyncio.create_task(viewer.join("b"))
        await asyncio.sleep(0)
        joining.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await joining
        while await live_of(viewer) != "a":
            await asyncio.sleep(0.02)


async def who_watches_is_counted_until_the_app_says_otherwise(streamer: Rollcall) -> None:
    async with client_of("u1") as viewer:
        viewer.watching(True)
        await viewer.join("a")
        wanted = 1
        async for message in streamer.watch("a"):
            if message["type"] != "counts" or message["watching"] != wanted:
                continue
            if wanted == 0:
                break
            wanted = 0
            viewer.watching(False)


async def leaving_the_loop_ends_the_watch(streamer: Rollcall) -> None:
    told: list[Counts] = []
    stop = streamer.on("counts", told.append)
    async for message in streamer.watch("a"):
        assert message["type"] == "counts", message
        break
    # Whoever comes now is not told any more.
    await asyncio.sleep(0)
    await streamer.request({"type": "heartbeat"})
    told.clear()
    async with client_of("u2") as viewer:
        await viewer.join("a")
        await asyncio.sleep(0.3)
    assert not told, told
    stop()


async def two_loops_watch_a_live_to_its_end(streamer: Rollcall) -> None:
    await streamer.open_live("c")

    async def watches() -> Closed | None:
        async for message in streamer.watch("c"):
            if message["type"] == "closed":
                return message
        return None

    loops = [asyncio.create_task(watches()) for _ in range(2)]
    async with client_of("u1") as viewer:
        await viewer.join("c")
        ended = asyncio.get_running_loop().create_future()
        viewer.on("closed", ended.set_result)
        await streamer.close_live("c")
        assert (await ended)["reason"] == "requested"
    for end in await asyncio.gather(*loops):
        assert end is not None and end["reason"] == "requested", end


async def nobody_watches_what_is_not_theirs(streamer: Rollcall) -> None:
    async with client_of("u1") as viewer:
        assert await code_of(anext(viewer.watch("a"))) == "forbidden"


async def a_listener_that_fails_does_not_stop_the_client(streamer: Rollcall) -> None:
    logging.getLogger("rollcall").setLevel(logging.CRITICAL)
    async with client_of("u1") as viewer:
        heard: asyncio.Future[HeartbeatAck] = asyncio.get_running_loop().create_future()

        async def hears(ack: HeartbeatAck) -> None:
            if not heard.done():
                heard.set_result(ack)

        viewer.on("heartbeat_ack", lambda ack: ack["no such field"])
        viewer.on("heartbeat_ack", hears)
        await viewer.join("a")
        assert (await heard)["live_id"] == "a"


async def a_hook_is_asked_again_when_its_token_has_ended(streamer: Rollcall) -> None:
    asked: list[str] = []

    async def hook(why: str) -> str:
        asked.append(why)
        if len(asked) == 1:
            raise OSError("the platform does not answer")
        return sign(SECRET, "u1", seconds=-60 if len(asked) == 2 else 60)

    async with Rollcall(URL, token=hook) as viewer:
        await viewer.join("a")
    assert asked == ["connect", "connect", "expired"], asked


async def a_hook_that_waited_for_work_that_was_cancelled_is_asked_again(streamer: Rollcall) -> None:
    shared = asyncio.create_task(asyncio.sleep(60))
    shared.cancel()
    asked: list[str] = []

    async def hook(why: str) -> str:
        asked.append(why)
        if len(asked) == 1:
            await shared
        return sign(SECRET, "u1")

    async with Rollcall(URL, token=hook) as viewer:
        await viewer.join("a")
    assert asked == ["connect", "connect"], asked
    # Whoever closes the client while the hook works waits for nothing.
    late = Rollcall(URL, token=lambda why: asyncio.sleep(60, "never"))
    late.connect()
    await asyncio.sleep(0.05)
    await late.close()
    assert late.status.reason == "requested", late.status


async def what_ended_for_good_says_why(streamer: Rollcall) -> None:
    viewer = Rollcall(URL, token=lambda why: sign("a secret of somebody else, of 32 bytes", "u1"))
    assert await code_of(viewer.join("a")) == "unauthorized"
    status = await viewer.wait_closed()
    assert (status.state, status.reason) == ("closed", "unauthorized"), status
    late = Rollcall("http://127.0.0.1:9", token="e30.e30.c2ln")
    joining = asyncio.create_task(late.join("a"))
    while late.status.state != "waiting":
        await asyncio.sleep(0.01)
    assert late.status.reason == "unreachable", late.status
    await late.close()
    assert await code_of(joining) == "requested"


async def main() -> None:
    async with client_of("s1", "streamer") as streamer:
        await streamer.open_live("a")
        await streamer.open_live("b")
        for story in (
            a_refused_join_changes_nothing,
            a_join_is_superseded_by_another,
            a_cancelled_join_changes_nothing,
            who_watches_is_counted_until_the_app_says_otherwise,
            leaving_the_loop_ends_the_watch,
            two_loops_watch_a_live_to_its_end,
            nobody_watches_what_is_not_theirs,
            a_listener_that_fails_does_not_stop_the_client,
            a_hook_is_asked_again_when_its_token_has_ended,
            a_hook_that_waited_for_work_that_was_cancelled_is_asked_again,
            what_ended_for_good_says_why,
        ):
            async with asyncio.timeout(20):
                await story(streamer)
            print(story.__name__, file=sys.stderr)
    print("all of it holds")


asyncio.run(main())
