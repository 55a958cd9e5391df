"""Logins at a broker: what a client may do before, how it gets in, and what those cost who do not.

Passwords are hashed and tokens checked for real; keys of tokens are made on the spot.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from kio.schema.errors import ErrorCode

from lakelog.broker import Broker, Limits, Listener
from lakelog.broker.login_settings import LoginSettings, OauthSettings, PeerLogin
from lakelog.broker.metrics.prometheus import encode, read_gauges
from lakelog.broker.tls_settings import TlsSettings
from lakelog.broker.tokens import TokenChecker
from lakelog.catalog import UserChange, change_users
from lakelog.host import SystemClock, new_id
from lakelog.names import USERS_KEY
from lakelog.security import (
    MECHANISMS,
    ScramMechanism,
    SecurityProtocol,
    Token,
    keys_of,
    prove,
    salt_password,
)
from lakelog.store import Get
from tests.certificates import Authority
from tests.patience import HANGS_S, until
from tests.unit.broker.site import (
    Client,
    Site,
    batch,
    broker,
    connect,
    request_frame,
    story,
    virtual_story,
)
from tests.unit.broker.test_connection import is_alive
from tests.virtual_time import pass_time

SHA_512 = ScramMechanism.SHA_512
ITERATIONS = 4_096
OURS = Authority()


def with_users(*names: str, site: Site | None = None) -> Site:
    """Return a site with users; each one's password is its name backwards."""
    site = site or Site()
    site.create("t")
    changes = []
    for name in names:
        salt, password = f"salt of {name}".encode(), name[::-1].encode()
        salted = salt_password(SHA_512, password, salt, ITERATIONS)
        changes.append(UserChange(name, SHA_512, keys_of(SHA_512, salted, salt, ITERATIONS)))
    site.do(change_users(tuple(changes), write=new_id(), secret=bytes(32)))
    return site


def sasl(**more: Any) -> tuple[Listener, ...]:
    """Return a listener without TLS: PLAIN is tried on it by going around what is refused."""
    settings = LoginSettings(**more)
    listener = Listener(
        name="PLAINTEXT",
        port=0,
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        logins=LoginSettings(session_ms_max=settings.session_ms_max),
    )
    object.__setattr__(listener, "logins", settings)
    return (listener,)


@asynccontextmanager
async def serving(site: Site, limits: Limits | None = None, **more: Any) -> AsyncIterator[Broker]:
    settings = {"mechanisms": ("SCRAM-SHA-512", "PLAIN"), **more}
    limits = limits or Limits(drain_ms=1_000, failed_login_delay_ms=0)
    async with broker(site, listeners=sasl(**settings), limits=limits) as running:
        yield running


async def choose(client: Client, mechanism: str) -> Any:
    return await client.ask(17, 1, mechanism=mechanism)


async def say(client: Client, data: bytes, version: int = 2) -> Any:
    return await client.ask(36, version, auth_bytes=data)


async def plain(client: Client, user: str, password: str | None = None) -> Any:
    """Log in by PLAIN, and return the answer."""
    await choose(client, "PLAIN")
    secret = user[::-1] if password is None else password
    return await say(client, f"\0{user}\0{secret}".encode())


async def scram(client: Client, user: str, password: str | None = None) -> Any:
    """Log in by SCRAM, and return the last answer."""
    await choose(client, SHA_512)
    steps = prove(SHA_512, user, user[::-1] if password is None else password, "NONCE")
    first = await say(client, next(steps))
    last = await say(client, steps.send(first.auth_bytes))
    if last.error_code is ErrorCode.none:
        with pytest.raises(StopIteration) as end:
            steps.send(last.auth_bytes)
        assert end.value.value is True
    return last


def principals(running: Broker) -> list[str]:
    return [str(one.principal) for one in running._connections]


@story
async def test_whoever_logs_in_is_served_as_who_he_is() -> None:
    site = with_users("alice")
    async with serving(site) as running:
        for log_in in (plain, scram):
            client = await connect(running)
            assert await is_alive(client)
            assert (await log_in(client, "alice")).error_code is ErrorCode.none
            assert principals(running) == ["User:alice"]
            assert (await client.produce("t", 0, batch(b"x"))).error_code == 0
            await client.close()
            await until(lambda: running.connections == 0)
        assert running.services.metrics.security.logins == {"PLAIN": 1, "SCRAM-SHA-512": 1}
        await until(lambda: running.budget.used == 0)


