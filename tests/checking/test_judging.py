"""Each anomaly, planted in a short history, and the nearest history that has none."""

from __future__ import annotations

import pytest

from oncelog.testing.checker import Anomaly, check, read_history
from tests.checking.histories import (
    assign,
    failed,
    final,
    found,
    history,
    info,
    judged,
    ok,
    poll,
    seek,
    send,
    subscribe,
    written,
)

FOUR = ok("w", send("a", 0), send("b", 1), send("c", 2), send("d", 3))


def only(report, anomaly, *, is_fault=True):
    """The one example of the one anomaly of a report."""
    assert found(report) == {anomaly}
    assert (report.found[anomaly], report.faults[anomaly]) == (1, int(is_fault))
    assert report.is_sound is not is_fault
    (example,) = report.examples
    assert (example.anomaly, example.is_fault) == (anomaly, is_fault)
    return example


def lines_of(example):
    return [operation.line for operation in example.operations]


def test_empty_history_is_sound(tmp_path):
    report = judged(tmp_path)
    assert (report.is_sound, report.operations, report.examples) == (True, 0, ())


def test_two_values_at_one_offset_are_inconsistent(tmp_path):
    example = only(judged(tmp_path, ok("p", send("a", 4)), ok("q", send("b", 4))), Anomaly.INCONSISTENT_OFFSETS)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (4,), ("a", "b"), [1, 2])


def test_offset_of_a_send_that_nobody_can_prove_visible_is_not_inconsistent(tmp_path):
    unproven = info("p", send("a", 4), send("y", 0, key="y-0"))
    assert found(judged(tmp_path, unproven, ok("q", send("b", 4)))) == set()


def test_offset_of_an_unknown_operation_counts_once_a_part_of_it_was_polled(tmp_path):
    unknown = info("p", send("a", 4), send("y", 0, key="y-0"))
    report = judged(tmp_path, unknown, ok("q", send("b", 4)), failed("r", poll((0, "y"), key="y-0")))
    assert report.faults[Anomaly.INCONSISTENT_OFFSETS] == 1


def test_offset_of_a_failed_send_may_hold_another_value(tmp_path):
    assert found(judged(tmp_path, failed("p", send("a", 4)), ok("q", send("b", 4)))) == set()


def test_true_and_one_are_two_values(tmp_path):
    report = judged(tmp_path, ok("p", send(True, 0)), ok("q", send(1, 0)))
    assert only(report, Anomaly.INCONSISTENT_OFFSETS).values == (True, 1)


def test_one_and_one_point_nought_are_one_value(tmp_path):
    assert found(judged(tmp_path, ok("p", send(1, 0)), ok("q", poll((0, 1.0))))) == set()


def test_one_value_at_two_offsets_is_a_duplicate(tmp_path):
    report = judged(tmp_path, ok("p", send("a", 1)), ok("q", poll((1, "a"), (3, "a"))))
    example = only(report, Anomaly.DUPLICATE)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (1, 3), ("a",), [1])


def test_one_value_that_was_polled_twice_is_no_duplicate(tmp_path):
    assert found(judged(tmp_path, ok("p", send("a", 1)), ok("q", poll((1, "a"))), ok("r", poll((1, "a"))))) == set()


def test_the_same_value_of_two_keys_is_no_duplicate(tmp_path):
    assert found(judged(tmp_path, ok("p", send("a", 1), send("a", 7, key="x-1")))) == set()


def test_value_of_a_failed_operation_that_an_ok_one_polled_is_an_aborted_read(tmp_path):
    example = only(judged(tmp_path, failed("p", send("a")), ok("q", poll((0, "a")))), Anomaly.ABORTED_READ)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (0,), ("a",), [2, 1])


@pytest.mark.parametrize("writer", [ok, info])
def test_value_of_an_operation_that_did_not_fail_is_no_aborted_read(tmp_path, writer):
    assert found(judged(tmp_path, writer("p", send("a")), ok("q", poll((0, "a"))))) == set()


