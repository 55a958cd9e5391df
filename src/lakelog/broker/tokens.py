"""Tokens that somebody else has signed: JWTs, checked against the keys of one issuer.

    token --> which key? --> signature, issuer, audience, times --> who it is, and until when
                 |
                 '-- one that is not known: keys are fetched, at most every ten seconds

Everything here takes milliseconds, or a request to the issuer: it is called in a thread. Where keys
are, and how they may sign, is the broker's to say: nothing that a token says of that is followed,
nor an answer that points elsewhere (CVE-2025-27817 is what became of it).
"""

import json
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import jwt

from lakelog.broker.login_settings import OauthSettings
from lakelog.ports import Clock
from lakelog.security import ASYMMETRIC, Token

__all__ = ["TokenChecker", "fetch_keys"]

KEYS_BYTES_MAX = 1 << 20
FETCH_S = 5.0
"""For the issuer to answer."""

AGAIN_MS = 10_000
"""After keys were fetched, or could not be, until an unknown key lets them be fetched again."""

Fetch = Callable[[str], bytes]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An answer that points elsewhere is an error, as any that is not 200."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


def fetch_keys(url: str) -> bytes:
    """Return what stands at an address.

    Raises:
        OSError, ValueError: nothing can be had from there.
    """
    opener = urllib.request.build_opener(_NoRedirects)
    with opener.open(url, timeout=FETCH_S) as answer:
        body: bytes = answer.read(KEYS_BYTES_MAX + 1)
    if len(body) > KEYS_BYTES_MAX:
        raise ValueError(f"more than {KEYS_BYTES_MAX} bytes of keys")
    return body


class TokenChecker:
    """Says who a token is of."""

    def __init__(self, settings: OauthSettings, clock: Clock, fetch: Fetch = fetch_keys) -> None:
        self._settings, self._clock, self._fetch = settings, clock, fetch
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_ms: int | None = None
        self._tried_ms: int | None = None
        self._lock = threading.Lock()
        self.fetches = 0
        """How often the issuer was asked."""

    def check(self, text: str) -> Token | str:
        """Return what a token says, or what is wrong with it."""
        settings = self._settings
        try:
            header = jwt.get_unverified_header(text)
            kid = header.get("kid")
            key = self._key(kid if isinstance(kid, str) else None)
            if key is None:
                return "its key is not known to the issuer, or the issuer does not answer"
            claims = jwt.decode(
                text,
                key,
                algorithms=sorted(ASYMMETRIC),
                audience=list(settings.audience),
                issuer=settings.issuer,
                leeway=settings.skew_s,
                options={"require": ["exp", "iss", "aud", settings.user_claim]},
            )
        except jwt.PyJWTError as error:
            return f"{type(error).__name__}"
        user = claims.get(settings.user_claim)
        expires = claims["exp"]
        if not isinstance(user, str) or not user or len(user) > 255:
            return f"it has no {settings.user_claim}"
        return Token(user, int(expires) * 1000)

    def _key(self, kid: str | None) -> "jwt.PyJWK | None":
        with self._lock:  # One fetch for all that wait for it.
            now_ms = self._clock.boot_ms()
            is_old = self._fetched_ms is None or (
                now_ms - self._fetched_ms >= self._settings.refresh_ms
            )
            is_unknown = self._find(kid) is None
            may_ask = self._tried_ms is None or now_ms - self._tried_ms >= AGAIN_MS
            if (is_old or is_unknown) and may_ask:
                self._tried_ms = now_ms
                self._renew(now_ms)
            return self._find(kid)

    def _find(self, kid: str | None) -> "jwt.PyJWK | None":
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid) if kid is not None else None

    def _renew(self, now_ms: int) -> None:
        """Fetch keys; those that cannot be used are left out, and without an answer all stay."""
        self.fetches += 1
        try:
            rows = json.loads(self._fetch(self._settings.jwks_url))["keys"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        self._keys = dict(filter(None, map(_usable, rows if isinstance(rows, list) else [])))
        self._fetched_ms = now_ms


def _usable(row: Any) -> tuple[str | None, jwt.PyJWK] | None:
    try:
        if row.get("use", "sig") != "sig":
            return None
        key = jwt.PyJWK(row)
    except (jwt.PyJWTError, AttributeError, TypeError, ValueError):
        return None
    return (key.key_id, key) if key.algorithm_name in ASYMMETRIC else None
