"""The table at the end, for counts that are made up."""

from __future__ import annotations

from oncelog.cli.demo.brokers import ClusterState
from oncelog.cli.demo.column import Column, Settled
from oncelog.cli.demo.kills import Victim
from oncelog.cli.demo.performance import Performance
from oncelog.cli.demo.plan import Guarantee
from oncelog.cli.demo.show import as_json, print_performance
from oncelog.cli.demo.tally import Tally


def column(guarantee: Guarantee, kills: dict[Victim, int], **counts: int) -> Column:
    settled = Settled(guarantee, [], {}, kills, unplanned_restarts=0)
    return Column(settled, Tally(expected=40, **counts))


CLUSTER = ClusterState(7, 0, 0, {"ZooKeeper": 158_600_000, "broker 1": 54_000_000})
ON_A_CLUSTER = Performance(
    [
        column(Guarantee.EXACTLY_ONCE, {Victim.TRANSACTION_COORDINATOR: 1, Victim.DRIVER: 5}),
        column(Guarantee.AT_LEAST_ONCE, {Victim.DRIVER: 5}, duplicated=12),
    ],
    CLUSTER,
)


def lines(capsys, performance: Performance) -> list[str]:
    print_performance(performance)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_victim_of_one_column_has_a_row_with_zero_in_the_other(capsys):
    shown = lines(capsys, ON_A_CLUSTER)
    assert shown[0] == "EXACTLY-ONCE AT-LEAST-ONCE"
    assert "duplicated 0 12" in shown
    assert "driver killed with -9 5 5" in shown
    assert "transaction coordinator killed with -9 1 0" in shown
    assert not [line for line in shown if line.startswith("broker killed")]


def test_state_of_a_cluster_is_shown_below_and_nothing_of_it_where_a_broker_is_alone(capsys):
    shown = lines(capsys, ON_A_CLUSTER)
    assert shown[-8:] == [
        "UNDER REPLICATED OFFLINE",
        "0 0",
        "",
        "MEMBER RESIDENT MB",
        "ZooKeeper 159",
        "broker 1 54",
        "",
        "seed 7",
    ]
    alone = Performance([column(Guarantee.EXACTLY_ONCE, {Victim.BROKER: 1})], None)
    assert lines(capsys, alone)[-1].startswith("* Plain writes are never aborted")


def test_script_gets_the_same():
    found = as_json(ON_A_CLUSTER)
    assert found["exactly-once"] == {
        "expected": 40,
        "lost": 0,
        "duplicated": 0,
        "unexpected": 0,
        "out_of_order": 0,
        "aborted_seen": 0,
        "partial_batches": 0,
        "transaction_coordinator_kills": 1,
        "driver_kills": 5,
        "unplanned_restarts": 0,
    }
    assert found["cluster"] == {
        "seed": 7,
        "under_replicated": 0,
        "offline": 0,
        "resident_bytes": {"ZooKeeper": 158_600_000, "broker 1": 54_000_000},
    }
