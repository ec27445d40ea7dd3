"""Where a repair keeps what it changes or removes: a directory with the same paths below it."""

from __future__ import annotations

from oncelog.environment import Disk

PREFIX = "oncelog-repaired."
COPY_BYTES = 1024 * 1024


class Aside:
    """Made with the first file that goes there. Its name is none that a broker takes for a partition's."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        numbers = [name.removeprefix(PREFIX) for name in disk.list_directory(root) if name.startswith(PREFIX)]
        number = 1 + max((int(text) for text in numbers if text.isdecimal()), default=0)
        self.path = f"{root}/{PREFIX}{number}"
        self.count = 0

    def copy(self, path: str) -> None:
        """Keep a copy, durable on return; of a file that is kept already, what it was at first."""
        if self._disk.exists(self._target(path)):
            return
        source = self._disk.open(path)
        target_path = self._place(path)
        target = self._disk.open(target_path, create=True)
        try:
            target.truncate(0)
            for position in range(0, source.size_bytes, COPY_BYTES):
                target.append([source.read(position, COPY_BYTES)])
            target.sync()
        finally:
            source.close()
            target.close()

    def move(self, path: str) -> None:
        """Keep the file itself, on this file system."""
        self._disk.rename(path, self._place(path))

    def _place(self, path: str) -> str:
        place = self._target(path)
        self._disk.make_directory(place.rpartition("/")[0])
        self.count += 1
        return place

    def _target(self, path: str) -> str:
        return f"{self.path}/{path.removeprefix(self._root).strip('/')}"
