from __future__ import annotations

from oncelog.server.warm_up import warm_up


def test_every_api_that_is_warmed_up_is_served() -> None:
    """A name that is in no table, or a handler that cannot be imported, is an error here and not on a thread of its own."""
    warm_up()
