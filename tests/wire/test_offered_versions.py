"""The versions that a broker offers, and the one that is chosen."""

from __future__ import annotations

import pytest

from oncelog.wire.offered_versions import OfferedVersions

OFFERED = OfferedVersions({1: (4, 17), 3: (0, 0)}, {}, -1)


@pytest.mark.parametrize(
    ("api_key", "lowest", "highest", "chosen"),
    [
        (1, 0, 99, 17),
        (1, 0, 16, 16),
        (1, 17, 20, 17),
        (1, 0, 4, 4),
        (1, 18, 20, None),
        (1, 0, 3, None),
        (3, 0, 9, 0),
        (3, 1, 9, None),
        (2, 0, 9, None),
    ],
)
def test_newest_version_that_both_have_is_chosen(api_key, lowest, highest, chosen):
    assert OFFERED.newest(api_key, lowest, highest) == chosen
