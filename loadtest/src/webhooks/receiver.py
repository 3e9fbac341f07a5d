"""A receiver of webhooks, as docs/events.md describes one, with nothing but the standard library.

Usage: receiver.py PORT SECRET_FILE OUTPUT. Writes a line for each event that it takes: what was wrong, or "ok", and the
body. It prints "listening" when it is ready.
"""

import hashlib
import hmac
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, SECRET, OUTPUT = int(sys.argv[1]), open(sys.argv[2], "rb").readline().strip(), open(sys.argv[3], "a")
LOCK = threading.Lock()


def verify(header, body):
    parts = [part.split("=", 1) for part in header.split(",")]
    at = next(value for name, value in parts if name == "t")
    if abs(time.time() - int(at)) > 300:
        return False
    right = hmac.new(SECRET, at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(name == "v1" and hmac.compare_digest(value, right) for name, value in parts)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        wrong = "ok"
        if not verify(self.headers["Rollcall-Signature"], body):
            wrong = "signature"
        elif json.loads(body)["id"] != self.headers["Rollcall-Event-Id"]:
            wrong = "id"
        with LOCK:
            OUTPUT.write(f"{wrong} {body.decode()}\n")
            OUTPUT.flush()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
print("listening", flush=True)
server.serve_forever()