@pytest.mark.parametrize("reader", [failed, info])
def test_aborted_read_needs_a_reader_that_ended_ok(tmp_path, reader):
    assert found(judged(tmp_path, failed("p", send("a")), reader("q", poll((0, "a"))))) == set()


def test_value_below_one_that_was_polled_is_lost_if_nobody_polled_it(tmp_path):
    report = judged(tmp_path, ok("p", send("a", 0)), ok("p", send("b", 1)), ok("q", poll((1, "b"))))
    example = only(report, Anomaly.LOST_WRITE)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (0, 1), ("a",), [1])


def test_value_above_all_that_was_polled_is_not_lost(tmp_path):
    assert found(judged(tmp_path, ok("p", send("a", 0)), ok("p", send("b", 1)), ok("q", poll((0, "a"))))) == set()


def test_value_that_a_failed_operation_polled_is_not_lost(tmp_path):
    report = judged(
        tmp_path, ok("p", send("a", 0)), ok("p", send("b", 1)), failed("q", poll((0, "a"))), ok("r", poll((1, "b")))
    )
    assert found(report) == set()


@pytest.mark.parametrize("writer", [info, failed])
def test_value_of_an_operation_without_a_visible_part_is_not_lost(tmp_path, writer):
    assert found(judged(tmp_path, writer("p", send("a", 0)), ok("w", send("b", 1)), ok("q", poll((1, "b"))))) == set()


def test_torn_transaction_of_unknown_end_is_a_lost_write(tmp_path):
    torn = info("p", send("a", 0), send("b", 0, key="y-0"))
    report = judged(tmp_path, torn, ok("w", send("c", 1)), ok("q", poll((1, "c"))), ok("r", poll((0, "b"), key="y-0")))
    assert (only(report, Anomaly.LOST_WRITE).values, report.examples[0].operations[0].process) == (("a",), "p")


def test_overwritten_value_is_lost_beside_the_inconsistent_offset(tmp_path):
    report = judged(tmp_path, ok("p", send("a", 0)), ok("q", send("b", 0)), ok("r", poll((0, "b"))))
    assert found(report) == {Anomaly.INCONSISTENT_OFFSETS, Anomaly.LOST_WRITE}


def test_value_that_the_final_phase_does_not_poll_is_unseen(tmp_path):
    report = judged(tmp_path, FOUR, final("r"), ok("r", poll((0, "a"), (1, "b"), (2, "c"))))
    example = only(report, Anomaly.UNSEEN)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (3,), ("d",), [1])


def test_value_that_was_polled_and_is_gone_at_the_end_is_unseen(tmp_path):
    report = judged(tmp_path, FOUR, ok("q", poll((0, "a"), (1, "b"), (2, "c"), (3, "d"))), final("r"))
    assert (found(report), report.faults[Anomaly.UNSEEN]) == ({Anomaly.UNSEEN}, 4)
    assert report.examples[0].sentence.endswith("it was polled before")


def test_final_phase_may_be_shared_by_processes(tmp_path):
    lines = [final("r"), final("s"), ok("r", poll((0, "a"), (1, "b"))), ok("s", poll((2, "c"), (3, "d")))]
    report = judged(tmp_path, FOUR, *lines)
    assert found(report) == set()
    assert report.is_unseen_judged


def test_without_a_final_phase_nothing_is_unseen_and_the_report_says_so(tmp_path):
    report = judged(tmp_path, FOUR)
    assert found(report) == set()
    assert not report.is_unseen_judged


@pytest.mark.parametrize("writer", [info, failed])
def test_final_phase_need_not_poll_what_was_not_acknowledged(tmp_path, writer):
    assert found(judged(tmp_path, writer("p", send("a", 0)), final("r"))) == set()


