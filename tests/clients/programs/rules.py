"""The rules of the package, without a gateway: docs/client.md, "Reconnects"."""

from rollcall.client import expiry_of, socket_url, token_in
from rollcall.rules import Backoff, Later, Over, RollcallError, after_close, after_refusal


def error_of(url: str) -> str:
    try:
        return socket_url(url)
    except RollcallError as error:
        return error.code


# The waits double, up to half a minute, and begin again after a connection that lasted.
for failures, most in enumerate([0.5, 1, 2, 4, 8, 16, 30, 30]):
    longest = 0.0
    for _ in range(400):
        backoff = Backoff()
        for _ in range(failures):
            backoff.next()
        longest = max(longest, backoff.next())
    assert 0.9 * most < longest <= most, (failures, longest)
short, steady = [], []
for _ in range(200):
    backoff = Backoff()
    for _ in range(6):
        backoff.next()
    backoff.lasted(59)
    short.append(backoff.next())
    backoff.lasted(60)
    steady.append(backoff.next())
assert max(short) > 15 and max(steady) <= 0.5, (max(short), max(steady))

# What ends a client for good, and what does not.
assert after_close(4003, None, True, Backoff()) == Over("removed", "closed with 4003")
assert after_close(4009, 5, True, Backoff()) == Over("too_many_sockets", "closed with 4009")
assert after_close(4001, None, False, Backoff()) == Over("token_expired", "the token has ended")
assert isinstance(after_close(4001, None, True, Backoff()), Later)
assert after_close(1012, 0.8, True, Backoff()) == Later("drain", "the gateway is being replaced", 0.8)
for code in (1001, 1012):
    going = after_close(code, None, True, Backoff())
    assert isinstance(going, Later) and going.reason == "going_away" and going.after <= 5, going
slow = [after_close(4008, None, True, Backoff()) for _ in range(200)]
assert max(later.after for later in slow if isinstance(later, Later)) > 4
quick = [after_close(4000, None, True, Backoff()) for _ in range(200)]
assert max(later.after for later in quick if isinstance(later, Later)) <= 0.5

busy = after_refusal(503, {"Retry-After": "7"}, {"code": "draining", "detail": "it stops"}, False, Backoff())
assert busy == Later("draining", "it stops", 7.0), busy
for status in (400, 401, 403, 409, 414, 431):
    assert isinstance(after_refusal(status, {}, {}, False, Backoff()), Over), status
assert isinstance(after_refusal(401, {}, {}, True, Backoff()), Later)
proxy = after_refusal(502, {}, {}, False, Backoff())
assert isinstance(proxy, Later) and proxy.reason == "http_502" and proxy.after <= 0.5, proxy

# Addresses and tokens.
assert socket_url("https://example.org/rollcall", user_id="u 1", count=False) == (
    "wss://example.org/rollcall/ws?user_id=u+1&count=false"
)
assert socket_url("ws://example.org:8080/ws") == "ws://example.org:8080/ws"
for wrong in ("example.org", "ftp://example.org", "https://a:b@example.org", "https://example.org?a", "https://a#b"):
    assert error_of(wrong) == "invalid_option", wrong
assert token_in(" e30.e30.c2ln\n") == "e30.e30.c2ln"
assert expiry_of("e30.eyJleHAiOjE3fQ.c2ln") == 17
assert expiry_of("e30.e30.c2ln") is None
for found in ("", "<html>", "a.b", 7, "x" * 9_000 + ".e30.c2ln"):
    try:
        raise AssertionError(token_in(found))
    except RollcallError as refused:
        assert refused.code == "invalid_token", refused
print("rules hold")
