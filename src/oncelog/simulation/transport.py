"""Flows over the simulated network. Any number may run at the same time on one transport."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

from oncelog.client.errors import ClientError, ConnectionLost, UnsupportedVersion
from oncelog.client.net.connection import BrokerConnection, in_flight
from oncelog.client.net.flows import (
    Callback,
    ConnectionUse,
    Draw,
    Effect,
    Handshake,
    InFlight,
    Now,
    PendingRequest,
    Send,
    Sleep,
    Wait,
    WallClock,
    Yielded,
)
from oncelog.client.net.settings import ClientSettings
from oncelog.client.requests import Api
from oncelog.client.values import Address
from oncelog.simulation.events import DELAY_MS_MIN, Event, Process, ProcessClock
from oncelog.simulation.network import FrameBuffer, Network, StreamEnd
from oncelog.simulation.on_the_way import OnTheWay

LinkName = tuple[Address, ConnectionUse]
Resume = Callable[[], Any]
Done = Callable[[Any, Exception | None], None]


@dataclass(frozen=True, slots=True)
class Until(Yielded[None]):
    """Go on when it is so; it is looked at again when somebody says that something has changed."""

    is_so: Callable[[], bool]


Play: TypeAlias = Coroutine[Any, Any, Any]
"""The steps of a simulated client."""


class ClientLink:
    """A stream, and the connection that gives its bytes a meaning."""

    def __init__(self, end: StreamEnd, connection: BrokerConnection) -> None:
        self.end = end
        self.connection = connection
        self.frames = FrameBuffer()


class Strand:
    """One flow under way."""

    def __init__(self, transport: SimulatedTransport, play: Play, done: Done) -> None:
        self._transport = transport
        self._play = play
        self._done = done
        self._waits_for: Wait | Until | None = None
        self._until_ms = float("inf")
        self._timer: Event | None = None
        self._is_poked = False

    def go_on(self, resume: Resume) -> None:
        """Take steps up to the next wait."""
        while True:
            try:
                effect = resume()
            except StopIteration as over:
                self._done(over.value, None)
                return
            except ClientError as error:
                self._done(None, error)
                return
            try:
                value = self._transport.perform(self, effect)
            except Exception as error:  # noqa: BLE001 - the flow decides what it means
                resume = self._thrower(error)
                continue
            if value is self:
                return
            resume = self._sender(value)

    def answer(self, value: Any) -> None:
        self.go_on(self._sender(value))

    def fail(self, error: Exception) -> None:
        self.go_on(self._thrower(error))

    def wait(self, effect: Wait | Until) -> None:
        self._waits_for = effect
        timeout_ms = effect.timeout_ms if isinstance(effect, Wait) else None
        self._until_ms = float("inf") if timeout_ms is None else self._transport.now_ms + timeout_ms
        if self._outcome(effect) is None:
            self._listen(effect)
        else:
            self.poke()

    @property
    def waits_to_be_woken(self) -> bool:
        return isinstance(self._waits_for, Wait) and self._waits_for.until_woken

    @property
    def waits_for_change(self) -> bool:
        return isinstance(self._waits_for, Until)

    def poke(self) -> None:
        """Look again, soon.

        A wait of no time takes time, too: a client that looks again and again at something nearly due would stop the
        clock.
        """
        if not self._is_poked and self._waits_for is not None:
            self._is_poked = True
            self._transport.process.after(DELAY_MS_MIN, "look", self._look)

    def _look(self) -> None:
        self._is_poked = False
        effect = self._waits_for
        if effect is None:
            return
        outcome = self._outcome(effect)
        if outcome is None:
            self._listen(effect)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waits_for = None
        if isinstance(effect, Wait) and effect.until_woken:
            self._transport.was_woken = False
        self.answer(outcome)

    def _outcome(self, effect: Wait | Until) -> list[PendingRequest] | None:
        """The requests that are done, or None where the wait goes on."""
        if isinstance(effect, Until):
            return [] if effect.is_so() else None
        transport = self._transport
        transport.give_up_late(effect.awaited)
        done = [pending for pending in effect.awaited if pending.is_done]
        is_woken = effect.until_woken and transport.was_woken
        return done if done or is_woken or transport.now_ms >= self._until_ms else None

    def _listen(self, effect: Wait | Until) -> None:
        if isinstance(effect, Until):
            return
        deadline_ms = self._until_ms
        for pending in effect.awaited:
            pending.on_done = self.poke
            deadline_ms = min(deadline_ms, pending.deadline_ms)
        if self._timer is not None:
            if self._timer.is_due_at(deadline_ms):
                return
            self._timer.cancel()
            self._timer = None
        if deadline_ms != float("inf"):
            transport = self._transport
            self._timer = transport.process.after(deadline_ms - transport.now_ms, "deadline", self.poke)

    def _sender(self, value: Any) -> Resume:
        return lambda: self._play.send(value)

    def _thrower(self, error: Exception) -> Resume:
        return lambda: self._play.throw(error)


class SimulatedTransport:
    """Runs the flows of one client process."""

    def __init__(
        self,
        process: Process,
        network: Network,
        settings: ClientSettings,
        random: Random,
        on_the_way: OnTheWay,
        versions_max: Mapping[Api, int] | None = None,
    ) -> None:
        """`versions_max` is what an older client knows of some of the APIs."""
        self.process = process
        self._on_the_way = on_the_way
        self._versions_max = {api.key: version for api, version in (versions_max or {}).items()}
        self._network = network
        self._settings = settings
        self._random = random
        self._clock = ProcessClock(process)
        self._links: dict[LinkName, ClientLink] = {}
        self._opening: dict[LinkName, list[Callable[[ClientLink | ClientError], None]]] = {}
        self._strands: dict[Strand, None] = {}
        self.was_woken = False
        self.sent: Counter[str] = Counter()

    def run(self, play: Play, done: Done) -> None:
        """Begin a flow; `done` hears of its result, or of the error of the client that ended it."""

        def over(value: Any, error: Exception | None) -> None:
            del self._strands[strand]
            done(value, error)

        strand = Strand(self, play, over)
        self._strands[strand] = None
        strand.answer(None)

    def wake(self) -> None:
        self.was_woken = True
        for strand in self._strands:
            if strand.waits_to_be_woken:
                strand.poke()

    def changed(self) -> None:
        for strand in self._strands:
            if strand.waits_for_change:
                strand.poke()

    def close(self) -> None:
        """End the connections; what is under way fails."""
        for name, link in list(self._links.items()):
            self._drop(name, link, "this client was closed")

    @property
    def now_ms(self) -> float:
        return self._clock.monotonic_ms()

    def perform(self, strand: Strand, effect: Effect | Until) -> Any:
        """The result, or the strand itself where that comes later."""
        match effect:
            case Send():
                return self._send(effect)
            case Wait() | Until():
                strand.wait(effect)
                return strand
            case Sleep():
                pause_ms = self._random.uniform(effect.low_ms, effect.high_ms)
                self.process.after(pause_ms, "sleep", lambda: strand.answer(None))
                return strand
            case Now():
                return self.now_ms
            case Draw():
                return self._random.uniform(effect.low, effect.high)
            case Handshake():
                self._handshake(strand, effect)
                return strand
            case InFlight():
                return in_flight(link.connection for link in self._links.values())
            case WallClock():
                return self._clock.now_ms()
            case Callback():
                return effect.function()

    def give_up_late(self, awaited: tuple[PendingRequest, ...]) -> None:
        """An answer that is late ends its connection: those behind it would be late as well."""
        for pending in awaited:
            name = pending.address, pending.use
            if not pending.is_done and self.now_ms >= pending.deadline_ms and name in self._links:
                self._drop(name, self._links[name], f"no answer to {pending.request.api.name} in time")

    def _handshake(self, strand: Strand, effect: Handshake) -> None:
        def opened(link: ClientLink | ClientError) -> None:
            if isinstance(link, ClientLink):
                strand.answer(link.connection.handshake)
            else:
                strand.fail(link)

        name = effect.address, ConnectionUse.PROMPT
        self._with_link(name, effect.timeout_ms, lambda link: self.process.after(0, "handshake", lambda: opened(link)))

    def _send(self, effect: Send) -> PendingRequest:
        timeout_ms = self._settings.request_timeout_ms if effect.timeout_ms is None else effect.timeout_ms
        pending = PendingRequest(effect.address, effect.request, effect.use)
        self.sent[effect.request.api.name] += 1

        def opened(link: ClientLink | ClientError) -> None:
            if not isinstance(link, ClientLink):
                pending.fail(link)
                return
            self._send_over(link, pending, timeout_ms)
            if pending.on_done is not None:
                pending.on_done()  # who waits has a deadline only now

        self._with_link((pending.address, pending.use), timeout_ms, opened)
        return pending

    def _send_over(self, link: ClientLink, pending: PendingRequest, timeout_ms: float) -> None:
        pending.deadline_ms = self.now_ms + timeout_ms
        try:
            chunks = link.connection.send(pending)
        except UnsupportedVersion as error:
            pending.fail(error)
            return
        self._on_the_way.sent(pending)
        link.end.send(b"".join(chunks))
        if not pending.request.expects_answer:
            pending.answer(None)

    def _with_link(self, name: LinkName, timeout_ms: float, use: Callable[[ClientLink | ClientError], Any]) -> None:
        """Use the connection, in the order of asking, when there is one, or hear why there is none."""
        link = self._links.get(name)
        if link is not None:
            use(link)
        elif name in self._opening:
            self._opening[name].append(use)
        else:
            self._opening[name] = [use]
            self._open(name, min(timeout_ms, self._settings.connect_timeout_ms))

    def _open(self, name: LinkName, timeout_ms: float) -> None:
        ends: list[StreamEnd] = []
        is_over = False

        def finish(outcome: ClientLink | str) -> None:
            nonlocal is_over
            if is_over:
                return
            is_over = True
            timer.cancel()
            if isinstance(outcome, ClientLink):
                self._links[name] = outcome
            elif ends:
                ends[0].close()
            waiting = self._opening.pop(name)
            for use in waiting:
                use(outcome if isinstance(outcome, ClientLink) else ConnectionLost(f"{name[0]}: {outcome}", sent=False))

        def connected(end: StreamEnd | None) -> None:
            if end is None:
                finish("nobody listens")
            elif is_over:
                end.close()
            else:
                ends.append(end)
                self._handshake_with(name, end, finish)

        timer = self.process.after(timeout_ms, "connect timeout", lambda: finish("no connection in time"))
        self._network.connect(self.process, name[0], connected)

    def _handshake_with(self, name: LinkName, end: StreamEnd, finish: Callable[[ClientLink | str], None]) -> None:
        link = ClientLink(end, BrokerConnection(name[0], self._settings.client_id))

        def received(data: bytes) -> None:
            for frame in link.frames.take(data):
                if link.connection.handshake is not None:
                    self._on_the_way.answered(link.connection.receive(frame))
                elif link.connection.take_handshake(frame):
                    self._grow_old(link.connection)
                    finish(link)
                else:
                    end.send(b"".join(link.connection.handshake_request()))

        def ended(reason: str) -> None:
            finish(reason)
            self._drop(name, link, reason)

        end.received, end.ended = received, ended
        if end.is_closed:
            finish("the connection ended")
            return
        end.send(b"".join(link.connection.handshake_request()))

    def _grow_old(self, connection: BrokerConnection) -> None:
        handshake = connection.handshake
        assert handshake is not None, "it was just said"
        versions = {
            key: (low, min(high, self._versions_max.get(key, high))) for key, (low, high) in handshake.versions.items()
        }
        connection.handshake = replace(handshake, versions=versions)

    def _drop(self, name: LinkName, link: ClientLink, reason: str) -> None:
        if self._links.get(name) is link:
            del self._links[name]
        link.end.close()
        link.connection.lose(reason)
