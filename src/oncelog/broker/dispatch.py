"""The way of a request through the broker: read it, hand it to its handler, write the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from types import CoroutineType
from typing import Any
from uuid import UUID

from typing_extensions import Buffer

from oncelog.broker import request_log
from oncelog.broker.access import Access
from oncelog.broker.apis import ClusterAction, ServedApi
from oncelog.broker.handlers import api_versions
from oncelog.broker.readiness import StartProgress
from oncelog.broker.request import Peer, Request
from oncelog.broker.slices import NO_MEMORY, beside
from oncelog.coordination import Promise, begin, sleep, start
from oncelog.environment import Clock, DiskError, RefusedError, Workers
from oncelog.wire import (
    ErrorCode,
    RequestHeader,
    TooManyItemsError,
    WireError,
    decode_request,
    encode_answer,
    message_class,
    read_request_header,
    skip_tagged_fields,
)

Answer = list[Buffer] | None
ITEMS_AT_ONCE = 2000
"""A request with more of them is read, and its answer written, beside the event loop."""
KEPT_BYTES_MIN = 256 * 1024
"""A smaller one that is read later is copied: it keeps what else has come with it, which may be as much."""


class Dispatch:
    """Finds the handler of each request. Handlers take their arguments from `parts`; `fail` is told of a disk that fails."""

    __slots__ = ("_access", "_apis", "_clock", "_fail", "_handlers", "_has_failed", "_parts", "_progress", "_workers")

    def __init__(
        self,
        parts: Sequence[object],
        apis: Mapping[int, ServedApi],
        access: Access,
        clock: Clock,
        workers: Workers,
        progress: StartProgress,
        fail: Callable[[BaseException], None],
        has_failed: Callable[[], bool],
    ) -> None:
        self._parts = parts
        self._apis = apis
        self._handlers: dict[int, Callable[[Request], Any]] = {}
        self._access = access
        self._clock = clock
        self._workers = workers
        self._progress = progress
        self._fail = fail
        self._has_failed = has_failed

    def receive(self, connection: Peer, frame: memoryview) -> Answer | Promise[Answer]:
        """Take one request, without its length, and give its answer, with its length; later if the request has to wait.

        The answer is None for a request that has none. A request that waits is a task, which its connection may end.
        Raises WireError for bytes that are no request of a served version.
        """
        if self._has_failed():
            return Promise()
        header = read_request_header(frame)
        api = self._apis.get(header.api_key)
        if api is None or not api.minimum <= header.version <= api.maximum:
            return self._refuse(header)
        request_class = message_class(header.api_key, header.version, "request")
        position = skip_tagged_fields(frame, header.end) if request_class.__flexible__ else header.end
        arrived_ms = self._clock.monotonic_ms()
        try:
            body = decode_request(request_class, frame, position, ITEMS_AT_ONCE)
        except MemoryError:
            connection.close(_refusal(api, NO_MEMORY))
            return None
        except TooManyItemsError:
            request = Request(header.api_key, header.version, header.client_id, None, connection, arrived_ms)
            if len(frame) < KEPT_BYTES_MIN:
                frame = memoryview(bytes(frame))
            decode = partial(_decoded, request_class, frame, position)
            return start(self._receive_large(api, request, header.correlation_id, decode))
        request = Request(header.api_key, header.version, header.client_id, body, connection, arrived_ms)
        if self._progress.reached < api.needs:
            return start(self._receive_early(api, request, header.correlation_id))
        return begin(self._serve(api, request, header.correlation_id))

    async def _receive_large(
        self, api: ServedApi, request: Request, correlation_id: int, decode: Callable[[], Any]
    ) -> Answer:
        """Read a request of many items, and write its answer, beside those that are served meanwhile."""
        try:
            body = await beside(self._workers, decode, is_long=False)
        except RefusedError as refused:
            request.connection.close(_refusal(api, refused))
            return None
        if isinstance(body, WireError):
            request.connection.close(str(body))
            return None
        request.body = body
        if self._progress.reached < api.needs:
            await self._ready_for(api)
        return await self._serve(api, request, correlation_id, is_large=True)

    async def _receive_early(self, api: ServedApi, request: Request, correlation_id: int) -> Answer:
        """Hold the request until the broker is ready for it: the client would only ask again."""
        await self._ready_for(api)
        return await self._serve(api, request, correlation_id)

    async def _ready_for(self, api: ServedApi) -> None:
        await self._progress.until(api.needs)
        # All of them are released at once, in the middle of a start, and each has a turn of its own.
        await sleep(self._clock, 0)

    async def _encoded_beside(self, api: ServedApi, request: Request, correlation_id: int, body: Any) -> Answer:
        encode = partial(self._encoded, api, request, correlation_id, body)
        return await beside(self._workers, encode, is_long=False)

    async def _serve(self, api: ServedApi, request: Request, correlation_id: int, *, is_large: bool = False) -> Answer:
        try:
            body = self._handle(api, request)
            if isinstance(body, CoroutineType):
                body = await body
        except DiskError as error:
            self._fail(error)
            if not self._has_failed():
                # The client can ask again.
                request.connection.close()
            return await Promise[Answer]()
        except RefusedError as refused:
            # There is no error code for it: the client connects and asks again.
            request.connection.close(_refusal(api, refused))
            return None
        except Exception as bug:
            bug.add_note(f"in {api.name} v{request.version}")
            raise
        if not is_large and not _has_many_items(body):
            return self._encoded(api, request, correlation_id, body)
        try:
            return await self._encoded_beside(api, request, correlation_id, body)
        except RefusedError as refused:
            request.connection.close(_refusal(api, refused))
            return None

    def _handle(self, api: ServedApi, request: Request) -> Any:
        if api.cluster_action is ClusterAction.ALL and not self._access.is_broker(request.connection):
            self._access.refused(api.name, request.connection)
            return api.refusal(request, ErrorCode.cluster_authorization_failed)
        handle = self._handlers.get(api.key)
        if handle is None:
            handle = self._handlers[api.key] = api.bind(self._parts)
        return handle(request)

    def _encoded(self, api: ServedApi, request: Request, correlation_id: int, body: Any) -> Answer:
        if request_log.is_logged():
            took_ms = self._clock.monotonic_ms() - request.arrived_ms
            request_log.log_answer(api.name, request, body, took_ms, self._topic_name)
        try:
            return None if body is None else encode_answer(api.key, request.version, correlation_id, body)
        except Exception as bug:
            bug.add_note(f"in the answer to {api.name} v{request.version}")
            raise

    def _topic_name(self, topic_id: UUID) -> str | None:
        """As long as there is such a topic, and the broker has come so far that it knows."""
        topics = getattr(self._parts[0], "topics", None)
        topic = None if topics is None else topics.with_id(topic_id)
        return None if topic is None else topic.name

    def _refuse(self, header: RequestHeader) -> Answer:
        if header.api_key == api_versions.API_KEY:
            return encode_answer(header.api_key, 0, header.correlation_id, api_versions.unsupported_version(self._apis))
        raise WireError(f"API {header.api_key} is not served in version {header.version}")


def _refusal(api: ServedApi, refused: RefusedError | str) -> str:
    return f"its {api.name} request is refused: {refused}"


def _decoded(request_class: Any, frame: memoryview, position: int) -> Any:
    try:
        return decode_request(request_class, frame, position)
    except WireError as error:
        return error


def _has_many_items(body: Any) -> bool:
    """True if encoding an answer would block the event loop. Most arrays in arrays answer requests that are large themselves."""
    if body is None:
        return False
    answer_class: Any = type(body)
    for name in _arrays(answer_class):
        items = getattr(body, name)
        if isinstance(items, tuple) and len(items) > ITEMS_AT_ONCE:
            return True
    return False


@cache
def _arrays(answer_class: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(answer_class) if "tuple" in str(one.type))
