"""Certificates are renewed while seven clients work, and expire, of clients and of the broker."""

import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.certificates import Authority, Signed
from tests.e2e.secure.programs import PROGRAMS, call
from tests.e2e.secure.secured import OURS, Secured
from tests.patience import in_time

EXPIRED = timedelta(hours=-1)
NEW = Authority("new")


@contextmanager
def renewed(secured: Secured, certificate: Signed) -> Iterator[None]:
    """Give the broker another certificate for a while."""
    old = shown(secured)
    with_key = secured.keys.read_text()
    try:
        certificate.write(secured.keys)
        wait_for(secured, certificate.certificate_pem)
        yield
    finally:
        secured.keys.write_text(with_key)
        wait_for(secured, old)


def wait_for(secured: Secured, pem: str) -> None:
    begun_s = time.monotonic()
    while shown(secured).strip() != pem.strip():
        in_time(time.monotonic() - begun_s < 60, "the new certificate is not shown")
        time.sleep(0.2)  # noqa: TID251 (nothing to wait on but the other process)


def shown(secured: Secured) -> str:
    """Return the certificate that the broker shows."""
    host, port = secured.tls.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)))


def is_served(client: str, plan: dict[str, object]) -> bool:
    try:
        return call(client, plan, 25)[0]
    except subprocess.TimeoutExpired:
        return False  # Some try for ever.


def believing(secured: Secured, *authorities: Authority) -> str:
    """Return the path of a file of authorities."""
    path: Path = secured.home / f"believed{len(authorities)}.pem"
    path.write_text("".join(one.certificate_pem for one in authorities))
    return str(path)


@pytest.mark.long
def test_a_new_certificate_is_seen_by_the_next_client(secured: Secured) -> None:
    ca = believing(secured, NEW)
    with renewed(secured, NEW.sign("CN=broker")):
        for client in PROGRAMS:
            is_ok, said = call(client, secured.plan("tls", ca=ca))
            assert is_ok, (client, said)
        assert not is_served("confluent", secured.plan("tls", within_s=5))  # It knows the old one.


@pytest.mark.long
def test_clients_that_work_do_not_notice_that_a_certificate_is_renewed(secured: Secured) -> None:
    """They hold a connection with the old one, and begin others when there is the new one."""
    ca = believing(secured, OURS, NEW)
    with ThreadPoolExecutor(len(PROGRAMS)) as pool:
        plans = {
            client: secured.plan("tls", ca=ca, count=40, pause_s=0.5, topic=f"renewed-{client}")
            for client in PROGRAMS
        }
        working = {client: pool.submit(call, client, plan) for client, plan in plans.items()}
        time.sleep(5)  # noqa: TID251 (they work with the old one)
        with renewed(secured, NEW.sign("CN=broker")):
            for client, work in working.items():
                is_ok, said = work.result()
                assert is_ok, (client, said)


@pytest.mark.sample(1)
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_whose_certificate_has_expired_is_not_served(
    secured: Secured, client: str
) -> None:
    cert = OURS.sign("CN=alice", lasts=EXPIRED).write(secured.home / "expired.pem")
    assert not is_served(client, secured.plan("mtls", cert=str(cert), within_s=5))


@pytest.mark.long
def test_no_client_believes_a_broker_whose_certificate_has_expired(secured: Secured) -> None:
    with renewed(secured, OURS.sign("CN=broker", lasts=EXPIRED)):
        for client in PROGRAMS:
            assert not is_served(client, secured.plan("tls", within_s=5)), client
