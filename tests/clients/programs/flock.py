"""Many clients in one live, whose tokens end soon. Prints what happens to them, and closes them when its input ends."""

import asyncio
import sys
from functools import partial

from rollcall import Rollcall, Status
from signing import sign

URL, LIVE, COUNT, LIFETIME, SECRET = sys.argv[1:]


def client_of(sub: str) -> Rollcall:
    client = Rollcall(URL, token=lambda why: sign(SECRET, sub, seconds=int(LIFETIME)))
    for type in ("joined", "refreshed"):
        client.on(type, partial(say, type))
    client.on("state", tell)
    return client


def say(word: str, _: object) -> None:
    print(word, flush=True)


def tell(status: Status) -> None:
    if status.state in ("waiting", "closed"):
        print(status.state, flush=True)
    if status.state == "closed" and status.reason != "requested":
        print("closed:", status.reason, file=sys.stderr)


async def main() -> None:
    clients = [client_of(f"{LIVE}-u{n}") for n in range(int(COUNT))]
    await asyncio.gather(*(client.join(LIVE) for client in clients))
    await asyncio.to_thread(sys.stdin.read)
    await asyncio.gather(*(client.close() for client in clients))
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


asyncio.run(main())
