"""Fuzz one target for long, guided by what it covers: `python -m tests.fuzz TARGET [SECONDS]`. It needs atheris.

Bytes that lead to other code are kept in .cache/fuzz/TARGET, so that the next run goes on from there. A finding is written to
tests/fuzz/corpus/TARGET, where the tests find it.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["oncelog"]):
    from tests.fuzz.targets import TARGETS, seeds

CORPUS = Path(__file__).parent / "corpus"
KEPT = Path(".cache") / "fuzz"
SECONDS = "600"
INPUT_BYTES_MAX = 8192


def main(target: str, seconds: str = SECONDS) -> None:
    kept, findings = KEPT / target, CORPUS / target
    for directory in (kept, findings):
        directory.mkdir(parents=True, exist_ok=True)
    for seed in seeds(target):
        (kept / sha256(seed).hexdigest()[:16]).write_bytes(seed)
    arguments = [
        sys.argv[0],
        str(kept),
        str(findings),
        f"-artifact_prefix={findings}/",
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        "-rss_limit_mb=2048",
    ]
    atheris.Setup(arguments, TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