def test_final_phase_must_poll_the_whole_of_a_transaction_that_is_visible_in_part(tmp_path):
    report = judged(tmp_path, info("p", send("a"), send("b", key="y-0")), final("r"), ok("r", poll((0, "a"))))
    assert only(report, Anomaly.UNSEEN).values == ("b",)


def test_transaction_that_polls_what_it_sent_reads_too_early(tmp_path):
    report = judged(tmp_path, failed("p", send("a", 0), poll((0, "a"))))
    example = only(report, Anomaly.PRECOMMITTED_READ)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (0,), ("a",), [1])


def test_the_next_transaction_may_poll_what_was_sent_before(tmp_path):
    assert found(judged(tmp_path, ok("p", send("a", 0)), ok("p", poll((0, "a"))))) == set()


TWO_AND_FOUR = [ok("p", poll((0, "a"), (1, "b"))), ok("p", poll((3, "d")))]
THIRD = ok("q", poll((2, "c")))


def test_poll_that_jumps_over_a_known_value_skips(tmp_path):
    example = only(judged(tmp_path, FOUR, assign("p"), *TWO_AND_FOUR, THIRD), Anomaly.POLL_SKIP)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (1, 3), ("c",), [3, 4])


def test_poll_that_jumps_over_offsets_without_values_does_not_skip(tmp_path):
    markers = ok("w", send("a", 0), send("b", 1), send("d", 3))
    assert found(judged(tmp_path, markers, assign("p"), *TWO_AND_FOUR)) == set()


def test_poll_that_jumps_over_an_aborted_value_does_not_skip(tmp_path):
    sent = [ok("w", send("a", 0), send("b", 1)), failed("v", send("c", 2)), ok("u", send("d", 3))]
    assert found(judged(tmp_path, *sent, failed("q", poll((2, "c"))), assign("p"), *TWO_AND_FOUR)) == set()


def test_poll_skip_of_a_subscriber_is_no_fault(tmp_path):
    report = judged(tmp_path, FOUR, subscribe("p"), *TWO_AND_FOUR, THIRD)
    only(report, Anomaly.POLL_SKIP, is_fault=False)


@pytest.mark.parametrize(
    "between",
    [[assign("p", "y-0"), assign("p")], [seek("p")], [subscribe("p", "y"), assign("p")], [final("p")]],
    ids=["assigned elsewhere", "sought", "subscribed elsewhere", "final"],
)
def test_poll_after_the_key_was_reassigned_may_skip_and_go_back(tmp_path, between):
    back = [FOUR, assign("p"), ok("p", poll((2, "c"), (3, "d"))), *between, ok("p", poll((0, "a"), (1, "b")))]
    rest = [ok("q", poll((0, "a"), (1, "b"), (2, "c"), (3, "d")))]
    seen = [final("r"), ok("r", poll((0, "a"), (1, "b"), (2, "c"), (3, "d")))]
    assert found(judged(tmp_path, *back, *rest, *seen)) == set()
    skipping = [FOUR, assign("p"), ok("p", poll((0, "a"))), *between, ok("p", poll((3, "d")))]
    assert found(judged(tmp_path, *skipping, *rest, *seen)) == set()


@pytest.mark.parametrize("between", [[assign("p", "x-0", "y-0")], [seek("p", "y-0")]])
def test_key_that_stays_assigned_goes_on_where_it_was(tmp_path, between):
    report = judged(tmp_path, FOUR, assign("p"), TWO_AND_FOUR[0], *between, TWO_AND_FOUR[1], THIRD)
    only(report, Anomaly.POLL_SKIP)


def test_poll_at_or_before_the_last_one_is_nonmonotonic(tmp_path):
    lines = [FOUR, assign("p"), ok("p", poll((0, "a"), (1, "b"))), ok("p", poll((1, "b"), (2, "c")))]
    example = only(judged(tmp_path, *lines), Anomaly.NONMONOTONIC_POLL)
    assert (example.key, example.offsets, lines_of(example)) == ("x-0", (1, 1), [3, 4])


