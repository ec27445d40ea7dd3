"""Cycles of dependencies between operations: write-write (G0), and write-read (G1c).

A depends on B by write-write where a value of A comes next after one of B in the order of a key, and by write-read where A
polled a value of B. Only strongly connected operations can be in a cycle; Tarjan's algorithm finds them, without recursion.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from oncelog.checking.anomalies import Anomaly, AnomalyFinding, CountsAsFault, Findings, by, shown
from oncelog.checking.evidence import Evidence
from oncelog.checking.history import JsonScalar, Key, RecordedOperation, identity_of

STEPS_NAMED_MAX = 8
"""A shortest cycle can still be as long as the history."""

Graph = Mapping[int, Sequence[int]]
"""For each operation's index those of the operations that depend on it."""
Reason = tuple[Key, tuple[JsonScalar, ...]]
Explain = Callable[[RecordedOperation, RecordedOperation], Reason]


def find_cycles(evidence: Evidence, findings: Findings) -> None:
    operations = {operation.index: operation for operation in evidence.history.operations}
    kinds: list[tuple[Anomaly, Graph, Explain, str]] = [
        (Anomaly.WRITE_CYCLE, _write_write(evidence), _WriteWrite(evidence), "wrote before"),
        (Anomaly.CIRCULAR_INFORMATION_FLOW, _write_read(evidence), _WriteRead(evidence), "was read by"),
    ]
    for anomaly, graph, explain, verb in kinds:
        is_fault = anomaly.counts_as_fault is CountsAsFault.ALWAYS
        for component in components(graph):
            if len(component) > 1 and findings.count(anomaly, is_fault=is_fault):
                cycle = [operations[index] for index in cycle_in(graph, component)]
                findings.keep(_finding(anomaly, is_fault, cycle, explain, verb))


def _write_write(evidence: Evidence) -> Graph:
    graph: dict[int, set[int]] = defaultdict(set)
    for key, order in evidence.orders.items():
        writers, before = evidence.writer_of.get(key, {}), None
        for offset in order.offsets:
            writer = writers.get(identity_of(order.value_at[offset]))
            if writer is None:
                continue
            if before is not None and before is not writer:
                graph[before.index].add(writer.index)
            before = writer
    return {index: sorted(following) for index, following in graph.items()}


def _write_read(evidence: Evidence) -> Graph:
    """Only between operations that write and read: no other can be in a cycle."""
    graph: dict[int, set[int]] = defaultdict(set)
    both = {one.index for one in evidence.history.operations if any(one.sends) and any(one.polls)}
    for reader in evidence.history.operations:
        if reader.index not in both:
            continue
        for poll in reader.polls:
            for key, records in poll.records.items():
                writers = evidence.writer_of.get(key, {})
                for _, value in records:
                    writer = writers.get(identity_of(value))
                    if writer is not None and writer is not reader and writer.index in both:
                        graph[writer.index].add(reader.index)
    return {index: sorted(following) for index, following in graph.items()}


def components(graph: Graph) -> Iterator[list[int]]:
    """The strongly connected components (Tarjan, 1972), each sorted."""
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    for root in graph:
        if root in order:
            continue
        path: list[tuple[int, Iterator[int]]] = [(root, iter(graph[root]))]
        order[root] = lowest[root] = len(order)
        open_nodes.append(root)
        is_open.add(root)
        while path:
            node, following = path[-1]
            for other in following:
                if other not in order:
                    order[other] = lowest[other] = len(order)
                    open_nodes.append(other)
                    is_open.add(other)
                    path.append((other, iter(graph.get(other, ()))))
                    break
                if other in is_open:
                    lowest[node] = min(lowest[node], order[other])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == order[node]:
                    yield sorted(_take(open_nodes, is_open, node))


def _take(open_nodes: list[int], is_open: set[int], until: int) -> Iterator[int]:
    while True:
        node = open_nodes.pop()
        is_open.discard(node)
        yield node
        if node == until:
            return


def cycle_in(graph: Graph, component: list[int]) -> list[int]:
    """A shortest cycle through the first operation of a strongly connected component."""
    inside, start = set(component), component[0]
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for other in graph.get(node, ()):
            if other == start:
                cycle = [node]
                while cycle[-1] != start:
                    cycle.append(came_from[cycle[-1]])
                return cycle[::-1]
            if other in inside and other not in came_from:
                came_from[other] = node
                waiting.append(other)
    raise AssertionError("a strongly connected component has a cycle through each of its nodes")


class _WriteWrite:
    """Why one operation wrote before another: a key, and the two values."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def __call__(self, first: RecordedOperation, second: RecordedOperation) -> Reason:
        for send in second.sends:
            order = self._evidence.orders.get(send.key)
            offset = None if order is None else order.offset_of.get(identity_of(send.value))
            if order is None or offset is None:
                continue
            for value in order.known_before(offset):
                writer = self._evidence.writer(send.key, value)
                if writer is first:
                    return send.key, (value, send.value)
                if writer is not None:
                    break
        # The values stand where another value or another copy of theirs stands too: they are named elsewhere.
        common = {send.key for send in first.sends} & {send.key for send in second.sends}
        return min(common), ()


class _WriteRead:
    """Why one operation was read by another: a key, and the value."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def __call__(self, first: RecordedOperation, second: RecordedOperation) -> Reason:
        for poll in second.polls:
            for key, records in poll.records.items():
                for _, value in records:
                    if self._evidence.writer(key, value) is first:
                        return key, (value,)
        raise AssertionError("an edge of the graph comes from a value that was polled")


def _finding(
    anomaly: Anomaly, is_fault: bool, cycle: list[RecordedOperation], explain: Explain, verb: str
) -> AnomalyFinding:
    said: list[str] = []
    values: list[JsonScalar] = []
    for number, operation in enumerate(cycle[:STEPS_NAMED_MAX]):
        following = cycle[(number + 1) % len(cycle)]
        key, named = explain(operation, following)
        values += named
        said.append(f"{by(operation)} {verb} {by(following)} [{' '.join([key, *map(shown, named)])}]")
    more = f"; and {len(cycle) - STEPS_NAMED_MAX} more" if len(cycle) > STEPS_NAMED_MAX else ""
    return AnomalyFinding(anomaly, is_fault, None, (), tuple(values), tuple(cycle), "; ".join(said) + more)
