"""What follows when a connection ends or is refused: docs/client.md, "Reconnects". Nothing here waits or sends."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

# The longest and the first wait before another attempt, in seconds like all times here.
MOST_BACKOFF = 30.0
FIRST_BACKOFF = 0.5
# A connection that lasted so long makes the next wait short again.
STEADY_AFTER = 60.0
# How many attempts a client that made a mistake counts as failed at least.
SLOWLY = 4
# Within this time clients return to a gateway that stopped without saying when.
SPREAD = 5.0

# Close codes after which the same user must not come back without being asked.
FINAL = {4003: "removed", 4009: "too_many_sockets"}
GOING_AWAY = (1001, 1012)
TOKEN_EXPIRED = 4001
# Close codes that say that the client is wrong.
MISTAKES = (1002, 1007, 1009, 4008)
# Answers to an upgrade after which the same user must not come back by itself. 409: the user is being erased. 414 and
# 431: the token is too long.
REFUSALS = (400, 401, 403, 409, 414, 431)
# Errors that another try may cure.
PASSING = ("store_unavailable", "rate_limited", "timeout")


class RollcallError(Exception):
    """The gateway refused something, or it cannot be had. `code` says what, for programs."""

    def __init__(self, code: str, message: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message or code
        self.retry_after = retry_after


@dataclass(frozen=True)
class Later:
    """The client tries again after so many seconds."""

    reason: str
    message: str
    after: float


@dataclass(frozen=True)
class Over:
    """Another try would be of no use, or would do harm."""

    reason: str
    message: str


class Backoff:
    """Counts the attempts that failed, and says how long to wait before the next one."""

    def __init__(self) -> None:
        self._failures = 0

    def next(self) -> float:
        """Full jitter: a random part of a time that doubles with each failure."""
        most = min(MOST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return random.uniform(0, most)

    def lasted(self, seconds: float) -> None:
        """A connection lasted so long."""
        if seconds >= STEADY_AFTER:
            self._failures = 0

    def slow_down(self) -> None:
        """The client made a mistake, which it would make again."""
        self._failures = max(self._failures, SLOWLY)


def after_close(code: int, come_back_after: float | None, can_renew: bool, backoff: Backoff) -> Later | Over:
    """What follows the end of a connection. `come_back_after` is what a draining gateway asked for."""
    if code in FINAL:
        return Over(FINAL[code], f"closed with {code}")
    if come_back_after is not None:
        return Later("drain", "the gateway is being replaced", come_back_after)
    if code in GOING_AWAY:
        return Later("going_away", "the gateway stops", random.uniform(0, SPREAD))
    if code == TOKEN_EXPIRED and not can_renew:
        return Over("token_expired", "the token has ended")
    if code in MISTAKES:
        backoff.slow_down()
    return Later(f"closed_{code}", f"closed with {code}", backoff.next())


def after_refusal(
    status: int, headers: Mapping[str, str], problem: Mapping[str, str], can_renew: bool, backoff: Backoff
) -> Later | Over:
    """What follows a refused upgrade. `can_renew` says that another token may be had."""
    reason = problem.get("code", f"http_{status}")
    message = problem.get("detail", f"the answer has the status {status}")
    if status in REFUSALS and not (status == 401 and can_renew):
        return Over(reason, message)
    after = backoff.next()
    seconds = headers.get("Retry-After", "")
    if seconds.isdigit() and int(seconds) > 0:
        after = float(seconds)
    return Later(reason, message, after)


def soon_after(error: RollcallError) -> float:
    """How long to wait after an error that another try may cure."""
    return max(error.retry_after or 0, 1) + random.uniform(0, 1)
