"""When the demo kills on a cluster, and whom: the driver as ever, and each part of the cluster at moments that a seed draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from oncelog.cli.demo.kills import Kill, Victim, WireMoment, kills
from oncelog.cli.demo.plan import PARTITIONS, PIPELINES, DemoPipeline, Guarantee
from oncelog.testing.proxy import ApiKey, Point

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
    """Who takes part in such a run. Plain writes have no transactions, and so nobody who coordinates them."""
    if guarantee is Guarantee.EXACTLY_ONCE:
        return ROLES
    return tuple(role for role in ROLES if role is not Victim.TRANSACTION_COORDINATOR)


def cluster_kills(guarantee: Guarantee, seed: int) -> tuple[Kill, ...]:
    """The driver's kills in their order; the seed decides between which of them whom else, in which pipeline, and when."""
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