def test_nonmonotonic_poll_of_a_subscriber_is_no_fault(tmp_path):
    lines = [FOUR, subscribe("p"), ok("p", poll((0, "a"), (1, "b"))), ok("p", poll((0, "a")))]
    only(judged(tmp_path, *lines), Anomaly.NONMONOTONIC_POLL, is_fault=False)


def test_process_that_says_neither_assign_nor_subscribe_is_held_to_assign(tmp_path):
    only(judged(tmp_path, FOUR, ok("p", poll((0, "a"))), ok("p", poll((0, "a")))), Anomaly.NONMONOTONIC_POLL)


def test_another_process_may_poll_the_same_again(tmp_path):
    assert found(judged(tmp_path, FOUR, ok("p", poll((0, "a"))), ok("q", poll((0, "a"))))) == set()


@pytest.mark.parametrize("ending", [failed, info])
@pytest.mark.parametrize("first", [1, 3], ids=["rewound", "went on"])
def test_poll_after_an_operation_that_did_not_end_ok_goes_back_or_on(tmp_path, ending, first):
    undone, records = ending("p", poll((1, "b"), (2, "c"))), [(1, "b"), (2, "c"), (3, "d")]
    again = ok("p", poll(*records[first - 1 :]))
    assert found(judged(tmp_path, FOUR, assign("p"), ok("p", poll((0, "a"))), undone, again)) == set()


def test_poll_after_a_failed_operation_must_not_go_back_further(tmp_path):
    lines = [FOUR, assign("p"), ok("p", poll((0, "a"))), failed("p", poll((1, "b"))), ok("p", poll((0, "a")))]
    only(judged(tmp_path, *lines), Anomaly.NONMONOTONIC_POLL)


def test_poll_after_a_failed_operation_must_not_skip(tmp_path):
    lines = [FOUR, assign("p"), ok("p", poll((0, "a"))), failed("p", poll((1, "b"))), ok("p", poll((3, "d"))), THIRD]
    only(judged(tmp_path, *lines), Anomaly.POLL_SKIP)


@pytest.mark.parametrize("consumer", [assign, subscribe])
@pytest.mark.parametrize(
    "polls",
    [[poll((0, "a"), (2, "c"))], [poll((0, "a")), poll((2, "c"))]],
    ids=["one poll", "two polls"],
)
def test_operation_that_jumps_over_a_known_value_skips_inside(tmp_path, consumer, polls):
    report = judged(tmp_path, FOUR, consumer("p"), ok("p", *polls), ok("q", poll((1, "b"))))
    example = only(report, Anomaly.INTERNAL_POLL_SKIP)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (0, 2), ("b",), [3])


def test_operation_that_goes_back_is_nonmonotonic_inside(tmp_path):
    report = judged(tmp_path, FOUR, subscribe("p"), ok("p", poll((0, "a"), (1, "b")), poll((0, "a"))))
    example = only(report, Anomaly.INTERNAL_NONMONOTONIC_POLL)
    assert (example.key, example.offsets, example.values, lines_of(example)) == ("x-0", (1, 0), ("b", "a"), [3])


def test_key_that_was_rebalanced_may_move_inside_and_after(tmp_path):
    everything = ok("q", poll((0, "a"), (1, "b"), (2, "c"), (3, "d")))
    moved = [ok("p", poll((0, "a"), (2, "c")), poll((1, "b")), rebalanced=["x-0"]), ok("p", poll((3, "d")))]
    assert found(judged(tmp_path, FOUR, everything, *moved)) == set()


def test_rebalance_of_another_key_excuses_nothing(tmp_path):
    report = judged(tmp_path, FOUR, ok("p", poll((0, "a"), (2, "c")), rebalanced=["x-1"]), ok("q", poll((1, "b"))))
    only(report, Anomaly.INTERNAL_POLL_SKIP)


