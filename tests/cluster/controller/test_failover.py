"""What a new controller does first."""

from __future__ import annotations

import pytest

from oncelog.cluster.controller.actions import LeaderAndIsrRequest, UpdateMetadataRequest
from oncelog.cluster.controller.brokers import change_brokers
from oncelog.cluster.controller.topics import queue_deletions
from tests.cluster.controller.cluster import ControllerMovedError


def test_brokers_hear_of_each_other_before_they_hear_whom_to_follow(cluster, create):
    """onControllerFailover: "brokers need to receive the list of live brokers from UpdateMetadataRequest before"."""
    create("t", (1, 2))
    cluster.become_controller(2)
    assert [type(one) for one in cluster.sent[:3]] == [UpdateMetadataRequest] * 3
    assert isinstance(cluster.sent[3], LeaderAndIsrRequest)
    assert {one.controller_epoch for one in cluster.sent} == {2}
    cluster.check()


def test_brokers_hear_of_every_partition_before_anything_is_elected(cluster, create):
    """A broker that has just started answers clients by what it hears first."""
    create("t", (1, 2), (3,))
    cluster.kill(3)
    cluster.become_controller(2)
    told = [one for one in cluster.sent if isinstance(one, UpdateMetadataRequest)]
    for request in told[:2]:
        assert [(one.partition, one.state.leader) for one in request.partitions] == [(("t", 0), 1), (("t", 1), 3)]
    assert {told[0].broker_id, told[1].broker_id} == {1, 2}


def test_broker_that_died_with_the_controller_leads_nothing_any_more(cluster, create):
    create("t", (1, 2), (2, 1))
    cluster.kill(1)
    cluster.become_controller(2)
    assert {cluster.state("t", number).leader for number in (0, 1)} == {2}
    cluster.check()


def test_deletion_goes_on_under_the_next_controller(cluster, create):
    create("t", (1, 4))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    cluster.become_controller(2)
    assert cluster.topics
    cluster.start(4)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert not cluster.topics
    assert not cluster.deletions


def test_order_to_delete_that_outlived_its_topic_is_removed(cluster):
    cluster.deletions.add("t")
    cluster.become_controller(2)
    assert not cluster.deletions


def test_orders_to_delete_are_dropped_where_topics_may_not_be_deleted(cluster, create):
    """TopicDeletionManager.init: "if delete topic is disabled clean the topic entries under /admin/delete_topics"."""
    create("t", (1,))
    cluster.deletions.add("t")
    cluster.become_controller(2, may_delete_topics=False)
    assert cluster.topics
    assert not cluster.deletions


def test_controller_that_was_superseded_writes_nothing_any_more(cluster, create):
    create("t", (1, 2))
    cluster.controller_epoch += 1
    cluster.kill(1)
    before, sent = dict(cluster.states), len(cluster.sent)
    with pytest.raises(ControllerMovedError):
        cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert cluster.states == before
    assert not [one for one in (*cluster.sent[sent:], *cluster.unsent) if isinstance(one, LeaderAndIsrRequest)]


def test_reassignments_and_elections_that_were_asked_for_meanwhile_are_begun(cluster, create):
    create("t", (1, 2), (1, 2))
    cluster.reassignments = {("t", 0): (3, 1)}
    cluster.preferred_elections = {("t", 1)}
    cluster.become_controller(2)
    assert ("t", 0) in cluster.context.being_reassigned
    assert cluster.preferred_elections is None
    cluster.check()


def test_controller_writes_its_own_epoch_into_what_another_has_left(cluster, create):
    """TopicPartitionStateZNode: `controller_epoch` is that of the controller which wrote it."""
    create("t", (1, 2), (2, 1))
    cluster.become_controller(2)
    cluster.kill(1)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert {cluster.state("t", number).controller_epoch for number in (0, 1)} == {2}