@story
async def test_before_a_login_nothing_but_logins_and_versions_is_answered() -> None:
    from lakelog.wire import APIS

    site = with_users("alice")
    async with serving(site) as running:
        before = len(site.ops)
        for key in sorted(APIS):
            if key in (17, 18, 36):
                continue
            client = await connect(running)
            body = request_frame(18, 0)[4:]
            frame = key.to_bytes(2, "big") + APIS[key].max_version.to_bytes(2, "big") + body[4:]
            client.writer.write(len(frame).to_bytes(4, "big") + frame)
            assert await client.is_closed(), APIS[key].name
            await client.close()
        assert len(site.ops) == before
        told = [one for one in site.log if "before a login" in str(one)]
        assert len(told) == len(APIS) - 3


@story
async def test_a_request_behind_a_login_that_fails_is_not_answered() -> None:
    site = with_users("alice")
    async with serving(site) as running:
        client = await connect(running)
        client.send(17, 1, mechanism="PLAIN")
        client.send(36, 2, auth_bytes=b"\0alice\0hunter2")
        client.send_produce({("t", 0): batch(b"x")})
        await client.answer()
        _, found = await client.answer()
        assert found.error_code is ErrorCode.sasl_authentication_failed
        assert await client.is_closed()
        await client.close()
    assert site.stored("t") == []


@story
async def test_requests_behind_a_login_that_succeeds_are_answered_in_order() -> None:
    site = with_users("alice")
    async with serving(site) as running:
        client = await connect(running)
        client.send(17, 1, mechanism="PLAIN")
        client.send(36, 2, auth_bytes=b"\0alice\0ecila")
        numbers = [client.send_produce({("t", 0): batch(bytes(50_000))}) for _ in range(20)]
        await client.answer()
        await client.answer()
        found = [(await asyncio.wait_for(client.answer(), HANGS_S))[0] for _ in numbers]
        assert found == numbers
        await client.close()
        await until(lambda: running.budget.used == 0)


@pytest.mark.parametrize("user", ["alice", "mallory"])
@pytest.mark.parametrize("log_in", [plain, scram])
def test_a_login_that_fails_says_the_same_whether_the_user_is_there_or_not(
    user: str, log_in: Any
) -> None:
    @story
    async def told() -> None:
        site = with_users("alice")
        async with serving(site) as running:
            client = await connect(running)
            found = await log_in(client, user, "hunter2")
            mechanism = "PLAIN" if log_in is plain else "SCRAM-SHA-512"
            assert found.error_code is ErrorCode.sasl_authentication_failed
            assert found.auth_bytes == b""
            assert found.error_message == (
                "Authentication failed during authentication due to invalid credentials with SASL"
                f" mechanism {mechanism}"
            )
            assert await client.is_closed()
            await client.close()
        assert "hunter2" not in str(site.log)

    told()


@virtual_story
async def test_who_does_not_log_in_is_not_kept() -> None:
    async with serving(with_users("alice"), Limits(drain_ms=1_000)) as running:
        silent, chosen, good = [await connect(running) for _ in range(3)]
        await choose(chosen, "PLAIN")
        await scram(good, "alice")
        await pass_time(11)
        assert await silent.is_closed()
        assert await chosen.is_closed()
        assert await is_alive(good)
        for client in (silent, chosen, good):
            await client.close()


@virtual_story
async def test_a_failure_is_told_late() -> None:
    limits = Limits(drain_ms=1_000, failed_login_delay_ms=5_000)
    async with serving(with_users("alice"), limits) as running:
        client = await connect(running)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        await choose(client, "SCRAM-SHA-512")
        found = await say(client, b"hello")
        assert found.error_code is ErrorCode.sasl_authentication_failed
        assert loop.time() - begun_s >= 5
        await client.close()


