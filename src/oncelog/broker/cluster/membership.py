"""What makes a broker one of several: its entry in ZooKeeper, what the controller tells it, and its replicas of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.cluster.members import Members
from oncelog.broker.readiness import Readiness
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.cluster.registration import Registration
    from oncelog.broker.cluster.replicas import Replicas
    from oncelog.broker.readiness import StartProgress
    from oncelog.broker.storage.shared_topics import SharedTopics


class Membership:
    def __init__(
        self,
        members: Members,
        registration: Registration,
        topics: SharedTopics,
        replicas: Replicas,
        progress: StartProgress,
    ) -> None:
        self.members = members
        self.replicas = replicas
        self.topics = topics
        self._registration = registration
        self._progress = progress

    def problem(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> ErrorCode | None:
        """Why a request of this controller, to this life of the broker, is not carried out; None if it is.

        Errors: stale_broker_epoch, stale_controller_epoch.
        """
        if broker_epoch != -1 and broker_epoch < self._registration.epoch:
            return ErrorCode.stale_broker_epoch
        if not self.members.hear(controller_id, controller_epoch):
            return ErrorCode.stale_controller_epoch
        return None

    def is_told(self) -> None:
        """The controller has said what there is: clients can be served."""
        if self._progress.reached < Readiness.METADATA:
            self._progress.reach(Readiness.METADATA)
            self._progress.reach(Readiness.COORDINATORS)
