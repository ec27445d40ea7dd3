"""Directories of Kafka brokers: what is read and what is refused. Real brokers are in test_directories_change_hands.py."""

from __future__ import annotations

from uuid import UUID

import pytest

from harness.conversion_in_memory import BROKER_ID, DIRECTORY, ConversionInMemory
from harness.transaction_in_memory import TOPIC, visible
from oncelog.broker.storage.journal import FILE_NAME
from oncelog.cluster.conversion import ConversionRefusedError, Converted
from oncelog.cluster.kafka_directories import give_to_kafka, take_from_kafka
from oncelog.environment import DiskError
from oncelog.log import DataDirectory, OwnCheckpoint, write_own_checkpoint, write_topic_id
from oncelog.log.checkpoints import write_identity
from oncelog.simulation.broker_node import SimulatedRandom
from oncelog.simulation.disk import ProcessEndedError
from tests.cluster.test_conversion import PARTITIONS, TOPICS, check_goes_on, used_world

META = "meta.properties"
MORE = "/more"


def member(*more_directories: str) -> ConversionInMemory:
    """A member that was stopped cleanly, with a transaction that is open."""
    world = used_world(0, *more_directories)
    world.convert()
    world.start_member()
    world.nodes[BROKER_ID].stop()
    return world


def kafkas(*more_directories: str) -> ConversionInMemory:
    world = member(*more_directories)
    change(world, to_kafka=True)
    return world


def change(world: ConversionInMemory, *, to_kafka: bool) -> Converted | None:
    """What came of it; None if the process ended before. Raises what stopped it."""
    directories: list[DataDirectory] = []
    try:
        directories += [DataDirectory(world.disk, path) for path in world.directories]
        if to_kafka:
            return give_to_kafka(world.disk, directories)
        return take_from_kafka(world.disk, directories, SimulatedRandom(world.nodes[2]._random))
    except ProcessEndedError:
        return None
    finally:
        world.disk.operations_left = None
        for directory in directories:
            directory.release()


def properties(world: ConversionInMemory, path: str = DIRECTORY) -> dict[str, str]:
    lines = world.disk.read_file(f"{path}/{META}").decode().splitlines()
    return dict(line.split("=") for line in lines)


def test_kafka_finds_what_it_writes_itself_and_nothing_else() -> None:
    """A broker over ZooKeeper takes `meta.properties` of version 0 alone, with `broker.id` (Kafka's MetaPropertiesEnsemble)."""
    world = member()
    before = properties(world)
    done = change(world, to_kafka=True)
    assert done == Converted(before["cluster.id"], BROKER_ID, len(TOPICS), PARTITIONS, is_new=True)
    assert properties(world) == {"version": "0", "cluster.id": before["cluster.id"], "broker.id": "1"}
    files = {name for name in world.disk.list_directory(DIRECTORY) if not name.startswith((TOPIC, "__"))}
    assert files == {
        META,
        ".kafka_cleanshutdown",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
    }
    assert change(world, to_kafka=True) == Converted(*_values(done), is_new=False)


def _values(done: Converted) -> tuple[str, int, int, int]:
    return done.cluster_id, done.broker_id, done.topic_count, done.partition_count


def test_broker_goes_on_with_what_it_took_back_from_kafka() -> None:
    world = kafkas()
    done = change(world, to_kafka=False)
    assert done == Converted(properties(world)["cluster.id"], BROKER_ID, len(TOPICS), PARTITIONS, is_new=True)
    assert properties(world)["version"] == "1"
    assert change(world, to_kafka=False) == Converted(*_values(done), is_new=False)
    check_goes_on(world)