@story
async def test_a_large_request_is_refused_before_it_has_come() -> None:
    site = with_users("alice")
    async with serving(site) as running:
        client = await connect(running)
        client.writer.write((512 * 1024 + 1).to_bytes(4, "big") + b"\0\x24\0\0")
        assert await client.is_closed()
        await client.close()
        # After a login a request may be as large as any.
        client = await connect(running)
        await plain(client, "alice")
        assert (await client.produce("t", 0, batch(bytes(900_000)))).error_code == 0
        await client.close()


# ---------------------------------------------------------------------------- sessions


@virtual_story
async def test_a_session_ends_unless_the_client_logs_in_again() -> None:
    async with serving(with_users("alice"), session_ms_max=60_000) as running:
        lazy, eager = [await connect(running) for _ in range(2)]
        for client in (lazy, eager):
            found = await scram(client, "alice")
            assert found.session_lifetime.total_seconds() == 60
        await pass_time(50)
        number = eager.send_fetch({("t", 0): 0}, wait_ms=5_000)
        assert (await eager.answer())[0] == number
        assert (await scram(eager, "alice")).error_code is ErrorCode.none
        await pass_time(20)
        assert await is_alive(eager)
        lazy.send_fetch({("t", 0): 0})
        assert await lazy.is_closed()
        counts = running.services.metrics.security
        assert counts.sessions_expired == 1
        assert counts.logins_again["SCRAM-SHA-512"] == 1
        for client in (lazy, eager):
            await client.close()


@virtual_story
async def test_who_was_deleted_is_served_until_his_session_ends_as_kafka_does_it() -> None:
    """Kafka 4 answers on connections of a user that is no more, and does not let him in again."""
    async with serving(with_users("admin", "bob"), session_ms_max=60_000) as running:
        admin, bob = [await connect(running) for _ in range(2)]
        await scram(admin, "admin")
        await scram(bob, "bob")
        gone = [{"name": "bob", "mechanism": 2}]
        assert await alter(admin, deletions=gone) == {"bob": ErrorCode.none}
        await pass_time(50)
        assert await is_alive(bob)
        found = await scram(bob, "bob")
        assert found.error_code is ErrorCode.sasl_authentication_failed
        assert await bob.is_closed()
        for client in (admin, bob):
            await client.close()


@virtual_story
async def test_nobody_becomes_another_one_on_the_same_connection() -> None:
    async with serving(with_users("alice", "bob")) as running:
        client = await connect(running)
        await scram(client, "alice")
        await pass_time(10)
        found = await scram(client, "bob")
        assert found.error_code is ErrorCode.sasl_authentication_failed
        assert await client.is_closed()
        await client.close()


# ---------------------------------------------------------------------------- users


def upsertion(name: str, password: str, **more: Any) -> dict[str, Any]:
    salt = b"some salt"
    salted = salt_password(SHA_512, password.encode(), salt, ITERATIONS)
    fields = {"mechanism": 2, "iterations": ITERATIONS, "salt": salt, "salted_password": salted}
    return {"name": name, **fields, **more}


async def alter(client: Client, *upsertions: Any, deletions: Any = ()) -> dict[str, ErrorCode]:
    found = await client.ask(51, 0, deletions=list(deletions), upsertions=list(upsertions))
    return {row.user: row.error_code for row in found.results}


@story
async def test_users_are_made_by_kafkas_api_and_log_in_at_once_everywhere() -> None:
    site = with_users("admin")
    async with serving(site) as one, serving(site) as other:
        admin = await connect(one)
        await scram(admin, "admin")
        assert await alter(admin, upsertion("bob", "builder")) == {"bob": ErrorCode.none}
        client = await connect(one)
        assert (await scram(client, "bob", "builder")).error_code is ErrorCode.none
        users = other.services.users
        await until(lambda: "bob" in users.current.keys)
        elsewhere = await connect(other)
        assert (await plain(elsewhere, "bob", "builder")).error_code is ErrorCode.none
        found = await admin.ask(50, 0, users=None)
        rows = {row.user: [tuple(info) for info in _infos(row)] for row in found.results}
        assert rows == {"admin": [(2, ITERATIONS)], "bob": [(2, ITERATIONS)]}
        gone = [{"name": "bob", "mechanism": 2}]
        assert await alter(admin, deletions=gone) == {"bob": ErrorCode.none}
        late = await connect(one)
        found = await scram(late, "bob", "builder")
        assert found.error_code is ErrorCode.sasl_authentication_failed
        for each in (admin, client, elsewhere, late):
            await each.close()
    assert b"builder" not in site.perform(Get(USERS_KEY, 1 << 20)).body


