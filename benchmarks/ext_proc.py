"""What external processing costs a request: CPU of the picker and of Envoy, requests per second, added latency.

    .venv/bin/python benchmarks/ext_proc.py [--seconds 5] [--reps 3] [--sizes 1024,16384] [--only NAME,...] [--json]

    plain      Envoy alone, which sends a request where the client says
    bare       Envoy with a picker in gRPC's asyncio API that decides nothing
    pointsman  Envoy with this router over four endpoints
    pointsman-lean    the same, on an HTTP/2 server written for this instead of gRPC
    lean       Envoy with a picker that decides nothing, on that server

and with --only variants of them, see `extproc/setups.py`. Both directions are in full duplex, Envoy has one worker and
talks to the picker over a Unix socket; the model servers are one process of uvloop, and wrk is the client. The set-ups
are run in turn in each repetition, and compared within it; medians are printed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from extproc.setups import DEFAULT, NAMES, Running, SetupError, backends, cpu_seconds, events_sent, set_up

CONNECTIONS = 32
STREAM = "stream"
"""The kind of load that is measured in events instead of requests."""
SCRIPT = """
local head, tail = '{"model":"demo",%(stream)s"messages":[{"role":"user","content":"', '"}]}'
local words = {"which", "track", "is", "free", "and", "when", "does", "the", "next", "train", "leave"}
local bodies, seed = {}, 7
local number = 0
function init()
  for i = 1, 64 do
    local text = {}
    local length = #head + #tail
    while length < %(size)d do
      seed = (seed * 1103515245 + 12345) %% 2147483648
      local word = words[math.floor(seed / 65536) %% #words + 1]
      text[#text + 1] = word
      length = length + #word + 1
    end
    bodies[i] = wrk.format("POST", "/v1/chat/completions", {%(headers)s}, head .. table.concat(text, " ") .. tail)
  end
end
function request()
  number = number %% 64 + 1
  return bodies[number]
end
function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format("RESULT %%d %%d %%d %%d", summary.requests, summary.duration, latency:percentile(50), failed))
end
"""
Figures = dict[str, float]
Key = tuple[str, str]
"""A set-up, and a size or `STREAM`."""


def wrk(running: Running, script: Path, connections: int, seconds: float) -> tuple[int, float, float]:
    """Requests answered, seconds, and the median latency in us. Raises `SetupError` if any failed."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(script)]
    said = subprocess.run(
        [*command, f"http://127.0.0.1:{running.port}"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+)", said)
    if found is None or found[4] != "0":
        raise SetupError(f"wrk counted failures: {said}")
    return int(found[1]), int(found[2]) / 1e6, float(found[3])


def write_script(path: Path, running: Running, size: int, *, stream: bool) -> Path:
    """A load for wrk: 64 prompts in turn."""
    headers = ",".join(f'["{name}"]="{value}"' for name, value in running.headers.items())
    path.write_text(SCRIPT % {"stream": '"stream":true,' if stream else "", "size": size, "headers": headers})
    return path


def under_load(running: Running, load: Callable[[], float]) -> Figures:
    """CPU in us per unit, of which `load` tells how many there were."""
    pids = {"envoy": running.envoy} | ({} if running.picker is None else {"picker": running.picker})
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    units = load()
    return {f"{name}_us": (cpu_seconds(pid) - before[name]) / units * 1e6 for name, pid in pids.items()}


def requests(running: Running, script: Path, seconds: float) -> Figures:
    """The figures of whole answers."""
    wrk(running, script, CONNECTIONS, 1)
    figures: Figures = {}

    def load() -> float:
        count, took, _ = wrk(running, script, CONNECTIONS, seconds)
        figures["rps"] = count / took
        return count

    figures |= under_load(running, load)
    figures["p50_us"] = wrk(running, script, 1, seconds / 2)[2]
    return figures


def streams(running: Running, script: Path, seconds: float, backend: int) -> Figures:
    """The figures of streamed answers, per event."""

    def load() -> float:
        before = events_sent(backend)
        wrk(running, script, CONNECTIONS, seconds)
        return events_sent(backend) - before

    return under_load(running, load)


def measure(name: str, folder: Path, backend: int, arguments: argparse.Namespace) -> dict[Key, Figures]:
    """All figures of one set-up, once. Raises `SetupError`."""
    figures: dict[Key, Figures] = {}
    script = folder / "load.lua"
    with set_up(name, folder, backend) as running:
        for size in arguments.sizes:
            write_script(script, running, size, stream=False)
            figures[name, str(size)] = requests(running, script, arguments.seconds)
        write_script(script, running, 1024, stream=True)
        figures[name, STREAM] = streams(running, script, arguments.seconds, backend)
    return figures


def repeat(arguments: argparse.Namespace) -> list[dict[Key, Figures]]:
    """The figures of each repetition. A set-up that does not answer is told of, and left out from then on."""
    repetitions: list[dict[Key, Figures]] = []
    names = list(arguments.only)
    with backends() as backend:
        for number in range(arguments.reps):
            repetitions.append({})
            for name in tuple(names):
                with tempfile.TemporaryDirectory(prefix="extproc-") as folder:
                    print(f"repetition {number + 1}: {name}", file=sys.stderr)
                    try:
                        repetitions[-1] |= measure(name, Path(folder), backend, arguments)
                    except SetupError as error:
                        print(f"{name} is left out: {error}", file=sys.stderr)
                        names.remove(name)
                time.sleep(0.5)
    return repetitions


def compared(repetitions: list[dict[Key, Figures]]) -> dict[Key, Figures]:
    """Medians over the repetitions, with ratios and differences to `bare` and `plain` taken within each."""
    keys = list(dict.fromkeys(key for repetition in repetitions for key in repetition))
    table: dict[Key, Figures] = {}
    for name, kind in keys:
        rows = []
        for repetition in repetitions:
            if (name, kind) not in repetition:
                continue
            figures = dict(repetition[name, kind])
            plain, bare = repetition.get(("plain", kind), {}), repetition.get(("bare", kind), {})
            for figure, reference, label in (
                ("rps", plain, "plain"),
                ("envoy_us", plain, "plain"),
                ("rps", bare, "bare"),
                ("picker_us", bare, "bare"),
                ("envoy_us", bare, "bare"),
            ):
                if figure in figures and figure in reference:
                    figures[f"{figure}/{label}"] = figures[figure] / reference[figure]
            if "p50_us" in plain:
                figures["p50_us-plain"] = figures["p50_us"] - plain["p50_us"]
            if "picker_us" in figures and "picker_us" in bare:
                figures["picker_us-bare"] = figures["picker_us"] - bare["picker_us"]
            rows.append(figures)
        table[name, kind] = {figure: statistics.median(row[figure] for row in rows) for figure in rows[0]}
    return table


COLUMNS = (
    ("rps", "requests/s", ".0f"),
    ("rps/plain", "of plain", ".2f"),
    ("rps/bare", "of bare", ".2f"),
    ("picker_us", "picker, us", ".0f"),
    ("picker_us/bare", "of bare", ".2f"),
    ("picker_us-bare", "over bare", "+.0f"),
    ("envoy_us", "Envoy, us", ".0f"),
    ("envoy_us/plain", "of plain", ".2f"),
    ("p50_us", "p50, us", ".0f"),
    ("p50_us-plain", "added", "+.0f"),
)


def show(table: dict[Key, Figures]) -> None:
    """Prints the medians."""
    print("CPU in us per request, or per event of a stream; p50 over one connection\n")
    print("| | |", " | ".join(title for _, title, _ in COLUMNS), "|")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for kind in dict.fromkeys(kind for _, kind in table):
        for name in (name for name, of in table if of == kind):
            row = table[name, kind]
            cells = (format(row[figure], form) if figure in row else "" for figure, _, form in COLUMNS)
            print(f"| {kind} | {name} |", " | ".join(cells), "|")


def names(text: str) -> list[str]:
    """Set-ups by name."""
    chosen = text.split(",")
    if unknown := sorted(set(chosen) - set(NAMES)):
        raise argparse.ArgumentTypeError(f"no set-up {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return chosen


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each load")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 16384])
    parser.add_argument("--only", type=names, default=list(DEFAULT), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--json", action="store_true", help="every figure of every repetition, besides the medians")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("there is no wrk; run apt-get install wrk")
    for number in (signal.SIGINT, signal.SIGTERM):  # what was started is ended then as well
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    repetitions = repeat(arguments)
    table = compared(repetitions)
    if not arguments.json:
        show(table)
        return
    flat = [[{"setup": k[0], "load": k[1], **v} for k, v in each.items()] for each in (table, *repetitions)]
    print(json.dumps({"medians": flat[0], "repetitions": flat[1:]}, indent=2))


if __name__ == "__main__":
    main()
