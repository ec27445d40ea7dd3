"""What ZooKeeper has of the users of SCRAM, below `/config/users`: each broker looks there when somebody logs in."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncelog.broker.cluster.asking import within
from oncelog.coordination import start
from oncelog.security.scram_server import ScramCredential
from oncelog.zookeeper.znodes import ConfigEntity, sanitize

if TYPE_CHECKING:
    from oncelog.broker.cluster.configs import ClusterConfigs
    from oncelog.environment import Clock
    from oncelog.security.values import Scram

logger = logging.getLogger("oncelog.broker")

USERS = "users"
PATIENCE_MS = 2_000


class ScramCredentials:
    """A password that was changed is another one at once. While ZooKeeper is not reached, what it had last counts."""

    def __init__(self, configs: ClusterConfigs, clock: Clock) -> None:
        self._configs = configs
        self._clock = clock
        self._last: dict[str, dict[str, str]] = {}

    async def credential(self, mechanism: Scram, username: str) -> ScramCredential | None:
        """None for a user that is not known."""
        if not username:
            return None
        reading = start(self._configs.stored(ConfigEntity(USERS, sanitize(username))))
        stored = await within(self._clock, PATIENCE_MS, reading)
        if stored is None:
            stored = self._last.get(username, {})
        elif stored:
            self._last[username] = stored
        else:
            self._last.pop(username, None)
        text = stored.get(mechanism)
        if text is None:
            return None
        try:
            return ScramCredential.parse(text)
        except ValueError as error:
            logger.warning("%s of user %s in ZooKeeper is left alone: %s", mechanism, username, error)
            return None
