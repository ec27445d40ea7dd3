"""The tests."""

from pathlib import Path

import pytest

# An assertion in a helper says what it found too, and not only those of the tests themselves.
pytest.register_assert_rewrite("harness", *(f"tests.{path.stem}" for path in Path(__file__).parent.iterdir()))
