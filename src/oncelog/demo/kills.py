"""The kills of the demo: which process, and at which moment of the traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from oncelog.demo.plan import AIRLINES, DEPARTURES, PARTITIONS, PIPELINES, DemoPipeline, Guarantee
from oncelog.testing.proxy import ApiKey, Point


class Victim(Enum):
    """The processes to kill. A broker of a cluster is killed for its role at that moment."""

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
    """The kills with one broker: one for each run of the driver. The broker is killed in the last run."""
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


ROLES = (
    Victim.PARTITION_LEADER,
    Victim.TRANSACTION_COORDINATOR,
    Victim.GROUP_COORDINATOR,
    Victim.CONTROLLER,
    Victim.ZOOKEEPER,
)
EXACTLY_ONCE_MOMENTS = {
    "Produce was sent": WireMoment(ApiKey.PRODUCE, Point.REQUEST, 1),
    "Produce was answered": WireMoment(ApiKey.PRODUCE, Point.ANSWER, 1),
    "TxnOffsetCommit was sent": WireMoment(ApiKey.TXN_OFFSET_COMMIT, Point.REQUEST, 1),
    "TxnOffsetCommit was answered": WireMoment(ApiKey.TXN_OFFSET_COMMIT, Point.ANSWER, 1),
    "EndTxn was sent": WireMoment(ApiKey.END_TXN, Point.REQUEST, 1),
    "EndTxn was answered": WireMoment(ApiKey.END_TXN, Point.ANSWER, 1),
}
AT_LEAST_ONCE_MOMENTS = {
    "Produce was sent": WireMoment(ApiKey.PRODUCE, Point.REQUEST, 1),
    "Produce was answered": WireMoment(ApiKey.PRODUCE, Point.ANSWER, 1),
    "OffsetCommit was sent": WireMoment(ApiKey.OFFSET_COMMIT, Point.REQUEST, 1),
    "OffsetCommit was answered": WireMoment(ApiKey.OFFSET_COMMIT, Point.ANSWER, 1),
}


def roles(guarantee: Guarantee) -> tuple[Victim, ...]:
    """The roles that are killed for one way of writing. Plain writes have no transaction coordinator."""
    if guarantee is Guarantee.EXACTLY_ONCE:
        return ROLES
    return tuple(role for role in ROLES if role is not Victim.TRANSACTION_COORDINATOR)


def cluster_kills(guarantee: Guarantee, seed: int) -> tuple[Kill, ...]:
    """The driver's kills in their order, and between them, as the seed decides, one of each role."""
    random = Random(f"{seed} {guarantee}")
    victims = random.sample(roles(guarantee), len(roles(guarantee)))
    departures_share = random.choice((len(victims) // 2, (len(victims) + 1) // 2))
    shares = (victims[:departures_share], victims[departures_share:])
    moments = EXACTLY_ONCE_MOMENTS if guarantee is Guarantee.EXACTLY_ONCE else AT_LEAST_ONCE_MOMENTS
    drawn: list[Kill] = []
    for pipeline, share in zip(PIPELINES, shares, strict=True):
        mixed = [kill for kill in kills(guarantee) if kill.victim is Victim.DRIVER and kill.pipeline is pipeline]
        for victim in share:
            mixed.insert(random.randint(0, len(mixed)), _drawn(random, victim, pipeline, moments))
        drawn += mixed
    return tuple(drawn)


def _drawn(random: Random, victim: Victim, pipeline: DemoPipeline, moments: Mapping[str, WireMoment]) -> Kill:
    names: Sequence[str] = sorted(moments)
    what = random.choice(names)
    return Kill(victim, pipeline, what, moments[what], partition=random.randrange(PARTITIONS))