@pytest.mark.parametrize("loses_power", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize("to_kafka", [False, True], ids=["from kafka", "to kafka"])
def test_end_at_any_change_of_the_disk_is_made_good_by_the_next_attempt(*, to_kafka: bool, loses_power: bool) -> None:
    changes = 0
    while True:
        world = member(MORE) if to_kafka else kafkas(MORE)
        world.disk.operations_left = changes
        if change(world, to_kafka=to_kafka) is not None:
            break
        if loses_power:
            world.disk.crash()
        else:
            world.disk.kill()
        assert change(world, to_kafka=to_kafka) is not None
        assert {properties(world, path)["version"] for path in world.directories} == {"0" if to_kafka else "1"}
        if to_kafka:
            assert not world.disk.exists(f"{DIRECTORY}/{FILE_NAME}")
            change(world, to_kafka=False)
        check_goes_on(world)
        changes += 1
    assert changes > 4


def test_neither_kind_starts_on_half_of_a_change() -> None:
    changes = 0
    versions: list[str] = []
    while versions != ["0", "1"]:
        world = member(MORE)
        world.disk.operations_left = changes
        assert change(world, to_kafka=True) is None
        world.disk.kill()
        versions = [properties(world, path)["version"] for path in world.directories]
        changes += 1
    world.nodes[BROKER_ID].is_disk_bad = True
    world.nodes[BROKER_ID].start()
    assert world.nodes[BROKER_ID].disk_deaths == 1


def test_replicas_that_kafka_got_meanwhile_are_taken_and_those_that_left_are_not() -> None:
    world = kafkas()
    world.disk.remove(f"{DIRECTORY}/{TOPIC}-1")
    world.disk.make_directory(f"{DIRECTORY}/fresh-3")
    write_topic_id(world.disk, f"{DIRECTORY}/fresh-3/partition.metadata", UUID(int=77))
    change(world, to_kafka=False)
    world.start_member()
    here = {(one.topic, one.index) for one in world.broker.core.topics.partitions()}
    assert (TOPIC, 0) in here
    assert visible(world.broker, 0) == ["committed"]


def test_what_an_interrupted_change_left_is_not_believed_after_kafka_had_the_directory() -> None:
    world = kafkas(MORE)
    for path in world.directories:
        write_own_checkpoint(world.disk, path, OwnCheckpoint(journal_bytes=10**6))
        world.disk.replace_file(f"{path}/{FILE_NAME}", b"what was so before")
    change(world, to_kafka=False)
    check_goes_on(world)


def refused(world: ConversionInMemory, match: str, *, to_kafka: bool) -> None:
    before = {path: world.disk.read_file(f"{path}/{META}") for path in world.directories}
    with pytest.raises(ConversionRefusedError, match=match):
        change(world, to_kafka=to_kafka)
    assert {path: world.disk.read_file(f"{path}/{META}") for path in world.directories} == before


def test_directory_that_was_not_closed_is_refused() -> None:
    for to_kafka, world in ((True, member()), (False, kafkas())):
        world.disk.remove(f"{DIRECTORY}/.kafka_cleanshutdown")
        refused(world, "/data was not closed by a clean stop", to_kafka=to_kafka)


def test_broker_that_is_alone_is_not_given_to_kafka() -> None:
    refused(used_world(), "/data belongs to a standalone broker", to_kafka=True)


def test_directory_of_kafka_over_kraft_or_of_a_broker_that_is_alone_is_not_taken() -> None:
    """Both have `meta.properties` of version 1."""
    world = member()
    world.disk.remove(f"{DIRECTORY}/{FILE_NAME}")
    refused(world, f"{FILE_NAME} is in 0 of the directories: .* of Apache Kafka over ZooKeeper", to_kafka=False)
    refused(used_world(), "/data belongs to a standalone broker", to_kafka=False)


def test_half_of_the_log_directories_is_not_given_to_kafka() -> None:
    world = member(MORE)
    world.directories = (MORE,)
    refused(world, f"{FILE_NAME} is in 0 of the directories: name all those of one broker", to_kafka=True)


def test_directories_of_two_brokers_are_refused() -> None:
    world = kafkas(MORE)
    identity = DataDirectory(world.disk, DIRECTORY)
    found = identity.identity()
    identity.release()
    assert found is not None
    write_identity(world.disk, f"{MORE}/{META}", type(found)(found.cluster_id, 5, "", is_kafkas=True))
    refused(world, "/data is of broker 1 of cluster .*, and /more of broker 5", to_kafka=False)


def test_partition_that_names_no_topic_is_refused() -> None:
    world = kafkas()
    world.disk.remove(f"{DIRECTORY}/{TOPIC}-0/partition.metadata")
    refused(world, "/data/ledger-0/partition.metadata is missing: Apache Kafka 3.9 writes it", to_kafka=False)


def test_partition_in_two_directories_is_refused() -> None:
    world = kafkas(MORE)
    for path in world.directories:
        world.disk.make_directory(f"{path}/twice-0")
        write_topic_id(world.disk, f"{path}/twice-0/partition.metadata", UUID(int=7))
    refused(world, "partition twice-0 is in two log directories", to_kafka=False)


def test_partition_that_moves_is_refused() -> None:
    world = kafkas()
    world.disk.make_directory(f"{DIRECTORY}/{TOPIC}-0.{'0' * 32}-future")
    refused(world, "is of a partition that moves to another log directory", to_kafka=False)


def test_start_on_kafkas_directory_says_what_to_do() -> None:
    world = kafkas()
    world.alone.start()
    (error,) = world.errors
    assert isinstance(error, DiskError)
    assert "is that of broker 1 of Apache Kafka: let `oncelog cluster convert --from kafka` make it" in str(error)
