"""Finding the classes of messages, which are imported when the first of their kind is needed."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

from oncelog.cluster.messages import CONTROLLED_SHUTDOWN
from oncelog.wire import (
    ErrorCode,
    WireError,
    encode_answer,
    encode_request,
    frame_bytes,
    message_class,
    read_answer_header,
)

PROGRAM = """
import sys
import threading

from oncelog.broker.apis import APIS
from oncelog.wire import message_class

sys.setswitchinterval(1e-6)
both = threading.Barrier(2)
errors = []

def load(kind):
    for api in APIS.values():
        for version in range(api.minimum, api.maximum + 1):
            both.wait()
            try:
                message_class(api.key, version, kind)
            except BaseException as error:
                errors.append(error)

threads = [threading.Thread(target=load, args=(kind,)) for kind in ("request", "response")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(errors), errors[:1])
"""


def test_request_and_answer_that_two_threads_need_first_at_the_same_moment_are_there_for_both():
    """A package of kio imports both, and each of them its package: Python ends one of two imports that wait for each other."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "0 []\n"


@pytest.mark.parametrize("size", [4, 5, 1000])
def test_length_of_a_frame_is_read(size):
    assert frame_bytes(struct.pack(">i", size), 1000) == size


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 3, 1001, 2**31 - 1])
def test_length_that_no_frame_has_is_refused(size):
    with pytest.raises(WireError, match=f"a frame of {size} bytes"):
        frame_bytes(struct.pack(">i", size), 1000)


@pytest.mark.parametrize(("version", "tags"), [(2, b""), (3, b"\0")], ids=["classic", "flexible"])
def test_request_and_answer_have_the_headers_of_their_version(version, tags):
    """KIP-482: header 2 of requests, and 1 of answers, end with tagged fields, and the body does."""
    request = message_class(CONTROLLED_SHUTDOWN, version, "request")(broker_id=1, broker_epoch=2)
    written = b"".join(encode_request(CONTROLLED_SHUTDOWN, version, 9, "me", request))
    payload = struct.pack(">hhih2s", CONTROLLED_SHUTDOWN, version, 9, 2, b"me") + tags + struct.pack(">iq", 1, 2) + tags
    assert written == struct.pack(">i", len(payload)) + payload

    kind = message_class(CONTROLLED_SHUTDOWN, version, "response")
    answer = kind(error_code=ErrorCode.none, remaining_partitions=())
    frame = b"".join(encode_answer(CONTROLLED_SHUTDOWN, version, 9, answer))
    assert frame[4:] == struct.pack(">i", 9) + tags + b"\0\0" + (b"\1\0" if tags else bytes(4))
    assert read_answer_header(kind, frame[4:], 9, "broker 2") == 4 + len(tags)


def test_answer_to_another_request_is_refused_in_the_name_of_who_sent_it():
    kind = message_class(CONTROLLED_SHUTDOWN, 3, "response")
    with pytest.raises(WireError, match="broker 2 answered request 8 instead of 9"):
        read_answer_header(kind, struct.pack(">i", 8) + b"\0", 9, "broker 2")
