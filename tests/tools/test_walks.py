"""The program that counts the source files of a request: it runs, and a walk ends with the answer."""

from __future__ import annotations

import sys
from functools import cache

from tools import walks


@cache
def found() -> dict[str, list[str]]:
    return walks.walks()


def test_each_request_is_walked_from_its_header_to_its_answer() -> None:
    assert len(found()) == 6
    for request, files in found().items():
        assert files[0] == "broker/dispatch.py", request
        assert "wire/writing.py" in files, request
        assert len(files) == len(set(files)), request
    assert sys.getprofile() is None


def test_the_end_of_a_transaction_is_answered_before_its_markers_go_out() -> None:
    files = found()["EndTxn"]
    assert "log/write_ahead.py" in files, "the decision is durable"
    assert "broker/coordinators/markers.py" not in files
