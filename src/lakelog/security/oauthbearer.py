"""OAUTHBEARER (RFC 7628): a token that somebody else has signed.

    message => n,[a=authzid], 01 auth=Bearer TOKEN 01 [key=value 01 ...] 01

One that is refused is answered with a word in JSON; the client says 01, and that is the end.
"""

import re

from lakelog.security.exchanges import CheckToken, Exchange, Outcome, Say, Token

__all__ = ["ASYMMETRIC", "oauthbearer"]

ASYMMETRIC = frozenset(
    f"{kind}{size}" for kind in ("RS", "PS", "ES") for size in (256, 384, 512)
) | {"EdDSA"}
"""How a token may be signed: by a key that this broker has not got. With a shared one, or none,
anybody who knows what is public could sign."""

TOKEN_CHARS_MAX = 1 << 15
_MESSAGE = re.compile(r"n,(?:a=([^,]*))?,\x01((?:[A-Za-z]+=[^\x01]*\x01)+)\x01")
_BEARER = re.compile(r"(?i:bearer) +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)")
_REFUSED = b'{"status":"invalid_token"}'


def oauthbearer(message: bytes) -> Exchange:
    """Return a login by a token."""
    try:
        found = _MESSAGE.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        return Outcome(why="the message is not OAUTHBEARER's")
    pairs = dict(pair.split("=", 1) for pair in found[2].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None or len(bearer[1]) > TOKEN_CHARS_MAX:
        return Outcome(why="the message has no token that could be one")
    token: Token | str = yield CheckToken(bearer[1])
    if isinstance(token, str):
        yield Say(_REFUSED, why=token)
        return Outcome(why=token)
    if found[1] not in (None, "", token.user):
        return Outcome(user=token.user, why="one user cannot act as another")
    return Outcome(user=token.user, expires_ms=token.expires_ms)
