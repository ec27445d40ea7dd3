"""A broker that was alone becomes the first one of a cluster, whatever stops the operator who makes it that."""

from __future__ import annotations

from datetime import timedelta
from struct import pack
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from harness.consumer_group_requests import HEARTBEAT, beat_fields, join_fields
from harness.conversion_in_memory import BROKER_ID, DIRECTORY, AskedBroker, ConversionInMemory
from harness.transaction_in_memory import (
    GROUP,
    TOPIC,
    TV1,
    TV2,
    ProducerInMemory,
    committed_offset,
    make_topic,
    visible,
)
from oncelog.broker.coordinators.loading import journal_state
from oncelog.broker.storage.journal import FILE_NAME, Journal, TopicDeleted, decode_line
from oncelog.cluster.conversion import ConversionRefusedError, Converted
from oncelog.cluster.zookeeper.session import Create, Delete
from oncelog.cluster.zookeeper.znodes import (
    AssignedReplicas,
    PartitionStateZnode,
    TopicZnode,
    decode_config,
    decode_partition_state,
    decode_producer_id_block,
    decode_topic,
    encode_cluster_id,
    paths,
)
from oncelog.environment import DirectoryInUseError, DiskError
from oncelog.log import write_topic_id

NONE = ErrorCode.none
MINUTE = timedelta(minutes=1)
TOPICS = {"__consumer_offsets", "__transaction_state", TOPIC}
PARTITIONS = 6
LAST_WRITES = 3
LEADER_EPOCH = 12
"""Where a batch has it."""


@pytest.fixture
def world() -> ConversionInMemory:
    return used_world()


def used_world(seed: int = 0, *more_directories: str) -> ConversionInMemory:
    """A broker that was alone and stopped cleanly: it has a topic, a committed transaction, and one that is open."""
    world = ConversionInMemory(seed, (DIRECTORY, *more_directories))
    world.start_alone()
    make_topic(world.broker)
    world.producer = ProducerInMemory(world.broker, TV1)
    world.producer.write("committed", 3)
    world.producer.end(committed=True)
    world.producer.write("open", 7)
    world.stop_alone()
    return world


def check_goes_on(world: ConversionInMemory) -> None:
    """Everything that the broker had is there, and what was under way comes to its end."""
    world.start_member()
    broker, producer = world.broker, world.producer
    assert visible(broker, 0) == visible(broker, 1) == ["committed"]
    producer.end(committed=True)
    world.rest(500)
    assert visible(broker, 0) == visible(broker, 1) == ["committed", "open"]
    assert committed_offset(broker) == 7
    producer.write("next", 9)
    producer.end(committed=True)
    world.rest(500)
    assert visible(broker, 1) == ["committed", "open", "next"]
    assert {topic.name for topic in broker.core.topics} == TOPICS


def interrupt(world: ConversionInMemory, requests_left: int) -> None:
    """End an attempt so many requests before its end."""
    twin = used_world()
    twin.convert()
    assert world.convert(twin.operator.requests - requests_left) is None
    world.disk.kill()


def state_of(world: ConversionInMemory, topic: str = TOPIC, index: int = 0) -> PartitionStateZnode:
    data = world.data(paths.partition_state(topic, index))
    assert data is not None
    return decode_partition_state(topic, index, data)


def journal_of(world: ConversionInMemory):
    lines = world.disk.read_file(f"{DIRECTORY}/{FILE_NAME}").splitlines()
    return journal_state(record for line in lines if (record := decode_line(line)) is not None)


