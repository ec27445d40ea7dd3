"""Frames and messages of the Kafka protocol, over the kio codec."""

from oncelog.wire.errors import ErrorCode, WireError
from oncelog.wire.messages import decode, encode, encode_frame, message_class, message_module

__all__ = ["ErrorCode", "WireError", "decode", "encode", "encode_frame", "message_class", "message_module"]
