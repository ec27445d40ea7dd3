from __future__ import annotations

import pickle
from importlib.metadata import version

import pytest

from oncelog.client import (
    AuthenticationFailed,
    BrokerRefused,
    ConnectionLost,
    LogTruncated,
    OutcomeUnknown,
    ProducerFenced,
    TopicPartition,
    TransactionFailed,
)
from oncelog.wire import ErrorCode
from oncelog.wire.offered_versions import SOFTWARE_VERSION


@pytest.mark.parametrize(
    "error",
    [
        BrokerRefused(ErrorCode.message_too_large, "producing to orders-0"),
        BrokerRefused(ErrorCode.topic_authorization_failed, "producing to orders-0", "Write on topic orders"),
        AuthenticationFailed("broker:9092 does not accept user 'alice'"),
        TransactionFailed("committing", ErrorCode.invalid_txn_state),
        ProducerFenced("committing"),
        OutcomeUnknown("committing"),
        ConnectionLost("broker:9092: cut", sent=True),
        LogTruncated(TopicPartition("orders", 0), 7, 4),
    ],
)
def test_error_keeps_its_meaning_on_the_way_out_of_a_task(error):
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


def test_failed_fenced_and_unknown_are_no_kinds_of_each_other():
    ends = (TransactionFailed, ProducerFenced, OutcomeUnknown)
    assert all(not issubclass(one, other) for one in ends for other in ends if one is not other)


def test_producer_whose_id_was_forgotten_is_not_said_to_be_taken_over():
    forgotten = ProducerFenced("committing", ErrorCode.invalid_producer_id_mapping)
    assert str(forgotten) == "committing: INVALID_PRODUCER_ID_MAPPING (49)"
    assert "taken the transactional id" in str(ProducerFenced("committing", ErrorCode.invalid_producer_epoch))


def test_client_names_the_version_it_is_installed_as():
    assert version("oncelog") == SOFTWARE_VERSION
