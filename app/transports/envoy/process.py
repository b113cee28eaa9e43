"""Starts Envoy, restarts it when it exits, and stops it after the requests in flight have finished."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import aiohttp
import structlog

from app.domain.endpoint import Endpoint
from app.transports.envoy.admin import EnvoyAdmin
from app.transports.envoy.binary import find_binary
from app.transports.envoy.bootstrap import bootstrap
from app.transports.envoy.config import EnvoyConfig, Files
from app.transports.envoy.resources import certificate_resource, endpoints_resource, put, reachable

log = structlog.get_logger("pointsman.envoy")

START_TIMEOUT = 30.0
"""Seconds for Envoy to become ready."""

POLL_INTERVAL = 0.05
"""Seconds between checks of its state."""

FIRST_DELAY, MAX_DELAY = 0.1, 5.0
"""Seconds before a restart. The delay doubles with each restart."""

STABLE = 10.0
"""Seconds of uptime after which the first delay applies again."""

KILL_TIMEOUT = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_EXIT_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]}: {error.strerror}")
"""
"""Runs a program that is terminated when its parent exits, by whatever cause: Linux's PR_SET_PDEATHSIG."""


class EnvoyProcess:
    """An Envoy process that belongs to this process."""

    def __init__(
        self,
        *,
        binary: str,
        config: EnvoyConfig,
        files: Callable[[], Files],
        endpoints: Callable[[], Iterable[Endpoint]],
        subscribe: Callable[[Callable[[], None]], None],
        certificate: Callable[[], tuple[bytes, bytes]],
    ) -> None:
        """`subscribe` registers a function that is called after each change of `endpoints`. `certificate` reads the
        certificate and key for TLS with clients; it is only called if they use TLS."""
        self._binary = binary
        self._config = config
        self._make_files = files
        self._endpoints = endpoints
        self._subscribe = subscribe
        self._certificate = certificate
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self.port = config.listen.port
        """The port in use, after `start`."""

    @property
    def pid(self) -> int | None:
        """The process id; None while Envoy does not run."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Returns when Envoy is ready. Raises `OSError` if it can't be started."""
        self._program = find_binary(self._binary)
        self._files = self._make_files()
        self._admin = EnvoyAdmin(self._files.admin)
        self.update_endpoints()
        self._subscribe(self.update_endpoints)
        self.renew_certificate()
        self._write()
        await self._launch()
        self.port = await self._admin.port()
        listen = replace(self._config.listen, port=self.port)
        self._config = replace(self._config, listen=listen)  # a restart takes the same port
        self._write()
        self._watch = asyncio.create_task(self._supervise(), name="envoy")

    def update_endpoints(self) -> None:
        """Writes the addresses of the endpoints to the file that Envoy watches."""
        endpoints = tuple(self._endpoints())
        for endpoint in endpoints:
            if not reachable(endpoint):
                log.warning("Envoy can't route to this address", endpoint=endpoint.name, address=endpoint.authority)
        put(self._files.endpoints, endpoints_resource(endpoints))

    def renew_certificate(self) -> None:
        """Writes the certificate for clients to the file that Envoy watches, if they use TLS. Raises `OSError`."""
        if not self._config.tls:
            return
        put(self._files.certificate, certificate_resource(*self._certificate()))

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Lets the requests in flight finish for `timeout` seconds, then stops Envoy."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(TimeoutError, OSError, aiohttp.ClientError):
            await self._admin.drain()
            async with asyncio.timeout(timeout):
                while await self._admin.requests():  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(POLL_INTERVAL)
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), KILL_TIMEOUT)
        except TimeoutError:
            process.kill()
            await process.wait()

    def _write(self) -> None:
        put(self._files.bootstrap, bootstrap(self._config, self._files))

    async def _launch(self) -> None:
        """Starts Envoy and waits until it is ready. Raises `OSError` if it does not become ready."""
        self._files.admin.unlink(missing_ok=True)
        self._process = process = await asyncio.create_subprocess_exec(
            *_command(self._program_arguments()), stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )  # in its own session the terminal's Ctrl-C does not reach it, so it can drain
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while not await self._admin.is_ready():
                    if process.returncode is not None:
                        raise OSError(
                            f"Envoy exited with code {process.returncode} before it was ready; see its log above"
                        )
                    await asyncio.sleep(POLL_INTERVAL)
        except TimeoutError:
            process.kill()
            raise OSError(f"Envoy was not ready within {START_TIMEOUT:g} s") from None

    def _program_arguments(self) -> Sequence[str]:
        config = self._config
        arguments = [str(self._program), "-c", str(self._files.bootstrap), "-l", config.log_level]
        arguments += ["--use-dynamic-base-id", "--disable-hot-restart", "--drain-time-s", "1"]
        return [*arguments, "--concurrency", str(config.concurrency)] if config.concurrency else arguments

    async def _supervise(self) -> None:
        delay = FIRST_DELAY
        while self._process is not None:
            started = time.monotonic()
            code = await self._process.wait()
            if time.monotonic() - started > STABLE:
                delay = FIRST_DELAY
            log.error("Envoy exited", code=code, restart_in=delay)
            await asyncio.sleep(delay)
            delay = min(2 * delay, MAX_DELAY)
            try:
                await self._launch()
            except OSError as error:
                log.error("Envoy restart failed", reason=str(error))  # noqa: TRY400
            else:
                log.info("Envoy restarted")


def _command(arguments: Sequence[str]) -> Sequence[str]:
    if sys.platform != "linux":
        return arguments
    return [sys.executable, "-c", _EXIT_WITH_PARENT, str(os.getpid()), *arguments]
