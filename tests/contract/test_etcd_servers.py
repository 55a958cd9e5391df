"""Servers of a real etcd that are killed, know users, or show certificates."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.names import METADATA_KEY
from lakelog.store import (
    Created,
    EtcdStore,
    Exists,
    Get,
    ListPage,
    PutIfAbsent,
    RetryPolicy,
    retrying,
)
from tests.parts.etcd import Etcd, running_etcd

PATIENT = RetryPolicy(attempts_max=20, delay_ms_base=500, delay_ms_max=1_000)
"""A connection that failed is tried again after a second."""


def new_store(etcd: Etcd) -> EtcdStore:
    store = EtcdStore(etcd.url("tests"))
    store.perform(PutIfAbsent(METADATA_KEY, b"{}"))
    return store


def test_with_one_of_three_servers_gone_it_goes_on() -> None:
    with running_etcd(3) as etcd:
        store = new_store(etcd)
        for at in range(3):
            etcd.servers[at].kill()
            answered = 0
            for number in range(5):
                with contextlib.suppress(UnavailableError):
                    store.perform(PutIfAbsent(f"{at}/{number}", b""))
                    answered += 1
            assert answered >= 2, "a server is asked that is there"
            etcd.start(at)


def test_what_a_server_does_not_answer_is_unknown() -> None:
    with running_etcd(1) as etcd:
        store = new_store(etcd)
        etcd.stop()
        with pytest.raises(UnavailableError, match="outcome unknown"):
            store.perform(PutIfAbsent("a", b"1"))
        etcd.start()
        retrying(store.perform, PATIENT)(ListPage("a/"))
        assert isinstance(store.perform(PutIfAbsent("a", b"1")), Created | Exists)


def test_users_and_passwords() -> None:
    with running_etcd(1) as etcd:
        for command in (
            "user add root:secret", "role add root", "user grant-role root root",
            "user add lake:word", "role add lake",
            "role grant-permission lake readwrite --prefix=true prod/",
            "user grant-role lake lake", "auth enable",
        ):  # fmt: skip
            etcd.ctl(*command.split())
        with pytest.raises(InvalidInputError, match="user and password"):
            EtcdStore(etcd.url("prod")).perform(Get("a"))
        store = EtcdStore(etcd.url("prod"), {"user": "lake", "password": "word"})
        store.perform(PutIfAbsent(METADATA_KEY, b"{}"))
        assert isinstance(store.perform(PutIfAbsent("a", b"1")), Created)
        elsewhere = EtcdStore(etcd.url("other"), {"user": "lake", "password": "word"})
        with pytest.raises(InvalidInputError, match="may do in this folder"):
            elsewhere.perform(PutIfAbsent(METADATA_KEY, b"{}"))
        wrong = EtcdStore(etcd.url("prod"), {"user": "lake", "password": "not it"})
        with pytest.raises(InvalidInputError, match="user and password"):
            wrong.perform(Get("a"))


def test_a_server_and_a_client_that_show_certificates(tmp_path: Path) -> None:
    """One certificate is its own authority, the server's and the client's."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=lakelog", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    tls = (
        f"--cert-file={cert}", f"--key-file={key}", "--client-cert-auth",
        f"--trusted-ca-file={cert}",
    )  # fmt: skip
    with running_etcd(1, tls=tls) as etcd:
        url, known = etcd.url("prod"), {"ca": str(cert)}
        store = EtcdStore(url, {**known, "cert": str(cert), "key": str(key)})
        assert isinstance(store.perform(PutIfAbsent(METADATA_KEY, b"{}")), Created)
        assert isinstance(store.perform(PutIfAbsent("a", b"1")), Created)
        for options in ({}, known):
            with pytest.raises(UnavailableError):
                EtcdStore(url, options).perform(Get("a"))
        with pytest.raises(InvalidInputError, match="check the options ca, cert and key"):
            EtcdStore(url, {"ca": str(tmp_path / "nobody")}).perform(Get("a"))


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("etcd://host:2379", {}),
        ("etcd:///folder", {}),
        ("etcd://a:1,,b:1/folder", {}),
        ("etcd://user@a:1/folder", {}),
        ("etcd://a:1/folder", {"user": "u"}),
        ("etcd://a:1/folder", {"cert": "c"}),
        ("etcd://a:1/folder", {"nothing": "c"}),
    ],
)
def test_an_address_or_option_that_is_none_is_refused(url: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        EtcdStore(url, options)
