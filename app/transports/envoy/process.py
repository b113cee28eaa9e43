"""Starts Envoy, restarts it if it dies, and stops it when the requests in flight have finished."""

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

START = 30.0
"""Seconds for Envoy to become ready."""

LOOK = 0.05
"""Seconds between two checks of its state."""

FIRST_PAUSE, LONGEST_PAUSE, STEADY = 0.1, 5.0, 10.0
"""Seconds before a restart: the first time, at most, and the uptime after which the first pause applies again."""

KILL = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_END_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]}: {error.strerror}")
"""
"""Runs a program that ends with its parent, however that ends: PR_SET_PDEATHSIG of Linux."""


class EnvoyProcess:
    """The Envoy of this process."""

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
        """`subscribe` has a function called after each change of the `endpoints`. `certificate` reads the certificate
        and the key that clients are shown, if they connect with TLS."""
        self._binary = binary
        self._config = config
        self._make_files = files
        self._endpoints = endpoints
        self._subscribe = subscribe
        self._certificate = certificate
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self.port = config.listen.port
        """The port in use, once started."""

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Returns when it serves. Raises `OSError` if it can't be started."""
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
        self._config = replace(self._config, listen=listen)  # for a restart
        self._write()
        self._watch = asyncio.create_task(self._supervise(), name="envoy")

    def update_endpoints(self) -> None:
        """Gives it the addresses of the model servers."""
        endpoints = tuple(self._endpoints())
        for endpoint in endpoints:
            if not reachable(endpoint):
                log.warning(
                    "Envoy can't reach an endpoint at such an address",
                    endpoint=endpoint.name,
                    address=endpoint.authority,
                )
        put(self._files.endpoints, endpoints_resource(endpoints))

    def renew_certificate(self) -> None:
        """Gives it the certificate that clients are shown, if they connect with TLS. Raises `OSError`."""
        if not self._config.tls:
            return
        put(self._files.certificate, certificate_resource(*self._certificate()))

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Lets the requests in flight finish for `timeout` seconds, then ends it."""
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
                    await asyncio.sleep(LOOK)
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), KILL)
        except TimeoutError:
            process.kill()
            await process.wait()

    def _write(self) -> None:
        put(self._files.bootstrap, bootstrap(self._config, self._files))

    async def _launch(self) -> None:
        """Starts it and waits until it serves. Raises `OSError` if it does not."""
        self._files.admin.unlink(missing_ok=True)
        self._process = process = await asyncio.create_subprocess_exec(
            *_command(self._program_arguments()), stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )  # in a session of its own it does not get the terminal's Ctrl-C, and is there to drain
        try:
            async with asyncio.timeout(START):
                while not await self._admin.is_ready():
                    if process.returncode is not None:
                        raise OSError(f"Envoy ended with code {process.returncode} before it served; see its log above")
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            process.kill()
            raise OSError(f"Envoy was not ready within {START:g} s") from None

    def _program_arguments(self) -> Sequence[str]:
        config = self._config
        arguments = [str(self._program), "-c", str(self._files.bootstrap), "-l", config.log_level]
        arguments += ["--use-dynamic-base-id", "--disable-hot-restart", "--drain-time-s", "1"]
        return [*arguments, "--concurrency", str(config.concurrency)] if config.concurrency else arguments

    async def _supervise(self) -> None:
        pause = FIRST_PAUSE
        while self._process is not None:
            began = time.monotonic()
            code = await self._process.wait()
            if time.monotonic() - began > STEADY:
                pause = FIRST_PAUSE
            log.error("Envoy ended", code=code, again_in=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                await self._launch()
            except OSError as error:
                log.error("Envoy could not be started again", reason=str(error))  # noqa: TRY400
            else:
                log.info("Envoy serves again")


def _command(arguments: Sequence[str]) -> Sequence[str]:
    if sys.platform != "linux":
        return arguments
    return [sys.executable, "-c", _END_WITH_PARENT, str(os.getpid()), *arguments]
