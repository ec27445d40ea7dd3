"""A member of the classic protocol whose coordinator a test makes up, and whose pump it runs."""

from __future__ import annotations

from types import SimpleNamespace

from oncelog.client.consumer.fetching import FetchSettings
from oncelog.client.consumer.offsets import parse_reset
from oncelog.client.groups.assignors import decode_subscription, encode_assignment
from oncelog.client.groups.consumer import GroupConsumer
from oncelog.client.groups.settings import Callbacks, GroupSettings
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import Wait
from oncelog.client.values import TopicPartition
from oncelog.wire import ErrorCode
from tests.client.scripted import HELD, HERE, SETTINGS, ScriptedTransport, lost

TOPIC = "orders"
MINE = TopicPartition(TOPIC, 0)


class Coordinator:
    """Takes one member in. `codes` are the errors that the next answers of an API carry instead, None a lost connection.

    An answer that is HELD does not come.
    """

    def __init__(self, **codes) -> None:
        self.codes = {name: list(several) for name, several in codes.items()}
        self.generation = 0
        self.joined = []
        self.seen = []
        self.errors = {}

    def answer(self, request):
        name = request.api.name
        self.seen.append(name)
        codes = self.codes.get(name, [])
        code = codes.pop(0) if codes else 0
        if code is None:
            return lost()
        if code is HELD:
            return HELD
        return getattr(self, name.lower())(request.fields, ErrorCode(code))

    def findcoordinator(self, _, error):
        return SimpleNamespace(error_code=error, host=HERE.host, port=HERE.port)

    def metadata(self, *_):
        return self.described([TOPIC], None)

    def described(self, known, asked, *, node_count=1):
        """The answer of a node that knows these topics. `asked` are the names that it is asked for, or None for all."""
        partition = SimpleNamespace(
            error_code=ErrorCode.none, partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        topics = []
        for name in known if asked is None else asked:
            error = self.errors.get(name, ErrorCode.none) if name in known else ErrorCode.unknown_topic_or_partition
            partitions = [] if error is not ErrorCode.none else [partition]
            topics.append(SimpleNamespace(error_code=error, name=name, is_internal=False, partitions=partitions))
        nodes = [
            SimpleNamespace(node_id=node, host=HERE.host, port=HERE.port + node - 1, rack=None)
            for node in range(1, node_count + 1)
        ]
        return SimpleNamespace(controller_id=1, brokers=nodes, topics=topics)

    def joingroup(self, fields, error):
        self.joined.append(fields)
        if error is not ErrorCode.none:
            return SimpleNamespace(error_code=error, member_id="given")
        self.generation += 1
        metadata = fields["protocols"][0]["metadata"]
        member = SimpleNamespace(member_id="given", group_instance_id=None, metadata=metadata)
        return SimpleNamespace(
            error_code=error,
            member_id="given",
            generation_id=self.generation,
            leader="given",
            protocol_name=fields["protocols"][0]["name"],
            members=[member],
        )

    def syncgroup(self, fields, error):
        (given,) = fields["assignments"] or [{"assignment": encode_assignment([])}]
        return SimpleNamespace(error_code=error, assignment=given["assignment"])

    def heartbeat(self, _, error):
        return SimpleNamespace(error_code=error)

    def fetch(self, *_):
        return SimpleNamespace(responses=[])

    def leavegroup(self, _, error):
        return SimpleNamespace(error_code=error)

    def offsetfetch(self, *_):
        partition = SimpleNamespace(
            partition_index=0, committed_offset=5, committed_leader_epoch=-1, metadata="", error_code=ErrorCode.none
        )
        return SimpleNamespace(error_code=ErrorCode.none, topics=[SimpleNamespace(name=TOPIC, partitions=[partition])])

    def offsetcommit(self, fields, error):
        self.joined.append(fields)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=error)])])


class Pumped:
    """A consumer whose pump runs until it waits for something that only a poll could bring."""

    def __init__(self, coordinator, *assignors, auto_commit_interval_ms=None, subscribes=True) -> None:
        self.coordinator = coordinator
        self.transport = ScriptedTransport(coordinator.answer)
        self.told = []
        settings = GroupSettings("group", assignors=assignors or ("range",), heartbeat_interval_ms=10)
        self.core = GroupConsumer(
            Cluster(SETTINGS),
            FetchSettings(),
            settings,
            reset=parse_reset("earliest"),
            include_control=False,
            auto_commit_interval_ms=auto_commit_interval_ms,
            wake_poll=lambda: None,
            wake_member=lambda: None,
            new_member_id="",
        )
        tell = {name: lambda partitions, name=name: self.told.append((name, partitions)) for name in ("+", "-", "!")}
        if subscribes:
            self.core.subscribe([TOPIC], Callbacks(tell["+"], tell["-"], tell["!"]))
        self._pump = self.core.member.run()
        self._effect = self._pump.send(None)

    def pump(self, is_so) -> None:
        """Run the pump until it is so."""
        for _ in range(1000):
            if is_so():
                return
            self._effect = self._pump.send(self._perform(self._effect))
        raise AssertionError("it did not come about")

    def _perform(self, effect):
        is_idle = isinstance(effect, Wait) and effect.until_woken and effect.timeout_ms is None and not effect.awaited
        return [] if is_idle else self.transport._perform(effect)

    def poll(self) -> None:
        self.transport.run(self.core.poll(0, 10))

    def join(self) -> None:
        """Become a member, and hear of the partition."""
        self.poll()
        self.pump(lambda: not self.core.member.handover.is_complete)
        self.poll()
        assert self.core.assignment == {MINE}


def decode_topics(joined):
    """The topics that a JoinGroup request asks for."""
    return decode_subscription(joined["protocols"][0]["metadata"], None).topics
