"""The tests."""

import pytest

# An assertion in a helper says what it found too, and not only those of the tests themselves.
pytest.register_assert_rewrite("tests", "harness")
