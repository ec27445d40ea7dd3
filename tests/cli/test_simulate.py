"""`oncelog simulate`."""

from __future__ import annotations

import json

import pytest

from oncelog.cli.application import run_application


def test_seeds_are_run_and_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_application(["simulate", "--seeds", "3..4", "--minutes", "0.1", "--check-determinism", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == 2
    assert found["failure"] is None
    assert found["transactions_committed"] > 0


def test_a_run_without_faults_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_application(["simulate", "--seed", "3", "--minutes", "0.1", "--only", "-"]) == 0
    assert " x " not in capsys.readouterr().out


def test_a_cluster_is_run_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_application(["simulate", "--cluster", "--seed", "3", "--minutes", "0.05", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failure"] is None
    assert found["broker_starts"] >= 3


@pytest.mark.parametrize(
    "arguments",
    [[], ["--seed", "1", "--seeds", "2"], ["--seeds", "4..3"], ["--seeds", "many"], ["--seed", "1", "--without", "a"]],
)
def test_wrong_usage_is_refused_with_a_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_application(["simulate", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["inf", "nan", "0.01"])
def test_time_that_is_none_is_wrong_usage(cli, minutes):
    assert cli("simulate", "--seed", "1", "--minutes", minutes).status == 2
