"""The security of one listener, as the settings have it: encryption, and what a client has to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.security_settings import OF_LISTENER, named_for_listener
from oncelog.broker.config.setting import SettingError
from oncelog.security.values import Secret, Tls


class ClientAuth(StrEnum):
    """Kafka's `ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The demands on a client of a listener. Without `tls` nothing is encrypted, without `mechanisms` there is no SASL.

    `plain_users` are the users of PLAIN with their passwords.
    """

    tls: Tls | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    mechanisms: tuple[str, ...] = ()
    plain_users: Mapping[str, Secret] = field(default_factory=dict, repr=False)

    @property
    def asks(self) -> bool:
        """True if the listener authenticates its clients."""
        return bool(self.mechanisms) or self.has_principals_of_certificates

    @property
    def has_principals_of_certificates(self) -> bool:
        """With SASL it is the user's name that says who somebody is, whatever certificate there is (KIP-684)."""
        return not self.mechanisms and self.client_auth is not ClientAuth.NONE


def check_names_of_listeners(settings: Settings, listeners: set[str]) -> None:
    """Raise SettingError for a setting of a listener that is not there: what it was to secure would not be."""
    known = sorted(listener.lower() for listener in listeners)
    for name in settings.given:
        if name.startswith(OF_LISTENER) and named_for_listener(name)[0] not in known:
            raise SettingError(f"{name} is not allowed: the listeners are, in small letters, {', '.join(known)}")
