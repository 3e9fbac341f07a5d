"""Tokens for the programs of the tests."""

import base64
import hmac
import json
import time


def part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def sign(secret: str, sub: str, role: str = "viewer", seconds: int = 3_600) -> str:
    """A token of a user that is good for so many seconds."""
    claims = {"sub": sub, "role": role, "exp": int(time.time()) + seconds}
    body = part(b'{"alg":"HS256","typ":"JWT"}') + "." + part(json.dumps(claims).encode())
    return body + "." + part(hmac.digest(secret.encode(), body.encode(), "sha256"))
