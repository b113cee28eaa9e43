"""Runs `pointsman` commands, each in its own process, forked from one that has imported everything.

Run as a script. Reads one command per line from standard input, as JSON: `arguments` and the file `output`. Prints the
process id when the process has started and `[process id, exit code]` when it has exited, each on its own line.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def run(arguments: list[str], output: str) -> None:
    """Runs the command in a forked process, with its output in a file."""
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
    """Runs the commands one after the other."""
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
