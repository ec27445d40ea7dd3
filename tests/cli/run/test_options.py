"""--option NAME=VALUE of `oncelog run`."""

from __future__ import annotations

import re

import pytest

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.run.options import StatelessArguments, read_options, stateless_arguments

COMMITTED = (
    "without a checkpoint a pipeline goes on from its committed offsets, and only its first start is earliest or latest"
)


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_options_of_the_source_are_read_as_they_are_spelt(has_checkpoint):
    given = ["failOnDataLoss=false", "minpartitions=4", "kafka.client.id=a=b", "startingOffsets=LATEST"]
    read = read_options(given, None, has_checkpoint=has_checkpoint)
    assert read == {
        "failOnDataLoss": "false",
        "minpartitions": "4",
        "kafka.client.id": "a=b",
        "startingOffsets": "LATEST",
    }


def test_max_offsets_is_the_option_of_spark():
    assert read_options([], 7, has_checkpoint=True) == {"maxOffsetsPerTrigger": "7"}


def test_pipeline_without_a_checkpoint_takes_some_as_arguments():
    read = read_options(
        ["maxoffsetspertrigger=5", "IncludeHeaders=TRUE", "startingOffsets=latest", "failOnDataLoss=false"],
        None,
        has_checkpoint=False,
    )
    assert stateless_arguments(read) == StatelessArguments(True, "latest", 5, {"failOnDataLoss": "false"})
    assert stateless_arguments({}) == StatelessArguments(False, "earliest", None, {})


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["failOnDataLoss"], "--option failOnDataLoss: that is not NAME=VALUE, as in failOnDataLoss=false"),
        (["=1"], "--option =1: that is not NAME=VALUE, as in failOnDataLoss=false"),
        ([""], "--option : that is not NAME=VALUE, as in failOnDataLoss=false"),
        (["minPartitions=1", "minpartitions=2"], "--option minpartitions is given twice"),
        (
            ["failOnDatLoss=false"],
            "option failondatloss is not known to this source, and would change nothing; did you mean failOnDataLoss?",
        ),
        (["failOnDataLoss=no"], "option failOnDataLoss has to be true or false, not 'no'"),
        (["maxOffsetsPerTrigger=0"], "option maxOffsetsPerTrigger has to be a whole number greater than 0, not '0'"),
        (["subscribe=a"], "--option subscribe: --from says that"),
        (["kafka.Bootstrap.Servers=h:1"], "--option kafka.Bootstrap.Servers: --bootstrap-server says that"),
        (["kafka.sasl.mechanism=PLAIN"], "--option kafka.sasl.mechanism: --config says that"),
    ],
)
def test_wrong_option_is_refused_in_a_sentence(given, sentence, has_checkpoint):
    with pytest.raises(CommandError) as raised:
        read_options(given, None, has_checkpoint=has_checkpoint)
    assert (raised.value.status, raised.value.sentence) == (ExitStatus.USAGE, sentence)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ('startingOffsets={"t": {"0": 1}}', f"option startingOffsets: {COMMITTED}"),
        ("startingTimestamp=1", f"option startingTimestamp: {COMMITTED}"),
        (
            "minOffsetsPerTrigger=1",
            "option minOffsetsPerTrigger: without a checkpoint there is no trigger that could wait",
        ),
    ],
)
def test_option_that_needs_a_checkpoint_is_refused_without_one(given, sentence):
    read_options([given], None, has_checkpoint=True)
    with pytest.raises(CommandError, match=re.escape(sentence)):
        read_options([given], None, has_checkpoint=False)


def test_limit_that_is_given_twice_is_refused():
    with pytest.raises(CommandError, match="are one limit: give one of them"):
        read_options(["maxOffsetsPerTrigger=3"], 3, has_checkpoint=True)