def test_send_that_lands_before_an_earlier_one_is_nonmonotonic(tmp_path):
    example = only(judged(tmp_path, ok("p", send("a", 7)), ok("p", send("b", 3))), Anomaly.NONMONOTONIC_SEND)
    assert (example.key, example.offsets, example.values) == ("x-0", (7, 3), ("a", "b"))
    assert lines_of(example) == [1, 2]


def test_sends_of_two_processes_have_no_order(tmp_path):
    assert found(judged(tmp_path, ok("p", send("a", 7)), ok("q", send("b", 3)))) == set()


def test_failed_sends_have_no_order(tmp_path):
    assert found(judged(tmp_path, failed("p", send("a", 7)), ok("p", send("b", 3)))) == set()


def test_where_sends_landed_may_be_known_from_polls_alone(tmp_path):
    report = judged(tmp_path, ok("p", send("a")), info("p", send("b")), ok("q", poll((2, "b"), (5, "a"))))
    assert only(report, Anomaly.NONMONOTONIC_SEND).offsets == (5, 2)


def test_send_of_one_transaction_that_lands_before_another_is_nonmonotonic_inside(tmp_path):
    example = only(judged(tmp_path, ok("p", send("a", 7), send("b", 3))), Anomaly.INTERNAL_NONMONOTONIC_SEND)
    assert (example.key, example.offsets, example.values) == ("x-0", (7, 3), ("a", "b"))


def test_value_of_another_between_two_sends_of_a_transaction_is_an_internal_send_skip_and_no_fault(tmp_path):
    report = judged(tmp_path, ok("p", send("a", 0), send("c", 2)), ok("q", send("b", 1)))
    assert found(report) == {Anomaly.INTERNAL_SEND_SKIP, Anomaly.WRITE_CYCLE}
    assert report.is_sound
    example = next(one for one in report.examples if one.anomaly is Anomaly.INTERNAL_SEND_SKIP)
    assert (example.key, example.offsets, example.values) == ("x-0", (0, 2), ("a", "c"))
    assert '"b" at 1' in example.sentence


def test_gap_between_two_sends_is_no_skip(tmp_path):
    assert found(judged(tmp_path, ok("p", send("a", 0), send("c", 2)))) == set()


def test_write_cycle_is_found_and_no_fault(tmp_path):
    lines = [ok("p", send("a", 0), send("a", 1, key="y-0")), ok("q", send("b", 1), send("b", 0, key="y-0"))]
    example = only(judged(tmp_path, *lines), Anomaly.WRITE_CYCLE, is_fault=False)
    assert lines_of(example) == [1, 2]
    assert 'p (line 1) wrote before q (line 2) [x-0 "a" "b"]' in example.sentence


def test_writes_in_the_same_order_everywhere_are_no_cycle(tmp_path):
    lines = [ok("p", send("a", 0), send("a", 0, key="y-0")), ok("q", send("b", 1), send("b", 1, key="y-0"))]
    assert found(judged(tmp_path, *lines)) == set()


def test_two_operations_that_read_each_other_are_circular(tmp_path):
    lines = [
        ok("p", send("a", 0), poll((0, "b"), key="y-0")),
        ok("q", send("b", 0, key="y-0"), poll((0, "a"))),
    ]
    example = only(judged(tmp_path, *lines), Anomaly.CIRCULAR_INFORMATION_FLOW)
    assert lines_of(example) == [1, 2]
    assert example.values == ("a", "b")


def test_long_circle_is_told_in_short(tmp_path):
    count = 500
    lines = [
        ok(f"p{n}", send(n, 0, key=f"x-{n}"), poll((0, (n + 1) % count), key=f"x-{(n + 1) % count}"))
        for n in range(count)
    ]
    example = only(judged(tmp_path, *lines), Anomaly.CIRCULAR_INFORMATION_FLOW)
    assert len(example.operations) == count
    assert example.sentence.endswith("; and 492 more")


