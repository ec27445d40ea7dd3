"""The settings of consumer groups (KIP-848)."""

from __future__ import annotations

from oncelog.broker.config.setting import INT, Setting
from oncelog.groups import MigrationPolicy

PROTOCOLS = ("classic", "consumer", "streams", "share")
ASSIGNORS = ("uniform", "range")
SESSION, HEARTBEAT, INTERVAL = "session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"
TIMES = (SESSION, HEARTBEAT, INTERVAL)
"""A broker sets them for every group, under group.consumer.*, and a group for itself, under consumer.*."""


def _between(what: str, default: int, lowest: int, highest: int, minimum: int, help: str) -> tuple[Setting, ...]:
    """A setting, and the two between which it has to be."""
    return (
        Setting(name=f"group.consumer.{what}", default=default, minimum=minimum, maximum=INT, help=help),
        Setting(
            name=f"group.consumer.min.{what}",
            default=lowest,
            minimum=minimum,
            maximum=INT,
            help=f"The least that group.consumer.{what} may be.",
        ),
        Setting(
            name=f"group.consumer.max.{what}",
            default=highest,
            minimum=minimum,
            maximum=INT,
            help=f"The most that group.consumer.{what} may be.",
        ),
    )


CONSUMER_GROUP_SETTINGS = (
    Setting(
        name="group.coordinator.rebalance.protocols",
        default="classic,consumer,streams",
        type="list",
        choices=PROTOCOLS,
        help="Without consumer, there are no consumer groups of KIP-848. The other protocols are there or not, whatever it says.",
    ),
    *_between(
        SESSION, 45_000, 45_000, 60_000, 1, "A member of a consumer group that is silent for this time is taken out."
    ),
    *_between(HEARTBEAT, 5_000, 5_000, 15_000, 1, "How often members of a consumer group are to be heard from."),
    *_between(
        INTERVAL,
        1_000,
        0,
        15_000,
        0,
        "Time between two assignments of a consumer group; what changes meanwhile is one.",
    ),
    Setting(
        name="group.consumer.max.size",
        default=INT,
        minimum=1,
        maximum=INT,
        help="The most members that a consumer group may have.",
    ),
    Setting(
        name="group.consumer.assignors",
        default=",".join(ASSIGNORS),
        type="list",
        choices=ASSIGNORS,
        checks=lambda value: None if value else "it names one assignor at least",
        help="What may be asked for to assign partitions; the first is that of members that ask for none.",
    ),
    Setting(
        name="group.consumer.migration.policy",
        default=MigrationPolicy.BIDIRECTIONAL.value,
        choices=tuple(policy.value for policy in MigrationPolicy),
        help="Which way a group with members may change between the classic and the consumer protocol.",
    ),
)
