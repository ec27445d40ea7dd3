"""Kafka's properties files: Java's syntax, and what is said of names that cannot be set here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import java_programs
from oncelog.broker.config.properties import parse_properties, read_configuration
from oncelog.broker.config.setting import SettingError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a \t:\f b=c", {"a": "b=c"}),
        ("a", {"a": ""}),
        ("# no\n ! no\n\n  a=b", {"a": "b"}),
        ("a=b#c", {"a": "b#c"}),
        ("a=1,\\\n    2,\\\r\n    3", {"a": "1,2,3"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=\\\n# part of it", {"a": "# part of it"}),
        ("a=1\na=2", {"a": "2"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\t\\u0041\\q", {"a": "\tAq"}),
        ("a=x\\", {"a": "x"}),
        ("a\rb", {"a": "", "b": ""}),
    ],
)
def test_syntax_is_that_of_java(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_malformed_escape_is_refused_as_in_java() -> None:
    with pytest.raises(SettingError, match="four hexadecimal digits"):
        parse_properties("a=\\u12")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_escaped_text_reads_back_as_it_was(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(one):04x}" if ord(one) < 0x10000 else one for one in text)

    text = "".join(f"{escaped(name)}={escaped(value)}\n" for name, value in properties.items())
    assert parse_properties(text) == properties


@pytest.mark.jvm
def test_java_reads_the_same(tmp_path: Path) -> None:
    text = (
        "\n# comment \\\n! another\n  a = b\\\n   c\\\\\\\n\t d \nlist=1,\\\r\n 2\nempty\nname\\:with\\ blanks : value\n"
        "unicode=\\u00e4\\n\nlast=x\\\n#y\ntwice=1\ntwice:2\n=no name\nkey\\\nover two lines=v\n"
    )
    file = tmp_path / "server.properties"
    file.write_text(text, newline="")
    command = java_programs.command("PropertiesReader", str(file))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    read = {
        bytes.fromhex(name).decode(): bytes.fromhex(value).decode()
        for name, _, value in (line.partition("=") for line in done.stdout.splitlines())
    }
    assert parse_properties(text) == read


def test_unknown_name_is_left_out_with_the_nearest_one() -> None:
    found = read_configuration("num.partition=3\nlog.retention.hours=5\n")
    assert found.settings == {"log.retention.hours": "5"}
    assert found.remarks == (
        "num.partition is left out: num.partition is no broker setting; the nearest is num.partitions",
    )


def test_setting_that_only_kafka_has_is_left_out_and_named() -> None:
    found = read_configuration("ssl.provider=JDK\nquota.window.num=5\n")
    assert found.settings == {}
    assert [remark.partition(" ")[0] for remark in found.remarks] == [
        "ssl.provider",
        "quota.window.num",
    ]
    assert all("Kafka has this setting" in remark for remark in found.remarks)


def test_setting_of_a_listener_is_taken_and_one_of_a_controllers_is_left_out() -> None:
    text = "controller.listener.names=CONTROLLER\nlistener.name.clients.ssl.client.auth=required\nlistener.name.controller.a.b=1"
    found = read_configuration(text)
    assert found.settings.keys() == {"controller.listener.names", "listener.name.clients.ssl.client.auth"}
    assert [remark.partition(" ")[0] for remark in found.remarks] == ["listener.name.controller.a.b"]


def test_setting_that_says_what_is_so_anyway_is_left_out() -> None:
    assert read_configuration("connections.max.reauth.ms=0\nssl.cipher.suites=\n").settings == {}


def test_secret_that_is_wrong_is_not_shown() -> None:
    with pytest.raises(SettingError) as refused:
        read_configuration("listener.name.clients.ssl.keystore.key=" + "k" * 40_000)
    assert "kkk" not in str(refused.value)


def test_setting_without_meaning_is_taken_and_said_to_have_none() -> None:
    found = read_configuration("num.io.threads=16\nlog.cleaner.threads=2\n")
    assert found.settings == {"num.io.threads": "16", "log.cleaner.threads": "2"}
    assert found.remarks == (
        "num.io.threads means nothing here: one event loop serves every connection.",
        "log.cleaner.threads means nothing here: one log is cleaned at a time.",
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("num.partitions=0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("num.io.threads=many", "Invalid value many for configuration num.io.threads: Not a number of type INT"),
        ("authorizer.class.name=Guard", "there is no access control"),
        ("connections.max.reauth.ms=60000", "stays authenticated until its connection ends"),
        ("control.plane.listener.name=CONTROL", "at the listener between brokers"),
        ("ssl.cipher.suites=TLS_AES_128_GCM_SHA256", "is left to the machine's OpenSSL"),
        ("sasl.server.callback.handler.class=Guard", "it names a class of Java's"),
        ("listener.name.clients.connections.max.reauth.ms=1", "is no setting that a listener has of its own"),
        ("listener.name.clients.ssl.client.auth=always", "String must be one of: required, requested, none"),
    ],
)
def test_wrong_value_is_an_error(text: str, what: str) -> None:
    with pytest.raises(SettingError, match=what):
        read_configuration(text)
