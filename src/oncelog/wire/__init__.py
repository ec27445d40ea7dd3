"""Frames and messages of the Kafka protocol, over the kio codec."""

from oncelog.wire.errors import ErrorCode, TooManyItemsError, WireError
from oncelog.wire.frames import (
    FRAME_LENGTH,
    RequestHeader,
    encode_answer,
    encode_request,
    frame_bytes,
    read_answer_header,
    read_request_header,
    skip_tagged_fields,
)
from oncelog.wire.messages import (
    api_name,
    construct,
    decode,
    decode_answer,
    decode_request,
    encode,
    encode_frame,
    load_module,
    message_class,
    message_module,
    prepare,
    register_messages,
)
from oncelog.wire.writing import BytesInParts, EncodedItems, unsigned_varint

__all__ = [
    "FRAME_LENGTH",
    "BytesInParts",
    "EncodedItems",
    "ErrorCode",
    "RequestHeader",
    "TooManyItemsError",
    "WireError",
    "api_name",
    "construct",
    "decode",
    "decode_answer",
    "decode_request",
    "encode",
    "encode_answer",
    "encode_frame",
    "encode_request",
    "frame_bytes",
    "load_module",
    "message_class",
    "message_module",
    "prepare",
    "read_answer_header",
    "read_request_header",
    "register_messages",
    "skip_tagged_fields",
    "unsigned_varint",
]