def alter(broker: AskedBroker, kind: int, name: str, **configs: str | None) -> None:
    entries = [
        {"name": key.replace("_", "."), "config_operation": int(value is None), "value": value}
        for key, value in configs.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    answer = broker.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code is NONE, answer
    broker.settle()


def test_first_broker_of_a_cluster_goes_on_with_all_that_it_had(world: ConversionInMemory) -> None:
    converted = world.convert()
    assert converted == Converted(converted.cluster_id, BROKER_ID, len(TOPICS), PARTITIONS, is_new=True)
    check_goes_on(world)
    assert world.broker.core.cluster_id == converted.cluster_id


def test_transaction_of_the_second_generation_ends_as_one_of_the_first(world: ConversionInMemory) -> None:
    world.start_alone()
    producer = ProducerInMemory(world.broker, TV2, "second")
    producer.write("of the second", 11)
    world.stop_alone()
    world.convert()
    world.start_member()
    producer.protocol = TV1
    world.producer.end(committed=False)
    producer.end(committed=True)
    world.rest(500)
    assert visible(world.broker, 0) == ["committed", "of the second"]
    assert committed_offset(world.broker) == 11
    producer.write("of the first", 12)
    producer.end(committed=True)
    world.rest(500)
    assert visible(world.broker, 0) == ["committed", "of the second", "of the first"]


def test_zookeeper_has_what_the_journal_had(world: ConversionInMemory) -> None:
    world.start_alone()
    alter(world.broker, 2, TOPIC, retention_ms="7200000")
    alter(world.broker, 2, "__consumer_offsets", cleanup_policy=None)
    alter(world.broker, 4, "", log_retention_ms="3600000")
    alter(world.broker, 4, "1", log_cleaner_backoff_ms="17")
    epoch = world.broker.core.leader_epoch
    topic_id = world.broker.core.topics.named(TOPIC).topic_id
    world.stop_alone()
    given_out = journal_of(world).reserved_producer_ids
    world.convert()
    assert decode_topic(TOPIC, world.data(paths.topic(TOPIC))) == TopicZnode(
        topic_id, {0: AssignedReplicas((1,)), 1: AssignedReplicas((1,))}
    )
    assert state_of(world) == PartitionStateZnode(0, 1, epoch + 1, (1,))
    configs = {name: decode_config("topics", name, world.data(paths.config("topics", name))) for name in TOPICS}
    assert configs[TOPIC] == {"retention.ms": "7200000"}
    assert (
        configs["__consumer_offsets"]["cleanup.policy"] == configs["__transaction_state"]["cleanup.policy"] == "compact"
    )
    brokers = {
        name: decode_config("brokers", name, world.data(paths.config("brokers", name))) for name in ("<default>", "1")
    }
    assert brokers == {"<default>": {"log.retention.ms": "3600000"}, "1": {"log.cleaner.backoff.ms": "17"}}
    block = decode_producer_id_block(world.data(paths.PRODUCER_ID_BLOCK))
    assert block.last + 1 == given_out > 0
    world.start_member()
    assert world.broker.core.topics.named(TOPIC).configs == {"retention.ms": "7200000"}
    assert world.broker.core.settings.value("log.retention.ms") == 3600000
    assert world.broker.core.topics.partition(TOPIC, 0).leader_epoch >= epoch + 1
    fresh = ProducerInMemory(world.broker, TV1, "fresh")
    assert fresh.producer_id >= given_out


def test_kill_after_any_request_is_made_good_by_the_next_attempt() -> None:
    requests = 0
    while (world := used_world()).convert(requests) is None:
        world.disk.kill()
        assert not journal_of(world).is_converted
        converted = world.convert()
        assert converted is not None
        assert converted.is_new
        if requests % 5 == 0:
            check_goes_on(world)
        requests += 1
    assert requests == world.operator.requests > 60


@pytest.mark.parametrize("loses_power", [False, True], ids=["killed", "power cut"])
def test_end_at_any_change_of_the_disk_is_made_good_by_the_next_attempt(*, loses_power: bool) -> None:
    changes = 0
    news: list[bool] = []
    while True:
        world = used_world()
        world.disk.operations_left = changes
        if world.convert() is not None:
            break
        if loses_power:
            world.disk.crash()
        else:
            world.disk.kill()
        converted = world.convert()
        assert converted is not None
        news.append(converted.is_new)
        check_goes_on(world)
        changes += 1
    assert len(news) >= LAST_WRITES
    assert news[0]


def test_what_is_left_of_a_deleted_topic_does_not_come_back_with_the_power() -> None:
    """What a member finds of a topic that nobody knows it takes for a journal that is damaged."""
    for seed in range(8):
        world = used_world(seed, "/more")
        journal = Journal(world.disk, DIRECTORY, lambda error: None)
        journal.append_now(TopicDeleted(name="gone"))
        world.disk.make_directory("/more/gone-0")
        write_topic_id(world.disk, "/more/gone-0/partition.metadata", UUID(int=9))
        world.disk.commit_names()
        assert world.convert().is_new
        world.disk.crash()
        check_goes_on(world)


def test_levels_of_features_do_not_come_along(world: ConversionInMemory) -> None:
    """A cluster over ZooKeeper knows of no transaction.version."""
    world.start_alone()
    update = {"feature": "transaction.version", "max_version_level": 1, "upgrade_type": 3}
    answer = world.broker.ask("update_features", 1, timeout=MINUTE, feature_updates=[update], validate_only=False)
    assert answer.error_code is NONE, answer
    world.broker.settle()
    assert world.broker.core.features.levels["transaction.version"] == 1
    world.stop_alone()
    world.convert()
    world.start_member()
    assert world.broker.core.features.levels == {}


def test_attempt_after_the_last_one_finds_it_done(world: ConversionInMemory) -> None:
    first = world.convert()
    again = world.convert()
    assert again == Converted(first.cluster_id, BROKER_ID, len(TOPICS), PARTITIONS, is_new=False)
    check_goes_on(world)


def test_broker_that_went_on_alone_after_an_attempt_is_written_as_it_is_now(world: ConversionInMemory) -> None:
    interrupt(world, 10)
    world.start_alone()
    alter(world.broker, 2, TOPIC, retention_ms="7200000")
    epoch = world.broker.core.leader_epoch
    world.stop_alone()
    world.convert()
    assert state_of(world).leader_epoch == epoch + 1
    assert decode_config("topics", TOPIC, world.data(paths.config("topics", TOPIC))) == {"retention.ms": "7200000"}
    check_goes_on(world)


def test_lost_connection_and_lost_session_do_no_harm(world: ConversionInMemory) -> None:
    def disturb(request: int) -> None:
        if request in (20, 45):
            world.ensemble.cut_off("operator", world.queue.now_ms + 50)
        elif request == 60:
            for session_id in world.ensemble.session_ids:
                world.ensemble.expire(session_id)

    world.disturb = disturb
    assert world.convert().is_new
    assert world.operator.requests > 65
    check_goes_on(world)


def test_topic_that_was_deleted_alone_may_be_made_again_in_the_cluster(world: ConversionInMemory) -> None:
    """What a broker that is alone remembers of deleted names is not about replicas: a start removes the files of those."""
    world.start_alone()
    answer = world.broker.ask("delete_topics", 5, topic_names=[TOPIC], timeout=MINUTE)
    assert answer.responses[0].error_code is NONE
    world.producer.end(committed=False)
    world.stop_alone()
    world.convert()
    world.start_member()
    assert world.broker.core.topics.named(TOPIC) is None
    make_topic(world.broker)
    world.rest(500)
    producer = ProducerInMemory(world.broker, TV1)
    producer.write("anew", 1)
    producer.end(committed=True)
    world.nodes[BROKER_ID].stop()
    world.start_member()
    assert visible(world.broker, 0) == ["anew"]


def refused(world: ConversionInMemory, match: str, **settings: str) -> None:
    """Refused, and nothing is changed: the broker may go on alone."""
    nodes = {path: world.data(path) for path in (paths.topic(TOPIC), paths.CLUSTER_ID)}
    journal = world.disk.read_file(f"{DIRECTORY}/{FILE_NAME}")
    with pytest.raises(ConversionRefusedError, match=match):
        world.convert(**settings)
    assert {path: world.data(path) for path in nodes} == nodes
    assert world.disk.read_file(f"{DIRECTORY}/{FILE_NAME}") == journal


def test_cluster_of_another_id_is_left_alone(world: ConversionInMemory) -> None:
    world.submit(Create("/cluster"))
    world.submit(Create(paths.CLUSTER_ID, encode_cluster_id("another")))
    refused(
        world, "ZooKeeper has cluster another, and /data is of cluster .*: name another ensemble, or another chroot"
    )
    world.start_alone()
    assert visible(world.broker, 0) == ["committed"]


def test_topic_of_the_same_name_is_left_alone(world: ConversionInMemory) -> None:
    for path in ("/brokers", paths.TOPICS):
        world.submit(Create(path))
    world.submit(Create(paths.topic(TOPIC), TopicZnode(UUID(int=5), {0: AssignedReplicas((1,))}).encode()))
    refused(world, f"ZooKeeper has a topic {TOPIC} that is not the one of /data")


def test_topic_that_is_gone_since_an_attempt_is_not_left_without_data(world: ConversionInMemory) -> None:
    interrupt(world, 3)
    world.start_alone()
    world.broker.ask("delete_topics", 5, topic_names=[TOPIC], timeout=MINUTE)
    world.producer.end(committed=False)
    world.stop_alone()
    refused(world, f"ZooKeeper has a topic {TOPIC} that is not the one of /data")


def test_ensemble_in_which_brokers_have_run_is_left_alone(world: ConversionInMemory) -> None:
    """What a controller has decided is in no directory, and the directory may be older than that."""
    world.convert()
    copy = used_world()
    copy.submit(Create("/controller_epoch", b"1"))
    refused(copy, "brokers of a cluster run in ZooKeeper, or have run there")
    copy.submit(Delete("/controller_epoch"))
    assert copy.convert().is_new


def test_controller_that_is_elected_meanwhile_is_noticed(world: ConversionInMemory) -> None:
    def elect(request: int) -> None:
        if request == 10:
            world.zookeeper.submit(Create(paths.CONTROLLER_EPOCH, b"1"))

    world.disturb = elect
    with pytest.raises(ConversionRefusedError, match="brokers of a cluster run in ZooKeeper"):
        world.convert()
    assert not journal_of(world).is_converted


def test_directory_that_was_not_closed_is_refused(world: ConversionInMemory) -> None:
    world.start_alone()
    world.alone.die(power=False)
    refused(world, "/data was not closed by a clean stop")


def test_directory_of_a_broker_that_runs_is_refused(world: ConversionInMemory) -> None:
    world.start_alone()
    with pytest.raises(DirectoryInUseError):
        world.convert()


def test_other_number_than_the_directory_has_is_refused(world: ConversionInMemory) -> None:
    refused(
        world,
        "/data is that of broker 1, which keeps its number in the cluster: give broker.id=1 instead of 4",
        broker_id="4",
    )


def test_directory_of_no_broker_is_refused() -> None:
    with pytest.raises(ConversionRefusedError, match="/data is not the data directory of a broker"):
        ConversionInMemory().convert()


def test_member_of_another_cluster_is_refused(world: ConversionInMemory) -> None:
    world.convert()
    other = ConversionInMemory()
    other.nodes[BROKER_ID].disk = world.disk
    refused(other, "/data belongs to a member of cluster .*, and ZooKeeper has no cluster: correct zookeeper.connect")
    other.submit(Create("/cluster"))
    other.submit(Create(paths.CLUSTER_ID, encode_cluster_id("another")))
    refused(other, "ZooKeeper has cluster another, and /data is of cluster")


def test_settings_of_groups_are_refused(world: ConversionInMemory) -> None:
    world.start_alone()
    alter(world.broker, 32, "readers", consumer_session_timeout_ms="50000")
    world.stop_alone()
    refused(world, "group readers has settings of its own, and a cluster over ZooKeeper keeps none of groups")


def test_members_of_the_consumer_protocol_are_refused_until_they_have_left(world: ConversionInMemory) -> None:
    """Kafka 3.9 over ZooKeeper serves no ConsumerGroupHeartbeat, and reads past the records of such groups."""
    world.start_alone()
    joined = world.broker.ask("consumer_group_heartbeat", HEARTBEAT, **join_fields(HEARTBEAT, GROUP, "one", [TOPIC]))
    assert joined.error_code is NONE
    world.stop_alone()
    refused(world, f"group {GROUP} has members of the consumer protocol")
    world.start_alone()
    world.broker.ask("consumer_group_heartbeat", HEARTBEAT, **beat_fields(HEARTBEAT, GROUP, "one", -1))
    world.stop_alone()
    world.convert()
    check_goes_on(world)
    (group,) = world.broker.ask("describe_groups", 5, groups=[GROUP], include_authorized_operations=False).groups
    assert (group.group_state, group.protocol_type) == ("Empty", "")


def test_disk_that_fails_ends_it_with_one_sentence(world: ConversionInMemory) -> None:
    world.disk.failing.add(DIRECTORY)
    with pytest.raises(DiskError, match="/data"):
        world.convert()
    world.disk.failing.clear()
    world.disk.kill()
    assert world.convert().is_new


def test_journal_that_lacks_a_start_is_refused(world: ConversionInMemory) -> None:
    """Leader epochs would begin below those of the records."""
    world.disk.replace_file(f"{DIRECTORY}/{TOPIC}-0/leader-epoch-checkpoint", b"0\n1\n9 0\n")
    log = f"{DIRECTORY}/{TOPIC}-0/{0:020d}.log"
    batches = world.disk.read_file(log)
    world.disk.replace_file(log, batches[:LEADER_EPOCH] + pack(">i", 9) + batches[LEADER_EPOCH + 4 :])
    with pytest.raises(DiskError, match="it knows of 1 starts, and ledger has records of start 10"):
        world.convert()


def test_checkpoint_with_an_epoch_that_no_record_has_is_blamed_itself_until_a_start_makes_it_anew(
    world: ConversionInMemory,
) -> None:
    path = f"{DIRECTORY}/{TOPIC}-0/leader-epoch-checkpoint"
    before = world.disk.read_file(path)
    world.disk.replace_file(path, b"0\n1\n9 0\n")
    with pytest.raises(
        DiskError, match=f"{path} is damaged: it has leader epoch 9, which no record has, .* knows of 1 starts"
    ):
        world.convert()
    world.start_alone()
    world.stop_alone()
    assert world.disk.read_file(path) == before
    assert world.convert().is_new
    check_goes_on(world)


def test_member_does_not_give_its_id_to_an_ensemble_that_has_none(world: ConversionInMemory) -> None:
    """The ensemble would be taken, and the directory no nearer to being a member's."""
    world.nodes[BROKER_ID].start()
    with pytest.raises(
        Exception, match="ZooKeeper has no cluster yet, and the log directories are those of a broker that is"
    ):
        world.rest(1_000)
    assert world.data(paths.CLUSTER_ID) is None
    world.nodes[BROKER_ID].die(power=False)
    world.errors.clear()
    assert world.convert().is_new
