"""Rows for the records of __transaction_state and __consumer_offsets. Metadata that only members can read is a size in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from oncelog import groups, transactions
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.cli.log.rows import Decoder, Row
from oncelog.groups import GroupMetadataRecord, OffsetRecord, StoredMember
from oncelog.groups.consumer.records import (
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    RegexRecord,
    TargetEpochRecord,
    TargetRecord,
)
from oncelog.log import uuid_text
from oncelog.records import Record
from oncelog.wire import WireError


def decoder_of(topic: str) -> Decoder | None:
    """The decoder for the records of this topic; None unless the topic is a coordinator's."""
    return {TRANSACTION_STATE: transaction_row, CONSUMER_OFFSETS: group_row}.get(topic)


def transaction_row(record: Record) -> Row:
    try:
        found = transactions.decode(record)
    except WireError as error:
        return {"problem": str(error)}
    if found is None:
        return {"problem": "a version that is not known"}
    row: Row = {"transactional_id": found.transactional_id}
    metadata = found.metadata
    if metadata is None:
        return row | {"state": "forgotten"}
    return row | {
        "producer_id": metadata.producer_id,
        "producer_epoch": metadata.producer_epoch,
        "state": metadata.status.label,
        "partitions": [f"{topic}-{partition}" for topic, partition in sorted(metadata.partitions)],
        "timeout_ms": metadata.timeout_ms,
        "start_ms": metadata.start_ms,
        "last_update_ms": metadata.last_update_ms,
        "previous_producer_id": metadata.previous_producer_id,
        "next_producer_id": metadata.next_producer_id,
        "transaction_version": metadata.client_transaction_version,
    }


def group_row(record: Record) -> Row:
    try:
        found = groups.decode(record)
    except WireError as error:
        return {"problem": str(error)}
    if found is None:
        return {"problem": "a kind or version that is not known, or of no matter"}
    row: Row = {"group": found.group}
    match found:
        case OffsetRecord():
            return row | _offset(found)
        case GroupMetadataRecord():
            return row | _classic_group(found)
        case GroupEpochRecord():
            return row | {"what": "group epoch", "epoch": found.epoch, "metadata_hash": found.metadata_hash}
        case MemberRecord():
            return row | {"what": "member", "member_id": found.member_id} | _subscription(found)
        case TargetEpochRecord():
            return row | {"what": "target assignment epoch", "epoch": found.epoch, "assigned_ms": found.assigned_ms}
        case TargetRecord():
            target = None if found.target is None else _partitions(found.target)
            return row | {"what": "target assignment", "member_id": found.member_id, "partitions": target}
        case CurrentAssignmentRecord():
            return row | {"what": "current assignment", "member_id": found.member_id} | _progress(found)
        case RegexRecord():
            topics = None if found.resolved is None else sorted(found.resolved.topics)
            return row | {"what": "regular expression", "expression": found.regex, "topics": topics}
        case _:
            return row | {"what": "partition metadata"}


def _offset(record: OffsetRecord) -> Row:
    row: Row = {"what": "offset commit", "topic": record.topic, "partition": record.partition}
    committed = record.committed
    if committed is None:
        return row | {"committed_offset": None}
    row |= {
        "committed_offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "commit_ms": committed.commit_ms,
    }
    return row if committed.expire_ms < 0 else row | {"expire_ms": committed.expire_ms}


def _classic_group(record: GroupMetadataRecord) -> Row:
    metadata = record.metadata
    if metadata is None:
        return {"what": "group metadata", "generation": None}
    return {
        "what": "group metadata",
        "generation": metadata.generation,
        "protocol_type": metadata.protocol_type,
        "protocol": metadata.protocol,
        "leader": metadata.leader,
        "state_ms": metadata.state_ms,
        "members": [_classic_member(member) for member in metadata.members],
    }


def _classic_member(member: StoredMember) -> Row:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "subscription_bytes": len(member.subscription),
        "assignment_bytes": len(member.assignment),
    }


def _subscription(record: MemberRecord) -> Row:
    subscription = record.subscription
    if subscription is None:
        return {"subscription": None}
    return {
        "instance_id": subscription.instance_id,
        "rack": subscription.rack,
        "client_id": subscription.client_id,
        "client_host": subscription.client_host,
        "topics": sorted(subscription.topics),
        "expression": subscription.regex,
        "rebalance_timeout_ms": subscription.rebalance_timeout_ms,
        "assignor": subscription.assignor,
        "classic_protocol": subscription.classic is not None,
    }


def _progress(record: CurrentAssignmentRecord) -> Row:
    progress = record.progress
    if progress is None:
        return {"epoch": None}
    return {
        "epoch": progress.epoch,
        "previous_epoch": progress.previous_epoch,
        "state": progress.state.name.lower(),
        "partitions": _partitions(progress.owned),
        "revoking": _partitions(progress.revoking),
    }


def _partitions(partitions: Iterable[tuple[UUID, int]] | Mapping[tuple[UUID, int], int]) -> list[str]:
    """Topic ids with partition numbers: the log has no names of topics."""
    return sorted(f"{uuid_text(topic_id)}-{index}" for topic_id, index in partitions)
