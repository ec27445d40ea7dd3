"""The real broker and the real client on a disk, a network and a clock that one seed decides."""
