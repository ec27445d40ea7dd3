"""The secrets that no command prints: passwords of settings, and what SCRAM's passwords can be guessed from."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"
SECRET_PARTS = ("password", "jaas", "secret", "keystore.key", "scram")
_SCRAM_FIELD = re.compile(r"\b(salt|stored_key|server_key)=[^,\s\"]*")


def setting_value(name: str, value: str) -> str:
    """The value of a setting, unless it is a password."""
    return HIDDEN if any(part in name.lower() for part in SECRET_PARTS) else value


def without_secrets(value: object) -> object:
    """A value of JSON: a field whose name is that of a password is hidden, and so is what a text says of one."""
    if isinstance(value, dict):
        return {name: setting_value(name, "") or without_secrets(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_secrets(one) for one in value]
    return _SCRAM_FIELD.sub(rf"\1={HIDDEN}", value) if isinstance(value, str) else value
