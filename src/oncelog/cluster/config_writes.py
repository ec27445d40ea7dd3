"""Writes settings as Kafka's brokers do: all settings of an entity at once, then a notification.

The last writer wins, as in Kafka. Errors: stale_controller_epoch, if there is no controller or another one by then.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.zookeeper.asking import ask
from oncelog.cluster.zookeeper.session import (
    Check,
    Create,
    Data,
    GetData,
    Multi,
    Results,
    SetData,
    ZooKeeper,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import ConfigEntity, encode_config, paths
from oncelog.wire import ErrorCode


async def change_configs(zookeeper: ZooKeeper, entity: ConfigEntity, configs: Mapping[str, str]) -> ApiError | None:
    """Writes the settings, and notifies every broker; None when that is done. Raises SessionEndedError."""
    problem = await write_configs(zookeeper, entity, configs)
    if problem is None:
        await ask(zookeeper, Create(paths.CONFIG_CHANGE, entity.encode(), is_sequential=True))
    return problem


async def write_configs(zookeeper: ZooKeeper, entity: ConfigEntity, configs: Mapping[str, str]) -> ApiError | None:
    """Writes the settings without a notification; None when that is done. Raises SessionEndedError."""
    path, data = paths.config(entity.entity_type, entity.entity), encode_config(configs)
    while True:
        written = await _set(zookeeper, path, data)
        if written is ZooKeeperError.NO_NODE:
            if await ask(zookeeper, Create(path, data)) is ZooKeeperError.NODE_EXISTS:
                continue
            return None
        if written is None:
            return None
        return ApiError(
            ErrorCode.stale_controller_epoch,
            f"Cannot set entity configs for {entity.entity_type} {entity.entity} when there is no controller.",
        )


async def _set(zookeeper: ZooKeeper, path: str, data: bytes) -> ZooKeeperError | None:
    """The controller's node must not change on the way: with it Kafka keeps brokers from writing while it moves to KRaft."""
    controller = await ask(zookeeper, GetData(paths.CONTROLLER))
    if not isinstance(controller, Data):
        return ZooKeeperError.BAD_VERSION
    results = await ask(zookeeper, Multi((Check(paths.CONTROLLER, controller.stat.version), SetData(path, data))))
    assert isinstance(results, Results), results
    checked, written = results.each
    if isinstance(checked, ZooKeeperError) and checked not in (ZooKeeperError.ROLLED_BACK, ZooKeeperError.NOT_TRIED):
        return ZooKeeperError.BAD_VERSION
    return written if isinstance(written, ZooKeeperError) else None
