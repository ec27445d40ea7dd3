"""A data directory that a broker has used; each test gets a copy."""

from __future__ import annotations

import pytest

from harness.used_directory import UsedDirectory


@pytest.fixture(scope="session")
def used(tmp_path_factory) -> UsedDirectory:
    return UsedDirectory(tmp_path_factory.mktemp("used"))


@pytest.fixture
def node(used, tmp_path):
    """A broker that does not run, with a copy of the directory."""
    node = used.copy(tmp_path)
    yield node
    node.kill()


@pytest.fixture
def data(node):
    return node.data_directory
