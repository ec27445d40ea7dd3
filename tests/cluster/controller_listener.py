"""What brokers may ask of a controller, served over a socket: that and ApiVersions, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.handlers import allocate_producer_ids, alter_partition, controlled_shutdown
from oncelog.cluster.messages import UPDATE_METADATA
from oncelog.coordination import start
from oncelog.wire import (
    ErrorCode,
    construct,
    decode_request,
    encode_answer,
    frame_bytes,
    message_class,
    message_module,
    read_request_header,
    skip_tagged_fields,
)

API_VERSIONS = 18
Handler = Callable[[Controller, int, Any], Any]
SERVED: Mapping[int, tuple[int, int, Handler]] = {
    7: (2, 3, controlled_shutdown),
    56: (2, 3, alter_partition),
    67: (0, 0, allocate_producer_ids),
}


async def listen(controller: Controller, served: list[int]) -> asyncio.Server:
    """On a free port of this machine. The keys of what was asked go to `served`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size_bytes = frame_bytes(await reader.readexactly(4))
                frame = memoryview(await reader.readexactly(size_bytes))
                writer.writelines(await _answer(controller, frame, served))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


async def _answer(controller: Controller, frame: memoryview, served: list[int]) -> list[Any]:
    header = read_request_header(frame)
    key, version = header.api_key, header.version
    served.append(key)
    if key == UPDATE_METADATA:
        # What the controller tells every broker, and so itself.
        told = message_class(key, version, "response")(error_code=ErrorCode.none)
        return encode_answer(key, version, header.correlation_id, told)
    if key == API_VERSIONS:
        return encode_answer(key, version, header.correlation_id, _api_versions(version))
    kind = message_class(key, version, "request")
    position = skip_tagged_fields(frame, header.end) if kind.__flexible__ else header.end
    body = decode_request(kind, frame, position)
    answer = await _over(SERVED[key][2](controller, version, body))
    return encode_answer(key, version, header.correlation_id, answer)


def _over(flow: Any) -> Awaitable[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    start(flow).then(future.set_result)
    return future


def _api_versions(version: int) -> Any:
    types = message_module(API_VERSIONS, version, "response")
    ranges = {
        API_VERSIONS: (0, 4),
        UPDATE_METADATA: (7, 8),
        **{key: (low, high) for key, (low, high, _) in SERVED.items()},
    }
    keys = tuple(
        types.ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in sorted(ranges.items())
    )
    return construct(types.ApiVersionsResponse, error_code=ErrorCode.none, api_keys=keys, throttle_time=timedelta(0))
