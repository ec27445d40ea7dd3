from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.security.jaas import parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_are_read_however_they_are_quoted():
    module = parse_jaas(f'{MODULE} required username="a \\"b\\"" password=\'c;d=e\' serviceName=kafka ;')
    assert module.name == "PlainLoginModule"
    assert module.options == {"username": 'a "b"', "password": "c;d=e", "serviceName": "kafka"}


def test_lines_and_the_packages_of_vendors_change_nothing():
    text = 'kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required\n  username="a"\n  password="b";\n'
    assert parse_jaas(text).options == {"username": "a", "password": "b"}


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_password_can_be_quoted(password):
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'{MODULE} required password="{quoted}";').options == {"password": password}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        f'{MODULE} required password="hunter2"',
        f'{MODULE} maybe password="hunter2";',
        f'{MODULE} required password "hunter2";',
        f'{MODULE} required password="hunter2;',
        f'{MODULE} required password="hunter2"; {MODULE} required password="hunter2";',
    ],
)
def test_what_is_no_login_module_is_refused_without_showing_it(text):
    with pytest.raises(ValueError, match=r"sasl\.jaas\.config") as raised:
        parse_jaas(text)
    assert "hunter2" not in str(raised.value)