def _infos(row: Any) -> list[tuple[int, int]]:
    return [(info.mechanism, info.iterations) for info in row.credential_infos]


@story
async def test_what_kafka_refuses_of_users_is_refused() -> None:
    site = with_users("admin")
    async with serving(site) as running:
        client = await connect(running)
        await scram(client, "admin")
        bad, none = ErrorCode.unacceptable_credential, ErrorCode.none
        assert await alter(client, upsertion("", "x")) == {"": bad}
        assert await alter(client, upsertion("a", "x", iterations=4_095)) == {"a": bad}
        assert await alter(client, upsertion("a", "x", iterations=16_385)) == {"a": bad}
        assert await alter(client, upsertion("a", "x", salt=b"")) == {"a": bad}
        unknown = ErrorCode.unsupported_sasl_mechanism
        assert await alter(client, upsertion("a", "x", mechanism=3)) == {"a": unknown}
        twice = await alter(client, upsertion("a", "x"), upsertion("a", "y"), upsertion("b", "z"))
        assert twice == {"a": ErrorCode.duplicate_resource, "b": none}
        missing = [{"name": "nobody", "mechanism": 1}]
        assert await alter(client, deletions=missing) == {"nobody": ErrorCode.resource_not_found}
        found = await client.ask(50, 0, users=[{"name": "a"}, {"name": "b"}, {"name": "b"}])
        codes = {row.user: row.error_code for row in found.results}
        assert codes == {"a": ErrorCode.resource_not_found, "b": ErrorCode.duplicate_resource}
        await client.close()


@virtual_story
async def test_who_was_written_to_the_bucket_is_known_soon() -> None:
    site = with_users("admin")
    async with serving(site) as running:
        salted = salt_password(SHA_512, b"builder", b"salt", ITERATIONS)
        change = UserChange("bob", SHA_512, keys_of(SHA_512, salted, b"salt", ITERATIONS))
        site.do(change_users((change,), write=new_id(), secret=bytes(32)))
        await pass_time(11)
        client = await connect(running)
        assert (await scram(client, "bob", "builder")).error_code is ErrorCode.none
        await client.close()


@story
async def test_on_a_listener_without_logins_a_login_is_out_of_place() -> None:
    async with broker(Site()) as running:
        client = await connect(running)
        assert (await choose(client, "PLAIN")).error_code is ErrorCode.illegal_sasl_state
        assert (await say(client, b"x")).error_code is ErrorCode.illegal_sasl_state
        assert await is_alive(client)
        await client.close()


# ---------------------------------------------------------------------------- hostile


@story
async def test_logins_that_fail_cost_the_store_nothing_and_lock_nobody_out() -> None:
    site = with_users("alice")
    async with serving(site) as running:
        good = await connect(running, source="127.0.0.2")
        await scram(good, "alice")
        before = len(site.ops)

        async def attack(number: int) -> None:
            for at in range(25):
                client = await connect(running, source="127.0.0.9")
                user = "alice" if at % 2 else f"nobody{number}"
                await (plain if at % 5 == 0 else scram)(client, user, "hunter2")
                await client.close()

        await asyncio.gather(*map(attack, range(12)))
        failed = running.services.metrics.security.logins_failed
        assert failed.total() == 300
        assert [op for op in site.ops[before:] if getattr(op, "key", "") == USERS_KEY] == []
        assert await is_alive(good)
        late = await connect(running, source="127.0.0.2")
        assert (await scram(late, "alice")).error_code is ErrorCode.none
        for client in (good, late):
            await client.close()
    told = [one for one in site.log if one["event"] == "a login failed"]
    assert len(told) < 100
    assert "hunter2" not in str(site.log)


