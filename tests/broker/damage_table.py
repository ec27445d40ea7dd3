"""Every kind of damage: the file, what happens to it, and what becomes of that after a clean stop and after a kill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from harness.broker_in_memory import DIRECTORY
from tests.broker.damage import (
    FIRST,
    Harm,
    Path,
    emptied,
    fixed,
    flipped,
    largest,
    last_batch,
    last_line,
    newest_snapshot,
    newest_write_ahead,
    removed,
    replaced,
    segment,
    shortened,
    swapped,
    zeroed,
)


class Outcome(NamedTuple):
    """What a start served and said, what `oncelog log verify` called it, and what `oncelog log repair` made of it."""

    served: str
    said: str
    verify: str
    repair: str


@dataclass(frozen=True)
class Damage:
    """What becomes of it after a clean stop and after a kill; None where there is no such file then."""

    file: str
    kind: str
    harm: Harm
    stop: Outcome | None
    kill: Outcome | None = None

    def __str__(self) -> str:
        return f"{self.file} {self.kind}"


WHOLE = "everything"
OFFLINE = "all but the partition"
AT_READ = "all but the partition, once the place is read"
NO_COORDINATOR = "all but the ids or groups in it"
REFUSED = "nothing: the start is refused"

PLACE = "file and offset"
FILE = "the file"
ANEW = "that it is made anew"
AGAIN = "that the log is read again"
UNUSED = "that it is not used"
CORRECTED = "that `oncelog-checkpoint` counts"
NOTHING = "nothing"

DAMAGE, PENDING = "damage", "pending"
LOSS, NO_LOSS = "what is lost", "without a loss"

LOST = Outcome(OFFLINE, PLACE, DAMAGE, LOSS)
MENDED_AT_READ = Outcome(AT_READ, PLACE, DAMAGE, NO_LOSS)
LOST_AT_READ = Outcome(AT_READ, PLACE, DAMAGE, LOSS)
MENDED = Outcome(OFFLINE, PLACE, DAMAGE, NO_LOSS)
STOPPED = Outcome(REFUSED, FILE, DAMAGE, NO_LOSS)
MADE_ANEW = Outcome(WHOLE, ANEW, DAMAGE, NO_LOSS)
READ_AGAIN = Outcome(WHOLE, AGAIN, DAMAGE, NO_LOSS)
NONE_NEEDED = Outcome(WHOLE, NOTHING, NOTHING, NOTHING)
NOT_USED = Outcome(WHOLE, UNUSED, DAMAGE, NO_LOSS)
LEFT_PENDING = Outcome(WHOLE, NOTHING, PENDING, NOTHING)
MADE_ANEW_PENDING = Outcome(WHOLE, ANEW, PENDING, NOTHING)
IDS_LOST = Outcome(NO_COORDINATOR, PLACE, DAMAGE, LOSS)
MADE_ANEW_ALONE = Outcome(WHOLE, ANEW, NOTHING, NOTHING)
UNUSED_PENDING = Outcome(WHOLE, UNUSED, PENDING, NOTHING)
STOPPED_WITH_LOSS = Outcome(REFUSED, FILE, DAMAGE, LOSS)
OWN_COUNTS = Outcome(WHOLE, CORRECTED, DAMAGE, NO_LOSS)


def of(name: str) -> Path:
    return fixed(f"{DIRECTORY}/{name}")


def in_partition(name: str) -> Path:
    return fixed(f"{FIRST}/{name}")


LOG, INDEX, TIMES, ABORTED, SNAPSHOT = "`.log`", "`.index`", "`.timeindex`", "`.txnindex`", "`.snapshot`"
EPOCHS, METADATA, JOURNAL = "leader-epoch-checkpoint", "partition.metadata", "oncelog-metadata.jsonl"
META, OWN = "meta.properties", "oncelog-checkpoint"
RECOVERY_POINTS, LOG_STARTS, WATERMARKS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)
DECISIONS, OFFSETS, WRITE_AHEAD = "`__transaction_state`", "`__consumer_offsets`", "`oncelog-wal-….log`"


DAMAGES = [
    Damage(LOG, "the first removed", removed(segment(0)), LOST),
    Damage(LOG, "one in the middle removed", removed(segment(1)), LOST),
    Damage(LOG, "the last removed", removed(segment(-1)), LOST),
    Damage(LOG, "the first emptied", emptied(segment(0)), LOST),
    Damage(LOG, "one in the middle emptied", emptied(segment(1)), LOST),
    Damage(LOG, "the last emptied", emptied(segment(-1)), LOST),
    Damage(LOG, "the first zeroed", zeroed(segment(0)), LOST),
    Damage(LOG, "one in the middle zeroed", zeroed(segment(1)), LOST),
    Damage(LOG, "the last zeroed", zeroed(segment(-1)), LOST),
    Damage(LOG, "one in the middle cut inside a batch", shortened(segment(1), lambda data: len(data) - 7), LOST),
    Damage(LOG, "one in the middle cut after a batch", shortened(segment(1), last_batch), LOST),
    Damage(LOG, "the last cut inside a batch", shortened(segment(-1), lambda data: len(data) - 7), LOST),
    Damage(LOG, "the last cut after a batch", shortened(segment(-1), last_batch), LOST),
    Damage(LOG, "two swapped", swapped(segment(0), segment(1)), LOST),
    Damage(LOG, "a record changed, in the middle", flipped(segment(1), lambda data: 80), MENDED_AT_READ),
    Damage(LOG, "a record changed, at the end", flipped(segment(-1), lambda data: len(data) - 9), LOST_AT_READ, LOST),
    Damage(LOG, "a base offset changed, in the middle", flipped(segment(1), lambda data: 7), MENDED_AT_READ),
    Damage(
        LOG, "a base offset changed, at the end", flipped(segment(-1), lambda data: last_batch(data) + 7), MENDED, LOST
    ),
    Damage(LOG, "a length changed, in the middle", flipped(segment(1), lambda data: 11), MENDED_AT_READ),
    Damage(LOG, "a length changed, at the end", flipped(segment(-1), lambda data: last_batch(data) + 11), MENDED),
    Damage(LOG, "a leader epoch changed, in the middle", flipped(segment(1), lambda data: 15), MENDED_AT_READ),
    Damage(LOG, "a leader epoch changed, at the end", flipped(segment(-1), lambda data: last_batch(data) + 15), MENDED),
    Damage(LOG, "a format version changed", flipped(segment(1), lambda data: 16), MENDED_AT_READ),
    Damage(INDEX, "removed", removed(segment(1, ".index")), MADE_ANEW),
    Damage(INDEX, "zeroed", zeroed(segment(1, ".index")), MADE_ANEW),
    Damage(INDEX, "an entry changed", flipped(segment(1, ".index"), lambda data: len(data) - 1), MADE_ANEW),
    Damage(INDEX, "the last one's removed", removed(segment(-1, ".index")), READ_AGAIN, NONE_NEEDED),
    Damage(TIMES, "removed", removed(segment(1, ".timeindex")), MADE_ANEW),
    Damage(TIMES, "emptied", emptied(segment(1, ".timeindex")), MADE_ANEW),
    Damage(TIMES, "zeroed", zeroed(segment(1, ".timeindex")), MADE_ANEW),
    Damage(TIMES, "cut by an entry", shortened(segment(1, ".timeindex"), lambda data: len(data) - 12), MADE_ANEW),
    Damage(TIMES, "an entry changed", flipped(segment(1, ".timeindex"), lambda data: len(data) - 5), MADE_ANEW),
    Damage(TIMES, "two swapped", swapped(segment(0, ".timeindex"), segment(1, ".timeindex")), MADE_ANEW),
    Damage(TIMES, "the last one's removed", removed(segment(-1, ".timeindex")), READ_AGAIN, NONE_NEEDED),
    Damage(ABORTED, "removed", removed(segment(1, ".txnindex")), MADE_ANEW),
    Damage(ABORTED, "emptied", emptied(segment(1, ".txnindex")), MADE_ANEW),
    Damage(ABORTED, "cut by an entry", shortened(segment(1, ".txnindex"), lambda data: len(data) - 34), MADE_ANEW),
    Damage(ABORTED, "zeroed", zeroed(segment(1, ".txnindex")), MADE_ANEW),
    Damage(ABORTED, "an entry changed", flipped(segment(1, ".txnindex"), lambda data: 17), MADE_ANEW),
    Damage(ABORTED, "two swapped", swapped(segment(0, ".txnindex"), segment(1, ".txnindex")), MADE_ANEW),
    Damage(ABORTED, "the last removed", removed(segment(-1, ".txnindex")), MADE_ANEW),
    Damage(SNAPSHOT, "the newest removed", removed(newest_snapshot), READ_AGAIN, NONE_NEEDED),
    Damage(SNAPSHOT, "the newest emptied", emptied(newest_snapshot), READ_AGAIN, NOT_USED),
    Damage(SNAPSHOT, "the newest changed", flipped(newest_snapshot, lambda data: 12), READ_AGAIN, NOT_USED),
    Damage(f"`{EPOCHS}`", "removed", removed(in_partition(EPOCHS)), MADE_ANEW),
    Damage(f"`{EPOCHS}`", "emptied", emptied(in_partition(EPOCHS)), MADE_ANEW),
    Damage(f"`{EPOCHS}`", "changed", flipped(in_partition(EPOCHS), lambda data: 0), MADE_ANEW),
    Damage(f"`{METADATA}`", "removed", removed(in_partition(METADATA)), MADE_ANEW, LEFT_PENDING),
    Damage(f"`{METADATA}`", "emptied", emptied(in_partition(METADATA)), MADE_ANEW, LEFT_PENDING),
    Damage(f"`{METADATA}`", "another topic's id", flipped(in_partition(METADATA), lambda data: len(data) - 6), MENDED),
    Damage("a partition's directory", "removed", removed(fixed(FIRST)), LOST),
    Damage(DECISIONS, "removed", removed(largest("__transaction_state")), IDS_LOST),
    Damage(DECISIONS, "zeroed", zeroed(largest("__transaction_state")), IDS_LOST),
    Damage(DECISIONS, "cut after a batch", shortened(largest("__transaction_state"), last_batch), IDS_LOST),
    Damage(DECISIONS, "a record changed", flipped(largest("__transaction_state"), lambda data: 80), IDS_LOST),
    Damage(OFFSETS, "removed", removed(largest("__consumer_offsets")), IDS_LOST),
    Damage(OFFSETS, "zeroed", zeroed(largest("__consumer_offsets")), IDS_LOST),
    Damage(OFFSETS, "cut after a batch", shortened(largest("__consumer_offsets"), last_batch), IDS_LOST),
    Damage(OFFSETS, "a record changed", flipped(largest("__consumer_offsets"), lambda data: 80), IDS_LOST),
    Damage(WRITE_AHEAD, "removed", removed(newest_write_ahead), None, MADE_ANEW_ALONE),
    Damage(WRITE_AHEAD, "emptied", emptied(newest_write_ahead), None, UNUSED_PENDING),
    Damage(WRITE_AHEAD, "zeroed", zeroed(newest_write_ahead), None, UNUSED_PENDING),
    Damage(WRITE_AHEAD, "cut", shortened(newest_write_ahead, lambda data: len(data) - 5), None, UNUSED_PENDING),
    Damage(WRITE_AHEAD, "changed", flipped(newest_write_ahead, lambda data: len(data) - 5), None, UNUSED_PENDING),
    Damage(f"`{JOURNAL}`", "removed", removed(of(JOURNAL)), STOPPED_WITH_LOSS),
    Damage(f"`{JOURNAL}`", "emptied", emptied(of(JOURNAL)), STOPPED_WITH_LOSS),
    Damage(f"`{JOURNAL}`", "cut inside a line", shortened(of(JOURNAL), lambda data: len(data) - 5), STOPPED_WITH_LOSS),
    Damage(f"`{JOURNAL}`", "the last line cut", shortened(of(JOURNAL), last_line), STOPPED_WITH_LOSS),
    Damage(f"`{JOURNAL}`", "changed", flipped(of(JOURNAL), lambda data: 30), STOPPED_WITH_LOSS),
    Damage(
        f"`{JOURNAL}`", "the last line changed", flipped(of(JOURNAL), lambda data: len(data) - 9), STOPPED_WITH_LOSS
    ),
    Damage(f"`{META}`", "removed", removed(of(META)), STOPPED),
    Damage(f"`{META}`", "emptied", emptied(of(META)), STOPPED),
    Damage(f"`{RECOVERY_POINTS}`", "removed", removed(of(RECOVERY_POINTS)), MADE_ANEW, MADE_ANEW_PENDING),
    Damage(f"`{RECOVERY_POINTS}`", "emptied", emptied(of(RECOVERY_POINTS)), STOPPED),
    Damage(f"`{RECOVERY_POINTS}`", "changed", flipped(of(RECOVERY_POINTS), lambda data: 0), STOPPED),
    Damage(
        f"`{RECOVERY_POINTS}`",
        "an offset larger",
        replaced(of(RECOVERY_POINTS), b"ledger 0 24", b"ledger 0 94"),
        MENDED,
        LOST,
    ),
    Damage(f"`{LOG_STARTS}`", "removed", removed(of(LOG_STARTS)), MADE_ANEW, MADE_ANEW_PENDING),
    Damage(f"`{LOG_STARTS}`", "changed", flipped(of(LOG_STARTS), lambda data: 0), STOPPED),
    Damage(f"`{LOG_STARTS}`", "an offset larger", replaced(of(LOG_STARTS), b"ledger 0 1", b"ledger 0 10"), OWN_COUNTS),
    Damage(
        f"`{LOG_STARTS}`",
        "an offset beyond the log",
        replaced(of(LOG_STARTS), b"ledger 0 1", b"ledger 0 99"),
        OWN_COUNTS,
    ),
    Damage(f"`{WATERMARKS}`", "removed", removed(of(WATERMARKS)), MADE_ANEW, MADE_ANEW_PENDING),
    Damage(f"`{WATERMARKS}`", "changed", flipped(of(WATERMARKS), lambda data: 0), MADE_ANEW),
    Damage(f"`{OWN}`", "removed", removed(of(OWN)), MADE_ANEW_ALONE),
    Damage(f"`{OWN}`", "emptied", emptied(of(OWN)), MADE_ANEW),
    Damage(f"`{OWN}`", "changed", flipped(of(OWN), lambda data: 30), MADE_ANEW),
]


def cell(damage: Damage, field: str) -> str:
    """What a column of the page says of both ends."""
    after = [getattr(one, field) for one in (damage.stop, damage.kill) if one is not None]
    return after[0] if len(set(after)) == 1 else f"{after[0]}; after a kill {after[1]}"


def page_table() -> str:
    heads = ("file", "damage", "what is served", "what the start says", "`verify`", "`repair`")
    rows = [(one.file, one.kind, *(cell(one, field) for field in Outcome._fields)) for one in DAMAGES]
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])
