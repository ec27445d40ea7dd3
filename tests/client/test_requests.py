from __future__ import annotations

import pytest

from oncelog.client import requests
from oncelog.client.requests import ApiRequest


def test_request_leaves_out_what_an_older_version_does_not_have():
    request = ApiRequest(requests.METADATA, {"topics": [{"name": "orders"}], "allow_auto_topic_creation": False})
    assert request.message(1).topics[0].name == "orders"
    assert request.message(12).allow_auto_topic_creation is False


def test_field_that_no_version_has_is_a_bug():
    with pytest.raises(AssertionError):
        ApiRequest(requests.METADATA, {"topiks": []}).message(12)


def test_optional_array_may_be_absent():
    assert ApiRequest(requests.METADATA, {"topics": None}).message(12).topics is None


def test_required_field_without_a_value_is_a_bug():
    with pytest.raises(TypeError):
        ApiRequest(requests.END_TXN, {"transactional_id": "id"}).message(5)
