"""Six clients log in with tokens that they have asked a real Keycloak for."""

import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest

from tests.e2e.secure.programs import PROGRAMS, call
from tests.e2e.secure.secured import Secured, running_secured
from tests.parts.keycloak import SECRET, running_keycloak
from tests.parts.oidc import handing_out
from tests.patience import in_time

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CLIENTS = [client for client in PROGRAMS if client != "kcat"]
"""That of Debian 12 was built without OIDC."""


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """A broker that believes Keycloak, and calls clients by their ids."""
    configs = {"sasl.oauthbearer.sub.claim.name": "azp"}
    with running_secured(configs, running_keycloak) as made:
        yield made


def plan(secured: Secured, **more: Any) -> dict[str, Any]:
    return secured.plan("OAUTHBEARER", **{"password": SECRET, **more})


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_logs_in_with_a_token_that_it_has_asked_for(secured: Secured, client: str) -> None:
    is_ok, said = call(client, plan(secured))
    assert is_ok, said


@pytest.mark.parametrize("client", ["java", "confluent"])
def test_a_client_that_gets_no_token_is_not_served(secured: Secured, client: str) -> None:
    is_ok, said = call(client, plan(secured, password="hunter2", within_s=5), 60)
    assert not is_ok, said


def test_keys_are_rotated_and_tokens_of_both_are_good(secured: Secured) -> None:
    old = secured.issuer.token()
    kid = jwt.get_unverified_header(old)["kid"]
    assert call("franz-go", plan(secured))[0]
    secured.issuer.rotate()
    assert jwt.get_unverified_header(secured.issuer.token())["kid"] != kid
    begun_s = time.monotonic()
    while True:
        is_ok, said = call("franz-go", plan(secured, within_s=5))
        if is_ok:
            break
        in_time(time.monotonic() - begun_s < 60, said)
    with handing_out(old) as url:
        is_ok, said = call("franz-go", plan(secured, token_url=url))
    assert is_ok, said
