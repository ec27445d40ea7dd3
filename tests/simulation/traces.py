"""Runs in processes of their own: what is decided by a seed alone is the same in each."""

from __future__ import annotations

import os
import subprocess
import sys


def traces(code: str) -> list[str]:
    """What the code prints under two hash seeds."""
    return [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
