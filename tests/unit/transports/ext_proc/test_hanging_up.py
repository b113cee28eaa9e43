"""A proxy that ends its stream as soon as it has the whole response, as Envoy does."""

from __future__ import annotations

import asyncio
from typing import Any

from app.domain.outcome import Ending
from tests.support.ext_proc import FakeContext
from tests.unit.transports.ext_proc.test_processor import ANSWERED, ASKED, Given


class HangsUp(FakeContext):
    """A stream that ends with the last chunk of the response: gRPC cancels the task that serves it."""

    async def write(self, message: Any) -> None:
        await super().write(message)
        if not self.left and message.response_body.response.body_mutation.streamed_response.end_of_stream:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)


async def test_a_request_whose_response_was_forwarded_whole_is_complete_even_if_the_stream_ends_at_once() -> None:
    setup, context = Given(), HangsUp(*ASKED, *ANSWERED)
    task = setup.begin(context)
    await asyncio.wait([task])
    assert task.cancelled()
    assert setup.counts == {}
    assert setup.endings == [(Ending.COMPLETED, True)]
