"""A repair loses its power at each of its steps; the next one finishes it, and a broker starts on what it leaves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from harness.broker_in_memory import BrokerInMemory, CountingRandom, SteppedDisk
from harness.manual_clock import ManualClock
from harness.used_directory import SETTINGS, UsedDirectory
from oncelog.cli.log.repairing import plan_node, repair_node
from oncelog.cli.log.verification import NodeFindings, verify_node
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk
from oncelog.simulation.memory_disk import SyncMark
from tests.cli.log.damages import damage, files_of

DIRECTORY = "/data"


class PowerCut(Exception):
    """The machine is gone."""


class CutDisk(SteppedDisk):
    """Loses its power before a step: a name that changes, a file that becomes durable."""

    left = 10**9

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise PowerCut

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def replace_file(self, path: str, data: bytes) -> None:
        self._step()
        super().replace_file(path, data)

    def sync_up_to(self, mark: SyncMark) -> None:
        self._step()
        super().sync_up_to(mark)


def on_memory(data: Path, seed: int) -> CutDisk:
    disk = CutDisk(seed)
    disk.make_directory(DIRECTORY)
    for path in sorted(data.rglob("*")):
        name = f"{DIRECTORY}/{path.relative_to(data)}"
        if path.is_dir():
            disk.make_directory(name)
        else:
            file = disk.open(name, create=True)
            file.append([path.read_bytes()])
            file.sync()
    return disk


def repair(disk: CutDisk) -> NodeFindings:
    reading = ReadOnlyDisk(disk)
    random = CountingRandom()
    found = verify_node(reading, [DIRECTORY])
    if found.damages:
        plan = plan_node(reading.with_patches(found.write_ahead.patches), found, random.uuid)
        repair_node(disk, plan, random.uuid)
    return verify_node(reading, [DIRECTORY])


def check_starts(disk: CutDisk) -> None:
    broker = BrokerInMemory(disk, ManualClock(), (DIRECTORY,), **SETTINGS)
    broker.settle()
    assert broker.failures == []


@pytest.mark.slow
@pytest.mark.drawn(8)
@pytest.mark.parametrize("was_clean", [True, False], ids=["after a clean stop", "after a kill"])
@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_at_any_step_is_made_up_for(
    used: UsedDirectory, tmp_path: Path, seed: int, was_clean: bool
) -> None:
    random = Random(seed)
    node = used.copy(tmp_path)
    if not was_clean:
        node.start()
        used.transaction(node.bootstrap_servers, 30)
        node.kill()
    data = node.data_directory
    for path in random.sample([path for path in files_of(data) if "wal" not in path.name], 3):
        damage(path, random)
    step, is_over = 0, False
    while not is_over:
        disk = on_memory(data, step)
        disk.left = step
        with suppress(PowerCut):
            repair(disk)
            is_over = True
        disk.left = 10**9
        if not is_over:
            disk.crash()
        assert repair(disk).damages == []
        check_starts(disk)
        step += 1 + step // 2
    assert step > 1
