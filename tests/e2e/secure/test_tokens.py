"""Tokens of an issuer that somebody else has written: which are refused, why, and other keys."""

import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.e2e.secure.programs import call
from tests.e2e.secure.secured import Secured
from tests.parts.oidc import AUDIENCE, handing_out
from tests.patience import in_time

CLIENT = "aiokafka"
"""It sends whatever token it is given."""

WRONG = {
    "expired": "ExpiredSignatureError",
    "for-others": "InvalidAudienceError",
    "of-others": "InvalidIssuerError",
    "nobody": "it has no sub",
}


def refused(secured: Secured, **plan: Any) -> str:
    """Return what the broker logs about a client that it does not let in."""
    begin = secured.log.stat().st_size
    is_ok, said = call(CLIENT, secured.plan("OAUTHBEARER", within_s=5, **plan))
    assert not is_ok, said
    return secured.log.read_bytes()[begin:].decode()


@pytest.mark.parametrize("client", WRONG)
def test_a_token_that_is_not_for_us_is_refused(secured: Secured, client: str) -> None:
    assert WRONG[client] in refused(secured, user=client)


def test_a_token_that_the_issuer_has_not_signed_is_refused(secured: Secured) -> None:
    good = secured.issuer.token()
    claims = jwt.decode(good, options={"verify_signature": False}, audience=AUDIENCE)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    forged = jwt.encode(claims, key, "RS256", headers=jwt.get_unverified_header(good))
    with handing_out(forged) as url:
        assert "InvalidSignatureError" in refused(secured, token_url=url)
    with handing_out(good) as url:  # The same, but for the signature.
        is_ok, said = call(CLIENT, secured.plan("OAUTHBEARER", token_url=url))
        assert is_ok, said


def test_tokens_of_another_key_are_good_when_the_issuer_has_it(secured: Secured) -> None:
    old = secured.issuer.token()
    assert call(CLIENT, secured.plan("OAUTHBEARER"))[0]
    secured.issuer.rotate()
    began = time.monotonic()
    while True:
        is_ok, said = call(CLIENT, secured.plan("OAUTHBEARER", within_s=5))
        if is_ok:
            break
        in_time(time.monotonic() - began < 60, said)
    with handing_out(old) as url:
        assert "InvalidSignatureError" in refused(secured, token_url=url)
