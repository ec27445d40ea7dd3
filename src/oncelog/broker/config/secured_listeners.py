"""The security of a listener with TLS or SASL: for its clients, and for this broker as a client of the same listener elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.listener_security import ClientAuth, ListenerSecurity
from oncelog.broker.config.listeners import Endpoint
from oncelog.broker.config.security_settings import LISTENER_SETTINGS, MECHANISMS, OF_LISTENER
from oncelog.broker.config.setting import SettingError, items_of
from oncelog.security.jaas import LoginModule, parse_jaas
from oncelog.security.tls_options import read_tls
from oncelog.security.values import Login, PlainLogin, Scram, ScramLogin, Secret, Security, Tls

PLAIN = "PLAIN"
INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
OF_USER = "user_"


def security_of_listener(settings: Settings, endpoint: Endpoint) -> ListenerSecurity:
    """Raises SettingError, which shows no secret."""
    tls, client_auth = None, ClientAuth.NONE
    if endpoint.has_tls:
        tls = _tls(settings, endpoint)
        client_auth = _client_auth(settings, endpoint)
        if tls.certificate is None:
            raise SettingError(
                f"the listener {endpoint.name} has no certificate to show: set ssl.keystore.location, or "
                "ssl.keystore.certificate.chain with ssl.keystore.key"
            )
    mechanisms = _mechanisms(settings, endpoint) if endpoint.has_sasl else ()
    users = _plain_users(settings, endpoint) if PLAIN in mechanisms else {}
    return ListenerSecurity(tls, client_auth, mechanisms, users)


def security_towards_listener(settings: Settings, endpoint: Endpoint) -> Security:
    """How this broker connects to the listener of that name of another one. Raises SettingError, which shows no secret."""
    tls = _tls(settings, endpoint) if endpoint.has_tls else None
    return Security(tls, _login(settings, endpoint) if endpoint.has_sasl else None)


def _tls(settings: Settings, endpoint: Endpoint) -> Tls:
    found = {name: settings.of_listener(endpoint.name, name) for name in LISTENER_SETTINGS if name.startswith("ssl.")}
    try:
        return read_tls({name: str(value) for name, value in found.items() if value is not None})
    except ValueError as error:
        raise SettingError(f"the listener {endpoint.name}: {error}") from None


def _client_auth(settings: Settings, endpoint: Endpoint) -> ClientAuth:
    """KIP-684: a listener with SASL asks for certificates only where it has a value of its own that says so."""
    if not endpoint.has_sasl:
        return ClientAuth(str(settings.of_listener(endpoint.name, "ssl.client.auth")))
    own = settings.value(f"{OF_LISTENER}{endpoint.name.lower()}.ssl.client.auth")
    return ClientAuth.NONE if own is None else ClientAuth(str(own))


def _mechanisms(settings: Settings, endpoint: Endpoint) -> tuple[str, ...]:
    text = str(settings.of_listener(endpoint.name, "sasl.enabled.mechanisms"))
    found = tuple(items_of(text))
    unknown = [name for name in found if name not in MECHANISMS]
    if unknown or not found:
        raise SettingError(
            f"sasl.enabled.mechanisms={text} is not allowed for the listener {endpoint.name}: {', '.join(MECHANISMS)} are served"
        )
    if not settings.is_in_cluster and found != (PLAIN,):
        raise SettingError(
            f"sasl.enabled.mechanisms={text} is not allowed without zookeeper.connect: the users of SCRAM are in ZooKeeper, and a "
            "broker that is alone serves PLAIN"
        )
    return found


def _plain_users(settings: Settings, endpoint: Endpoint) -> Mapping[str, Secret]:
    options = _login_module(settings, endpoint, PLAIN).options
    return {name.removeprefix(OF_USER): Secret(value) for name, value in options.items() if name.startswith(OF_USER)}


def _login(settings: Settings, endpoint: Endpoint) -> Login:
    mechanism = str(settings.value(INTER_BROKER_MECHANISM))
    if mechanism not in _mechanisms(settings, endpoint):
        raise SettingError(
            f"{INTER_BROKER_MECHANISM}={mechanism} must be included in sasl.enabled.mechanisms when SASL is used for inter-broker "
            "communication"
        )
    module = _login_module(settings, endpoint, mechanism)
    for name in ("username", "password"):
        if name not in module.options:
            setting = _jaas_name(endpoint, mechanism)
            raise SettingError(f"{setting} has no {name}: the broker shows it to other brokers")
    username, password = module.options["username"], Secret(module.options["password"])
    return PlainLogin(username, password) if mechanism == PLAIN else ScramLogin(Scram(mechanism), username, password)


def _login_module(settings: Settings, endpoint: Endpoint, mechanism: str) -> LoginModule:
    setting = _jaas_name(endpoint, mechanism)
    text = settings.value(setting)
    if text is None:
        raise SettingError(f"the listener {endpoint.name} has {mechanism} enabled: set {setting}")
    try:
        module = parse_jaas(str(text))
    except ValueError as error:
        raise SettingError(f"{setting} is not allowed: {error}") from None
    wanted = "PlainLoginModule" if mechanism == PLAIN else "ScramLoginModule"
    if module.name != wanted:
        raise SettingError(f"{setting} names a login module that is not {wanted}")
    known = ("username", "password")
    for name in module.options:
        if name not in known and not (mechanism == PLAIN and name.startswith(OF_USER)):
            raise SettingError(f"{setting}: {wanted} with {name} is not supported")
    return module


def _jaas_name(endpoint: Endpoint, mechanism: str) -> str:
    return f"{OF_LISTENER}{endpoint.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
