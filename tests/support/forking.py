"""Runs `pointsman` commands, each in a process of its own that is forked from one that has imported everything.

Started as a script with the folder to work in; reads a command a line from standard input, as JSON: `arguments` and the
file `output`. Answers a line a process: its number when it has begun, `[number, exit code]` when it has ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def run(arguments: list[str], output: str) -> None:
    """What a forked process does: the command, with all that it says in a file."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    from app.__main__ import main  # noqa: PLC0415

    try:
        code = main(arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def serve() -> None:
    """Forks for each line, one after the other."""
    from containers.application import catalogue  # noqa: PLC0415 - imported once for all

    _ = catalogue().built_in
    for line in sys.stdin:
        command = json.loads(line)
        number = os.fork()
        if not number:
            run(command["arguments"], command["output"])
        say(number)
        _, status = os.waitpid(number, 0)
        say([number, os.waitstatus_to_exitcode(status)])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve()
