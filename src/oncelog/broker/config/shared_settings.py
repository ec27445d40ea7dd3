"""The settings of a cluster, not of a single broker: every broker has to promise its clients the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.broker.config.configuration import names_of_one_setting
from oncelog.broker.config.coordinator_settings import COORDINATOR_SETTINGS
from oncelog.broker.config.log_settings import LOG_SETTINGS
from oncelog.broker.config.setting import Effect, Setting
from oncelog.broker.config.settings import BROKER_SETTINGS

AGREED = frozenset(
    {
        "default.replication.factor",
        "min.insync.replicas",
        "num.partitions",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "unclean.leader.election.enable",
    }
)
"""How many copies there are, how many are needed, who may lead, and how a topic is made: a cluster has one value of each."""


def _is_of_topics(setting: Setting) -> bool:
    return setting.topic_name is not None and setting.effect is Effect.FULL


HANDED_ON = (
    frozenset(setting.name for setting in (*LOG_SETTINGS, *COORDINATOR_SETTINGS))
    | frozenset(name for name, setting in BROKER_SETTINGS.items() if _is_of_topics(setting))
    | {
        "auto.leader.rebalance.enable",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
    }
) - AGREED
"""Settings that decide about the data of topics, groups and transactions, whichever broker leads them. A broker that was not
given them takes those that others were given last. Brokers may differ in them, as they do during a rolling restart.
"""
SHARED = AGREED | HANDED_ON


def without_other_names(values: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """`values` without these settings, also where they are there under names with other units."""
    left_out = {other for name in names for other in names_of_one_setting(name)}
    return {name: text for name, text in values.items() if name not in left_out}
