"""TLS and SASL among the options of source and sink."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from oncelog.client.security import PLAINTEXT, SECURITY_OPTIONS
from oncelog.client.security.names import INERT, SUPPORTED
from oncelog.spark.options.security_options import DEFAULTS, MEANINGS, security_of, security_rows
from oncelog.spark.options.table import OptionError, Scope, Treatment, find
from oncelog.spark.session.session import SETTINGS

SECRET = "hunter2-3141"
PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
HOLD_SECRETS = frozenset(
    {
        "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)


def test_every_security_option_has_a_row_for_source_and_sink():
    rows = security_rows()
    for name in SECURITY_OPTIONS:
        treatment = (
            Treatment.SUPPORTED if name in SUPPORTED else Treatment.INERT if name in INERT else Treatment.REFUSED
        )
        for scope in (Scope.SOURCE, Scope.SINK):
            row = find(rows, f"kafka.{name}", scope)
            assert row is not None
            assert (row.treatment, row.name) == (treatment, f"kafka.{name}")
    assert MEANINGS.keys() == SUPPORTED
    assert DEFAULTS.keys() < SUPPORTED


def test_defaults_of_the_rows_say_what_is_so_without_them():
    named = {"security.protocol": "SSL"}
    explicit = named | {name: value for name, value in DEFAULTS.items() if name.startswith(("ssl.", "enable."))}
    of = [security_of({f"kafka.{name}": value for name, value in options.items()}) for options in (named, explicit)]
    assert of[0] == of[1]


def test_options_of_other_things_mean_nothing_here():
    assert security_of({"subscribe": "a", "kafka.bootstrap.servers": "b:1", "kafka.group.id": "g"}) == PLAINTEXT


def test_what_travels_to_tasks_has_the_contents_of_files_and_shows_none(tmp_path):
    authority, own, key = (tmp_path / name for name in ("authority", "own", "key"))
    for file in (authority, own, key):
        file.write_text(f"{SECRET} of {file.name}")
    security = security_of(
        {
            "Kafka.Security.Protocol": "SSL",
            "kafka.ssl.ca.location": str(authority),
            "kafka.ssl.certificate.location": str(own),
            "kafka.ssl.key.location": str(key),
        }
    )
    for file in (authority, own, key):
        assert file.read_bytes() in pickle.dumps(security)
        file.unlink()
    assert SECRET not in repr(security)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kafka.sasl.password": SECRET}, "sasl.password has no effect without security.protocol"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.ca.location": "/none"}, "/none cannot be read"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": SECRET}, "sasl.mechanism is to be one of"),
    ],
)
def test_option_that_cannot_be_meant_is_refused_without_its_value(options, sentence):
    with pytest.raises(OptionError, match=sentence) as raised:
        security_of(options)
    assert SECRET not in str(raised.value)


def test_session_hides_every_option_that_holds_a_secret():
    expression = SETTINGS["spark.redaction.regex"]
    hidden = {name for name in SUPPORTED if re.search(expression, f"kafka.{name}")}
    assert hidden >= HOLD_SECRETS
    assert not {"security.protocol", "sasl.mechanism", "sasl.username", "ssl.ca.location"} & hidden
    assert f"\nspark.redaction.regex  {expression}\n" in PAGE
