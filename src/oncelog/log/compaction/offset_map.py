"""The last offset of each key, in memory whose size is given (Kafka's SkimpyOffsetMap).

It holds a hash of 16 bytes in place of a key, and knows keys by nothing else. The hash is BLAKE2b: with MD5, which Kafka takes,
a writer could make two keys that are one to the map.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b

HASH_BYTES = 16
ENTRY_BYTES = HASH_BYTES + 8
_PROBE_BYTES = 4
_PROBES = HASH_BYTES - _PROBE_BYTES
SLOTS_MIN = 2
SPARE = 2
"""A map with twice the slots that are needed finds a key at the first look, nearly always."""


class OffsetMap:
    """`latest_offset` is how far the log was looked at, -1 before that."""

    __slots__ = ("_capacity", "_count", "_hashes", "_offsets", "_slots", "latest_offset")

    def __init__(self, size_bytes_max: int, load_factor: float, keys_max: int) -> None:
        """`keys_max` is how many keys there can be: no more room than that is taken."""
        slots_max = max(size_bytes_max // ENTRY_BYTES, SLOTS_MIN)
        self._slots = min(slots_max, max(keys_max * SPARE, SLOTS_MIN))
        # One slot is free: a search ends there.
        wanted = keys_max if self._slots < slots_max else int(self._slots * load_factor)
        self._capacity = min(max(wanted, 1), self._slots - 1)
        self._count = 0
        # The memory is taken with the first key, beside the event loop: so much of it takes time.
        self._hashes = bytearray()
        # 0 is a free slot, and what is kept is the offset and 1.
        self._offsets = array("q")
        self.latest_offset = -1

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        return self._count >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """The caller has seen that the map is not full."""
        if not self._count:
            self._hashes = bytearray(self._slots * HASH_BYTES)
            self._offsets = array("q", bytes(8)) * self._slots
        digest = blake2b(key, digest_size=HASH_BYTES).digest()
        slot = self._slot_of(digest)
        if not self._offsets[slot]:
            start = slot * HASH_BYTES
            self._hashes[start : start + HASH_BYTES] = digest
            self._count += 1
        self._offsets[slot] = offset + 1
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """The last offset of a key; -1 for one that was never put."""
        if not self._count:
            return -1
        return self._offsets[self._slot_of(blake2b(key, digest_size=HASH_BYTES).digest())] - 1

    def _slot_of(self, digest: bytes) -> int:
        """The slot of a key, or a free one for it. Every four bytes of the hash name a slot; then slots come in their order."""
        offsets, hashes, slots = self._offsets, self._hashes, self._slots
        for at in range(_PROBES + 1):
            slot = int.from_bytes(digest[at : at + _PROBE_BYTES], "big") % slots
            start = slot * HASH_BYTES
            if not offsets[slot] or hashes[start : start + HASH_BYTES] == digest:
                return slot
        while True:
            slot = (slot + 1) % slots
            start = slot * HASH_BYTES
            if not offsets[slot] or hashes[start : start + HASH_BYTES] == digest:
                return slot