def test_operations_that_read_each_other_in_one_direction_are_not_circular(tmp_path):
    lines = [
        ok("p", send("a", 0)),
        ok("q", send("b", 0, key="y-0"), poll((0, "a"))),
        ok("p", poll((0, "b"), key="y-0")),
    ]
    assert found(judged(tmp_path, *lines)) == set()


def test_write_cycle_and_reads_make_no_circle_together(tmp_path):
    lines = [ok("p", send("a", 0), send("c", 2, key="y-0")), ok("q", poll((0, "a")), send("b", 1, key="y-0"))]
    assert found(judged(tmp_path, *lines)) == set()


def test_value_without_a_writer_is_counted_and_no_fault(tmp_path):
    example = only(judged(tmp_path, ok("q", poll((0, "a")))), Anomaly.UNKNOWN_WRITER, is_fault=False)
    assert (example.key, example.offsets, example.values) == ("x-0", (0,), ("a",))


def test_operation_that_nobody_ended_is_unknown_with_all_that_it_did(tmp_path):
    begun = {"type": "invoke", "process": "p", "micro_operations": [send("a", 0)]}
    report = judged(tmp_path, begun, {**begun, "micro_operations": [send("b", 0, key="y-0")]}, final("r"))
    assert (report.operations, found(report)) == (1, set())
    seen = ok("r", poll((0, "a")))
    assert only(judged(tmp_path, begun, {**begun, "micro_operations": [send("b")]}, final("r"), seen), Anomaly.UNSEEN)


def test_all_is_counted_and_the_first_examples_kept(tmp_path):
    lines = [failed("p", *(send(number, number) for number in range(50))), ok("q", poll(*((n, n) for n in range(50))))]
    report = check(history(tmp_path, *lines), examples_max=2)
    assert (report.faults[Anomaly.ABORTED_READ], [one.values for one in report.examples]) == (50, [(0,), (1,)])
    assert check(history(tmp_path, *lines), examples_max=0).examples == ()


def test_many_values_at_one_offset_and_many_copies_of_one_value_are_told_in_short(tmp_path):
    crowd = [ok(f"p{number}", send(number, 0)) for number in range(20_000)]
    report = judged(tmp_path, *crowd)
    (example,) = report.examples
    assert (example.values, report.faults[Anomaly.INCONSISTENT_OFFSETS]) == ((0, 1, 2), 1)
    assert example.sentence.endswith("and 19997 more")
    copies = ok("r", poll(*((number, "a") for number in range(20_000))))
    report = judged(tmp_path, ok("p", send("a")), copies)
    (example,) = report.examples
    assert (example.offsets, report.faults[Anomaly.DUPLICATE]) == ((0, 1, 2), 1)
    assert example.sentence == 'x-0 holds "a" at offsets 0, 1, 2 and 19997 more, sent once by p (line 1)'


def test_faults_are_shown_before_what_is_none(tmp_path):
    back = [poll((1, "b")), poll((0, "a"))]
    lines = [FOUR]
    for process, consumer in (("p", subscribe), ("q", subscribe), ("r", assign)):
        lines += [consumer(process), *(ok(process, one) for one in back)]
    report = check(history(tmp_path, *lines), examples_max=1)
    assert (report.found[Anomaly.NONMONOTONIC_POLL], report.faults[Anomaly.NONMONOTONIC_POLL]) == (3, 1)
    assert [one.is_fault for one in report.examples] == [True]


def test_history_in_several_files_is_one(tmp_path):
    written(tmp_path, [ok("p", send("a", 0)), ok("p", send("b", 1))], "p.jsonl")
    written(tmp_path, [ok("q", poll((1, "b")))], "q.jsonl")
    report = check(read_history([tmp_path / "q.jsonl", tmp_path / "p.jsonl"]))
    (operation,) = only(report, Anomaly.LOST_WRITE).operations
    assert (operation.source, operation.line) == (str(tmp_path / "p.jsonl"), 1)
