"""The users of SCRAM that a cluster keeps in ZooKeeper, below `/config/users` (KIP-84, KIP-554), for the brokers they log in at."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncelog.cluster.config_writes import change_configs
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.zookeeper.asking import SessionEndedError, ask, within
from oncelog.cluster.zookeeper.session import Children, Create, Data, GetChildren, GetData, SetData, ZooKeeperError
from oncelog.cluster.zookeeper.znodes import ConfigEntity, decode_config, desanitize, encode_config, paths, sanitize
from oncelog.coordination import Promise, start
from oncelog.coordination.flows import OneAtATime
from oncelog.security.scram import ScramCredential
from oncelog.security.values import Scram
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.cluster.configs import ClusterConfigs
    from oncelog.cluster.zookeeper.session import ZooKeeper
    from oncelog.environment import Clock
    from oncelog.security.values import Scram

logger = logging.getLogger("oncelog.broker")

TIMEOUT_MS = 30_000
"""The requests have no timeout: this is the default of request.timeout.ms."""
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
MECHANISMS = {1: Scram.SHA_256, 2: Scram.SHA_512}
"""By their numbers in requests."""
NUMBERS = {mechanism: number for number, mechanism in MECHANISMS.items()}
EMPTY_NAME = ApiError(ErrorCode.unacceptable_credential, "Username must not be empty")
UNKNOWN_MECHANISM = ApiError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
TOO_FEW = ApiError(ErrorCode.unacceptable_credential, "Too few iterations")
TOO_MANY = ApiError(ErrorCode.unacceptable_credential, "Too many iterations")
TWICE = ApiError(ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request")
NOT_THERE = ApiError(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")
TIMED_OUT = ApiError(ErrorCode.request_timed_out, "ZooKeeper has not answered in time")

USERS = "users"
PATIENCE_MS = 2_000
CHANGED_MEANWHILE = (ZooKeeperError.BAD_VERSION, ZooKeeperError.NODE_EXISTS, ZooKeeperError.NO_NODE)


class ScramCredentials:
    """Reads credentials at each log-in, so that a new password counts at once. Without ZooKeeper the last known one counts."""

    def __init__(self, configs: ClusterConfigs, clock: Clock) -> None:
        self._configs = configs
        self._clock = clock
        self._last: dict[str, dict[str, str]] = {}

    async def credential(self, mechanism: Scram, username: str) -> ScramCredential | None:
        """The credential of a user; None if there is none."""
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
            logger.warning("%s of user %s in ZooKeeper is ignored: %s", mechanism, username, error)
            return None


async def change_user(
    zookeeper: ZooKeeper, username: str, mechanism: Scram, credential: ScramCredential | None
) -> bool:
    """Sets or deletes a user's password, as `kafka-configs --zookeeper` does, without a broker.

    Returns True if there was one before. Raises SessionEndedError.
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


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A credential that the client has salted: the password itself stays there."""

    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CredentialChange:
    """A change for one mechanism of a user, by its number in the request. Without `new` the credential is deleted."""

    mechanism: int
    new: NewCredential | None

    @property
    def problem(self) -> ApiError | None:
        if self.mechanism not in MECHANISMS:
            return UNKNOWN_MECHANISM
        if self.new is not None and self.new.iterations < ITERATIONS_MIN:
            return TOO_FEW
        if self.new is not None and self.new.iterations > ITERATIONS_MAX:
            return TOO_MANY
        return None


class ClusterScramUsers:
    """One change at a time: each begins with the result of the one before."""

    def __init__(self, clock: Clock, configs: ClusterConfigs, zookeeper: ZooKeeper) -> None:
        self._clock = clock
        self._configs = configs
        self._zookeeper = zookeeper
        self._changes = OneAtATime()

    async def all(self) -> dict[str, dict[Scram, int]]:
        """The iterations of each user's mechanisms. Raises SessionEndedError."""
        found = await ask(self._zookeeper, GetChildren(paths.config_type(USERS)))
        names = found.names if isinstance(found, Children) else ()
        return await self.of([desanitize(name) for name in sorted(names)])

    async def of(self, users: Sequence[str]) -> dict[str, dict[Scram, int]]:
        """The iterations for these users; leaves out users without SCRAM credentials."""
        stored = await self._configs.stored_each([_entity(user) for user in users])
        found = {user: _iterations(user, configs) for user, configs in zip(users, stored, strict=True)}
        return {user: one for user, one in found.items() if one}

    async def change(self, user: str, changes: Sequence[CredentialChange]) -> ApiError | None:
        """Makes all changes or none; returns None when they are made. They go on if the request times out."""
        problem = _problem(user, changes)
        if problem is not None:
            return problem
        changed: Promise[tuple[ApiError | None]] = start(self._in_turn(user, changes))
        answered = await within(self._clock, TIMEOUT_MS, changed)
        return TIMED_OUT if answered is None else answered[0]

    async def _in_turn(self, user: str, changes: Sequence[CredentialChange]) -> tuple[ApiError | None]:
        await self._changes.enter()
        try:
            return (await self._change(user, changes),)
        except SessionEndedError:
            return (TIMED_OUT,)
        finally:
            self._changes.leave()

    async def _change(self, user: str, changes: Sequence[CredentialChange]) -> ApiError | None:
        configs = await self._configs.stored(_entity(user))
        for one in changes:
            mechanism = MECHANISMS[one.mechanism]
            if one.new is not None:
                new = one.new
                credential = ScramCredential.of_salted_password(
                    mechanism, new.salted_password, new.salt, new.iterations
                )
                configs[mechanism] = str(credential)
            elif configs.pop(mechanism, None) is None:
                return NOT_THERE
        return await change_configs(self._zookeeper, _entity(user), configs)


def _problem(user: str, changes: Sequence[CredentialChange]) -> ApiError | None:
    if not user:
        return EMPTY_NAME
    for one in changes:
        if one.problem is not None:
            return one.problem
    return None if len({one.mechanism for one in changes}) == len(changes) else TWICE


def _entity(user: str) -> ConfigEntity:
    return ConfigEntity(USERS, sanitize(user))


def _iterations(user: str, configs: Mapping[str, str]) -> dict[Scram, int]:
    found = {}
    for mechanism in Scram:
        try:
            if mechanism in configs:
                found[mechanism] = ScramCredential.parse(configs[mechanism]).iterations
        except ValueError as error:
            logger.warning("%s of user %s in ZooKeeper is ignored: %s", mechanism, user, error)
    return found