@story
async def test_what_a_client_calls_itself_does_not_break_the_log() -> None:
    site = with_users("alice")
    async with serving(site) as running:
        client = await connect(running)
        await choose(client, "PLAIN")
        await say(client, b"\0\x1b[31mroot\r\nforged\0x")
        await client.close()
    (told,) = [one for one in site.log if one["event"] == "a login failed"]
    assert told["user"] == "\\x1b[31mroot\\r\\nforged"


# ---------------------------------------------------------------------------- tokens


class Issuer:
    """Whoever signs tokens."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.asked = 0
        self.add("first")

    def add(self, kid: str) -> None:
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def fetch(self, _: str) -> bytes:
        self.asked += 1
        rows = []
        for kid, key in self.keys.items():
            public = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
            rows.append({**public, "kid": kid, "alg": "ES256", "use": "sig"})
        return json.dumps({"keys": rows}).encode()

    def token(self, kid: str = "first", **claims: Any) -> str:
        now_s = SystemClock().now_ms() // 1000
        told = {"iss": "us", "aud": "kafka", "sub": "alice", "exp": now_s + 600, **claims}
        told = {name: value for name, value in told.items() if value is not None}
        return jwt.encode(told, self.keys[kid], "ES256", headers={"kid": kid})


SETTINGS = OauthSettings(jwks_url="https://issuer/keys", issuer="us", audience=("kafka", "other"))


class Hands:
    """A clock whose hands are moved by hand."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def boot_ms(self) -> int:
        return self.ms


def checker(issuer: Issuer, clock: Hands | None = None) -> TokenChecker:
    return TokenChecker(SETTINGS, clock or Hands(), issuer.fetch)


def test_a_token_says_who_it_is_of_and_until_when() -> None:
    issuer = Issuer()
    found = checker(issuer).check(issuer.token(exp=4_000_000_000))
    assert found == Token("alice", 4_000_000_000_000)


def unsigned(issuer: Issuer) -> str:
    return jwt.encode({"iss": "us", "aud": "kafka", "sub": "alice", "exp": 4 << 30}, "", "none")


def by_public_key(issuer: Issuer) -> str:
    """Sign with what everybody knows, as if it were a secret that both sides share."""
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "first"}).encode())
    claims = {"iss": "us", "aud": "kafka", "sub": "alice", "exp": 4 << 30}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode())
    text = (head.rstrip(b"=") + b"." + body.rstrip(b"=")).decode()
    import hashlib
    import hmac

    key = json.dumps(json.loads(issuer.fetch(""))["keys"][0]).encode()
    signature = base64.urlsafe_b64encode(hmac.digest(key, text.encode(), hashlib.sha256))
    return f"{text}.{signature.rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "make",
    [
        lambda one: one.token(iss="them"),
        lambda one: one.token(iss=None),
        lambda one: one.token(aud="somebody else"),
        lambda one: one.token(aud=None),
        lambda one: one.token(exp=1),
        lambda one: one.token(exp=None),
        lambda one: one.token(nbf=4_000_000_000),
        lambda one: one.token(sub=None),
        lambda one: one.token(sub=""),
        lambda one: one.token(sub="x" * 256),
        lambda _: Issuer().token(),
        lambda one: one.token()[:-4] + "AAAA",
        unsigned,
        by_public_key,
        lambda _: "a.b.c",
    ],
)
def test_a_token_that_is_not_good_is_refused(make: Any) -> None:
    issuer = Issuer()
    assert isinstance(checker(issuer).check(make(issuer)), str)


def test_keys_are_fetched_when_one_is_new_and_not_for_each_that_is_made_up() -> None:
    issuer, clock = Issuer(), Hands()
    check = checker(issuer, clock).check
    assert isinstance(check(issuer.token()), Token)
    stranger = Issuer()
    for at in range(100):
        stranger.add(f"made up {at}")
        assert isinstance(check(stranger.token(f"made up {at}")), str)
    assert issuer.asked == 1
    issuer.add("second")
    clock.ms += 10_000
    assert isinstance(check(issuer.token("second")), Token)
    assert issuer.asked == 2


