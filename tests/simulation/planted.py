"""Every planted bug, in the order of the table in docs/simulation.md.

A simulation that finds nothing may be looking at nothing: each of these must make it fail.
"""

from __future__ import annotations

from tests.simulation import (
    planted_in_clients,
    planted_in_compaction,
    planted_in_log,
    planted_in_storage,
    planted_in_transactions,
)

PLANTED = (
    *planted_in_transactions.BUGS,
    *planted_in_log.BUGS,
    *planted_in_compaction.BUGS,
    *planted_in_storage.BUGS,
    *planted_in_clients.BUGS,
)
