from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.records import ControlType, Record, batches, build_batch, control_batch, decode_batch
from oncelog.records.aborted import AbortedFilter


def data(producer_id: int, base_offset: int, *, transactional: bool = True) -> bytes:
    return build_batch(
        [Record(None, b"%d" % producer_id)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def marker(control: ControlType, producer_id: int, base_offset: int) -> bytes:
    return control_batch(control, producer_id, 0, 0, 0, base_offset)


def kept(log: list[bytes], aborted: list[tuple[int, int]]) -> list[int]:
    """The offsets of the batches that are not dropped."""
    joined = b"".join(log)
    dropping = AbortedFilter(aborted)
    return [header.base_offset for position, header in batches(joined) if not dropping.drops(joined, position, header)]


def test_data_is_dropped_from_the_first_offset_until_the_abort_marker() -> None:
    """A batch of a producer in the aborted list is dropped until that producer's ABORT marker."""
    log = [data(1, 0), data(1, 1), data(1, 2), marker(ControlType.ABORT, 1, 3), data(1, 4)]
    assert kept(log, [(1, 1)]) == [0, 3, 4]


def test_commit_marker_of_another_transaction_does_not_end_dropping() -> None:
    log = [data(1, 0), marker(ControlType.COMMIT, 2, 1), data(1, 2), marker(ControlType.ABORT, 1, 3), data(1, 4)]
    assert kept(log, [(1, 0)]) == [1, 3, 4]


def test_unsorted_list_is_sorted() -> None:
    log = [data(1, 0), data(2, 1), marker(ControlType.ABORT, 1, 2), marker(ControlType.ABORT, 2, 3), data(2, 4)]
    assert kept(log, [(2, 1), (1, 0)]) == [2, 3, 4]


def test_data_outside_a_transaction_is_kept() -> None:
    log = [data(1, 0, transactional=False), data(-1, 1, transactional=False), data(1, 2)]
    assert kept(log, [(1, 0)]) == [0, 1]


def test_transaction_that_began_before_the_first_batch_is_dropped() -> None:
    assert kept([data(1, 50), marker(ControlType.ABORT, 1, 51), data(1, 52)], [(1, 3)]) == [51, 52]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["data", "commit", "abort"])), max_size=40))
def test_only_records_of_committed_and_open_transactions_are_kept(steps: list[tuple[int, str]]) -> None:
    log: list[bytes] = []
    started: dict[int, list[int]] = {}
    aborted: list[tuple[int, int]] = []
    lost: set[int] = set()
    for offset, (producer_id, step) in enumerate(steps):
        if step == "data":
            log.append(data(producer_id, offset))
            started.setdefault(producer_id, []).append(offset)
            continue
        log.append(marker(ControlType.COMMIT if step == "commit" else ControlType.ABORT, producer_id, offset))
        offsets = started.pop(producer_id, [])
        if step == "abort" and offsets:
            aborted.append((producer_id, offsets[0]))
            lost.update(offsets)
    assert kept(log, aborted) == [offset for offset in range(len(steps)) if offset not in lost]
    assert all(decode_batch(batch) for batch in log)
