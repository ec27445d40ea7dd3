"""What ZooKeeper has of the users of SCRAM, below `/config/users`: each broker looks there when somebody logs in (KIP-84)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncelog.cluster.asking import ask, within
from oncelog.cluster.zookeeper.session import Create, Data, GetData, SetData, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import ConfigEntity, decode_config, encode_config, paths, sanitize
from oncelog.coordination import start
from oncelog.security.scram import ScramCredential

if TYPE_CHECKING:
    from oncelog.cluster.configs import ClusterConfigs
    from oncelog.cluster.zookeeper.session import ZooKeeper
    from oncelog.environment import Clock
    from oncelog.security.values import Scram

logger = logging.getLogger("oncelog.broker")

USERS = "users"
PATIENCE_MS = 2_000
CHANGED_MEANWHILE = (ZooKeeperError.BAD_VERSION, ZooKeeperError.NODE_EXISTS, ZooKeeperError.NO_NODE)


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


async def change_user(
    zookeeper: ZooKeeper, username: str, mechanism: Scram, credential: ScramCredential | None
) -> bool:
    """Give a user a password, or take it away; whether there was one before. Raises SessionEndedError.

    It is done as `kafka-configs --zookeeper` does it: there need be no broker yet.
    """
    entity = ConfigEntity(USERS, sanitize(username))
    path = paths.config(USERS, entity.entity)
    for parent in (*paths.parents(path), *paths.parents(paths.CONFIG_CHANGE)):
        await ask(zookeeper, Create(parent))
    written: object = CHANGED_MEANWHILE[0]
    had_one = False
    while written in CHANGED_MEANWHILE:
        found = await ask(zookeeper, GetData(path))
        config = decode_config(USERS, entity.entity, found.data) if isinstance(found, Data) else {}
        had_one = config.pop(mechanism, None) is not None
        if credential is None and not had_one:
            return False
        if credential is not None:
            config[mechanism] = str(credential)
        data = encode_config(config)
        write = SetData(path, data, found.stat.version) if isinstance(found, Data) else Create(path, data)
        written = await ask(zookeeper, write)
    await ask(zookeeper, Create(paths.CONFIG_CHANGE, entity.encode(), is_sequential=True))
    return had_one
