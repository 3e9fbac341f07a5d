"""Runs a program at a terminal of its own: terminal.py STEPS PROGRAM [ARGUMENT]..., where STEPS is JSON, a list of
["expect", word] and ["signal", name]. Prints what came of it as JSON."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time

PATIENCE = 20

steps, program = json.loads(sys.argv[1]), sys.argv[2:]
terminal, inside = os.openpty()


def take_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


child = subprocess.Popen(program, stdin=inside, stdout=inside, stderr=inside, preexec_fn=take_terminal)
shown, looked_at = b"", 0


def until(what, holds):
    global shown
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            child.kill()
            sys.exit(f"{what}: not within {PATIENCE} s; the terminal got {shown!r}")
        if select.select([terminal], [], [], 0.05)[0]:
            shown += os.read(terminal, 65536)


for verb, what in steps:
    if verb == "expect":
        until(f"{what} is shown", lambda: what.encode() in shown[looked_at:])
        looked_at = len(shown)
    elif verb == "signal":
        child.send_signal(getattr(signal, what))
until("the program ends", lambda: child.poll() is not None)
while select.select([terminal], [], [], 0.1)[0]:
    shown += os.read(terminal, 65536)
print(json.dumps({"code": child.returncode, "shown": shown.decode(errors="replace")}))