def test_an_issuer_that_does_not_answer_keeps_nobody_out_whose_key_is_known() -> None:
    issuer, clock = Issuer(), Hands()
    one = checker(issuer, clock)
    assert isinstance(one.check(issuer.token()), Token)

    def silent(url: str) -> bytes:
        raise OSError("no answer")

    one._fetch = silent
    clock.ms += 2 * 3_600_000
    assert isinstance(one.check(issuer.token()), Token)


@story
async def test_a_client_logs_in_by_a_token_and_its_session_ends_with_it() -> None:
    issuer = Issuer()
    site = with_users("alice")
    async with serving(site, mechanisms=MECHANISMS, oauth=SETTINGS) as running:
        running.dispatcher._logins._checks = {"PLAINTEXT": checker(issuer).check}
        client = await connect(running)
        await choose(client, "OAUTHBEARER")
        found = await say(client, f"n,,\x01auth=Bearer {issuer.token()}\x01\x01".encode())
        assert found.error_code is ErrorCode.none
        assert principals(running) == ["User:alice"]
        other = await connect(running)
        await choose(other, "OAUTHBEARER")
        bad = issuer.token(iss="them")
        found = await say(other, f"n,,\x01auth=Bearer {bad}\x01\x01".encode())
        assert json.loads(found.auth_bytes) == {"status": "invalid_token"}
        found = await say(other, b"\x01")
        assert found.error_code is ErrorCode.sasl_authentication_failed
        failed = running.services.metrics.security.logins_failed
        assert failed["OAUTHBEARER"] == 1
        hasty = await connect(running)
        await choose(hasty, "OAUTHBEARER")
        await say(hasty, f"n,,\x01auth=Bearer {bad}\x01\x01".encode())
        assert failed["OAUTHBEARER"] == 2  # Although it has not heard all of it.
        for one in (client, other, hasty):
            await one.close()
    assert bad not in str(site.log)
    assert str(site.log).count("InvalidIssuerError") == 2


# ---------------------------------------------------------------------------- other brokers


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_brokers_log_in_at_each_other(tmp_path: Path, mechanism: str) -> None:
    @story
    async def told() -> None:
        site = with_users("broker")
        keys = OURS.sign("CN=broker").write(tmp_path / "broker.pem")
        trust = OURS.write_certificate(tmp_path / "trust.pem")
        tls = TlsSettings(key_store=str(keys), trust_store=str(trust))
        peer = PeerLogin(mechanism=mechanism, user="broker", password="rekorb")
        logins = LoginSettings(mechanisms=("SCRAM-SHA-512", "PLAIN"), peer=peer)
        listener = Listener(
            name="IN", port=0, protocol=SecurityProtocol.SASL_SSL, tls=tls, logins=logins
        )
        assert "rekorb" not in repr(listener)
        async with (
            broker(site, listeners=(listener,)) as one,
            broker(site, listeners=(listener,)) as other,
        ):
            await until(lambda: len(one.services.cluster.node.view.serving) == 2)
            await one.services.catalog.create("new", 1, {})
            await until(lambda: one.services.metrics.peers_told > 0)
            assert "User:broker" in principals(other)
            context = ssl.create_default_context(cadata=OURS.certificate_pem)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", one.ports["IN"], ssl=context, server_hostname="localhost"
            )
            client = Client(reader, writer)
            assert (await scram(client, "broker")).error_code is ErrorCode.none
            writer.transport.abort()

    told()


@story
async def test_logins_are_counted_for_prometheus() -> None:
    site = with_users("alice")
    async with serving(site) as running:
        for password in (None, "hunter2", "hunter3"):
            client = await connect(running)
            await plain(client, "alice", password)
            await client.close()
        metrics = running.services.metrics
        text, _ = encode(metrics, await read_gauges(metrics))
    lines = text.decode().splitlines()
    assert 'lakelog_logins_total{mechanism="PLAIN"} 1.0' in lines
    assert 'lakelog_logins_failed_total{mechanism="PLAIN"} 2.0' in lines
    assert "lakelog_sessions_expired_total 0.0" in lines
