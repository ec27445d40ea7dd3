"""Bytes that a disk changes, loses or makes up."""

from __future__ import annotations

from pathlib import Path
from random import Random

NOT_COMPARED = (".lock", ".kafka_cleanshutdown", "oncelog-reserve")
"""Nothing is in them that anybody reads."""


def damage(path: Path, random: Random) -> bool:
    """Damage a file in one of many ways; return whether it is another one now."""
    before = path.read_bytes()
    kind = random.choice(("flip", "flip", "zeros", "random", "cut", "append", "repeat", "remove"))
    if kind == "remove":
        path.unlink()
        return True
    data = bytearray(before)
    start = random.randrange(len(data)) if data else 0
    if kind == "append" or not data:
        data += random.randbytes(random.randrange(1, 200))
    elif kind == "flip":
        data[start] ^= 1 << random.randrange(8)
    elif kind == "zeros":
        end = min(len(data), start + random.randrange(1, 600))
        data[start:end] = bytes(end - start)
    elif kind == "random":
        end = min(len(data), start + random.randrange(1, 100))
        data[start:end] = random.randbytes(end - start)
    elif kind == "cut":
        del data[start:]
    else:
        data += data[start:]
    path.write_bytes(data)
    return bytes(data) != before


def files_of(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name not in NOT_COMPARED]
