"""Logins of a listener out of Kafka's configs.

    sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER
    listener.name.outside.sasl.enabled.mechanisms=OAUTHBEARER           of one listener
    listener.name.inside.scram-sha-512.sasl.jaas.config=… username="broker" password="…";

A JAAS config says as whom this broker calls others, and nothing else: users are in the store, and
not in files of brokers.
"""

import re
from collections.abc import Mapping
from functools import partial

from lakelog.broker.login_settings import LoginSettings, OauthSettings, PeerLogin
from lakelog.errors import InvalidInputError

__all__ = ["SASL_CONFIGS", "config_of", "translate_logins"]

SASL_CONFIGS: Mapping[str, str] = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512, SCRAM-SHA-256, OAUTHBEARER, PLAIN; the first two if"
    " it is not given. The last two only with TLS.",
    "connections.max.reauth.ms": "After which a client has to log in again; 0: never.",
    "sasl.mechanism.inter.broker.protocol": "By which this broker logs in at others.",
    "sasl.jaas.config": "As whom, with `listener.name.NAME.MECHANISM.` before it: username and"
    " password.",
    "sasl.oauthbearer.jwks.endpoint.url": "Where the keys are that sign tokens: https or file.",
    "sasl.oauthbearer.expected.issuer": "Who signs them; needed.",
    "sasl.oauthbearer.expected.audience": "Whom they are for, one of a list; needed.",
    "sasl.oauthbearer.sub.claim.name": "What in a token is the name of the user: `sub`.",
    "sasl.oauthbearer.clock.skew.seconds": "How far clocks may differ: 30.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "How often keys are fetched anew: an hour.",
}

_JAAS = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;\"]+))")
_USER = "user_"


def config_of(
    lines: Mapping[str, str], listener: str, name: str, default: str = "", mechanism: str = ""
) -> str:
    """Return a config of a listener and a mechanism, or of a listener, or of all."""
    prefix = f"listener.name.{listener.lower()}."
    for key in (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}", name):
        if key in lines:
            return lines[key].strip()
    return default


def translate_logins(lines: Mapping[str, str], listener: str) -> LoginSettings:
    """Return how clients of a listener log in.

    Raises:
        InvalidInputError: a value is wrong, or one is missing.
    """
    get = partial(config_of, lines, listener)
    mechanisms = tuple(
        one.strip() for one in get("sasl.enabled.mechanisms").split(",") if one.strip()
    )
    chosen = mechanisms or LoginSettings().mechanisms
    return LoginSettings(
        mechanisms=chosen,
        session_ms_max=_number(lines, listener, "connections.max.reauth.ms", 0),
        oauth=_oauth(lines, listener) if "OAUTHBEARER" in chosen else None,
        peer=_peer(lines, listener),
    )


def _number(lines: Mapping[str, str], listener: str, name: str, default: int) -> int:
    text = config_of(lines, listener, name, str(default))
    if not text.isdecimal():
        raise InvalidInputError(f"{name}={text[:64]}: use a whole number from 0")
    return int(text)


def _oauth(lines: Mapping[str, str], listener: str) -> OauthSettings:
    get = partial(config_of, lines, listener, mechanism="oauthbearer")
    audience = get("sasl.oauthbearer.expected.audience")
    refresh = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
    return OauthSettings(
        jwks_url=get("sasl.oauthbearer.jwks.endpoint.url"),
        issuer=get("sasl.oauthbearer.expected.issuer"),
        audience=tuple(one.strip() for one in audience.split(",") if one.strip()),
        user_claim=get("sasl.oauthbearer.sub.claim.name", "sub"),
        skew_s=_number(lines, listener, "sasl.oauthbearer.clock.skew.seconds", 30),
        refresh_ms=_number(lines, listener, refresh, 3_600_000),
    )


def _peer(lines: Mapping[str, str], listener: str) -> PeerLogin | None:
    mechanism = config_of(lines, listener, "sasl.mechanism.inter.broker.protocol", "SCRAM-SHA-512")
    login = None
    for kind in ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"):
        jaas = config_of(lines, listener, "sasl.jaas.config", mechanism=kind)
        found = {
            name: re.sub(r"\\(.)", r"\1", quoted) or bare
            for name, quoted, bare in _JAAS.findall(jaas)
        }
        users = sorted(name.removeprefix(_USER) for name in found if name.startswith(_USER))
        if users:
            raise InvalidInputError(
                f"sasl.jaas.config of {listener} lists users, {', '.join(users)[:200]}: users are"
                f" in the store; add each with lakelog user add {users[0]} --storage URL"
            )
        if kind == mechanism and "username" in found and "password" in found:
            login = PeerLogin(
                mechanism=mechanism, user=found["username"], password=found["password"]
            )
    return login
