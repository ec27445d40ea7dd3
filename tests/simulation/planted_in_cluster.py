"""Bugs planted in what makes brokers a cluster, in the order of their table in docs/simulation.md."""

from __future__ import annotations

from tests.simulation import planted_in_elections, planted_in_failover, planted_in_replication

BUGS = (*planted_in_replication.BUGS, *planted_in_elections.BUGS, *planted_in_failover.BUGS)
