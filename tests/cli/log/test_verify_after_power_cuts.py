"""What a crash leaves is no damage: brokers in memory are killed or lose their power at any step, and what is left is verified."""

from __future__ import annotations

import pytest

from oncelog.cli.log.verification import verify_node
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk
from tests.broker.test_random_crashes import Run


class VerifiedRun(Run):
    """Looks at what each crash has left, before a broker starts on it."""

    def crash(self) -> None:
        restart = self.broker.restart

        def verified() -> None:
            found = verify_node(ReadOnlyDisk(self.disk), list(self.broker.directories))
            assert found.damages == []
            restart()

        self.broker.restart = verified
        try:
            super().crash()
        finally:
            self.broker.restart = restart


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", range(1, 41))
def test_no_crash_leaves_damage(seed: int) -> None:
    VerifiedRun(seed).play()
