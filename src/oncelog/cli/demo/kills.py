"""When the demo kills, and whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from oncelog.cli.demo.plan import AIRLINES, DEPARTURES, DemoPipeline, Guarantee
from oncelog.testing.proxy import ApiKey, Point


class Victim(Enum):
    """A broker of a cluster is killed for what it is at that moment."""

    DRIVER = "driver"
    BROKER = "broker"
    PARTITION_LEADER = "leader of a partition"
    TRANSACTION_COORDINATOR = "transaction coordinator"
    GROUP_COORDINATOR = "group coordinator"
    CONTROLLER = "controller"
    ZOOKEEPER = "ZooKeeper"


@dataclass(frozen=True, slots=True)
class WireMoment:
    """A place on the wire: the nth request of one API, or the nth answer to one."""

    api_key: ApiKey
    point: Point
    nth: int


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill -9: at `moment` of a run of the driver, counted from the first write of `pipeline`.

    `after` is a moment that has to pass first, so that a kill falls into the middle of a micro-batch. `partition` is the one
    of the output topic whose leader is killed.
    """

    victim: Victim
    pipeline: DemoPipeline
    what: str
    moment: WireMoment
    after: WireMoment | None = None
    partition: int = 0


def kills(guarantee: Guarantee) -> tuple[Kill, ...]:
    """Of a broker that is alone: one for each run of the driver. The broker's comes in the last run, which ends by itself."""
    return EXACTLY_ONCE_KILLS if guarantee is Guarantee.EXACTLY_ONCE else AT_LEAST_ONCE_KILLS


EXACTLY_ONCE_KILLS = (
    Kill(
        Victim.DRIVER,
        DEPARTURES,
        "some records had been produced",
        WireMoment(ApiKey.PRODUCE, Point.ANSWER, 2),
        after=WireMoment(ApiKey.END_TXN, Point.ANSWER, 1),
    ),
    Kill(Victim.DRIVER, DEPARTURES, "the offsets were in", WireMoment(ApiKey.TXN_OFFSET_COMMIT, Point.ANSWER, 2)),
    Kill(Victim.DRIVER, DEPARTURES, "EndTxn was sent, not answered", WireMoment(ApiKey.END_TXN, Point.ANSWER, 2)),
    Kill(
        Victim.DRIVER,
        AIRLINES,
        "records had been produced",
        WireMoment(ApiKey.PRODUCE, Point.ANSWER, 1),
        after=WireMoment(ApiKey.END_TXN, Point.ANSWER, 1),
    ),
    Kill(Victim.DRIVER, AIRLINES, "EndTxn was sent, not answered", WireMoment(ApiKey.END_TXN, Point.ANSWER, 2)),
    Kill(Victim.BROKER, AIRLINES, "EndTxn was done, not answered", WireMoment(ApiKey.END_TXN, Point.ANSWER, 1)),
)

AT_LEAST_ONCE_KILLS = (
    Kill(
        Victim.DRIVER,
        DEPARTURES,
        "some records had been produced",
        WireMoment(ApiKey.PRODUCE, Point.ANSWER, 2),
        after=WireMoment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 1),
    ),
    Kill(
        Victim.DRIVER, DEPARTURES, "all records had been produced", WireMoment(ApiKey.OFFSET_COMMIT, Point.REQUEST, 2)
    ),
    Kill(Victim.DRIVER, DEPARTURES, "the offsets were in", WireMoment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 2)),
    Kill(
        Victim.DRIVER,
        AIRLINES,
        "records had been produced",
        WireMoment(ApiKey.PRODUCE, Point.ANSWER, 1),
        after=WireMoment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 1),
    ),
    Kill(Victim.DRIVER, AIRLINES, "the offsets were in", WireMoment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 2)),
    Kill(Victim.BROKER, AIRLINES, "the offsets were in", WireMoment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 1)),
)
