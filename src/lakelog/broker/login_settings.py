"""The logins of a listener, as it was told: by which mechanisms, for how long, whose tokens."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lakelog.errors import InvalidInputError
from lakelog.security import MECHANISMS, is_loopback

__all__ = ["LoginSettings", "OauthSettings", "PeerLogin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """Whose tokens are good."""

    jwks_url: str
    """Where the keys are that sign tokens (``sasl.oauthbearer.jwks.endpoint.url``)."""
    issuer: str
    """Who signs them (``sasl.oauthbearer.expected.issuer``)."""
    audience: tuple[str, ...]
    """Whom they are for: one of these (``sasl.oauthbearer.expected.audience``)."""
    user_claim: str = "sub"
    """What in a token is the name of the user (``sasl.oauthbearer.sub.claim.name``)."""
    skew_s: int = 30
    """How far clocks may differ (``sasl.oauthbearer.clock.skew.seconds``)."""
    refresh_ms: int = 3_600_000
    """How often keys are fetched anew (``sasl.oauthbearer.jwks.endpoint.refresh.ms``)."""

    def __post_init__(self) -> None:
        for name, value in (
            ("jwks.endpoint.url", self.jwks_url),
            ("expected.issuer", self.issuer),
            ("expected.audience", self.audience),
        ):
            if not value:
                raise InvalidInputError(
                    f"OAUTHBEARER needs sasl.oauthbearer.{name}: a token of anybody, or for anybody"
                    " else, would be good otherwise"
                )
        parts = urlsplit(self.jwks_url)
        if parts.scheme not in ("https", "file") and not is_loopback(parts.hostname or ""):
            raise InvalidInputError(
                f"sasl.oauthbearer.jwks.endpoint.url={self.jwks_url[:200]}: use https:// or file://;"
                " whoever changes these keys on their way logs in as anybody"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLogin:
    """As whom a broker calls other brokers."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """Logins of one listener."""

    mechanisms: tuple[str, ...] = ("SCRAM-SHA-512", "SCRAM-SHA-256")
    session_ms_max: int = 0
    """After which a client has to log in again (``connections.max.reauth.ms``); 0: never."""
    oauth: OauthSettings | None = None
    peer: PeerLogin | None = None

    def __post_init__(self) -> None:
        unknown = [one for one in self.mechanisms if one not in MECHANISMS]
        if unknown or not self.mechanisms:
            raise InvalidInputError(
                f"sasl.enabled.mechanisms={','.join(self.mechanisms)[:200]}: use some of"
                f" {', '.join(MECHANISMS)}"
            )
        if "OAUTHBEARER" in self.mechanisms and self.oauth is None:
            raise InvalidInputError("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url")
