"""What went wrong with logins elsewhere, by the numbers of CVEs; it must not go wrong here.

docs/explanation/cves.md lists all that we know of, and why some of them cannot be ours.
"""

import base64
import hashlib
import hmac
import http.server
import json
import threading
from typing import Any

import jwt
import pytest
from jwt.algorithms import ECAlgorithm
from kio.schema.errors import ErrorCode

from lakelog.broker import Limits
from lakelog.broker.http import TokenFile
from lakelog.broker.login_settings import LoginSettings, OauthSettings
from lakelog.broker.tokens import TokenChecker, fetch_keys
from lakelog.errors import InvalidInputError
from lakelog.security import MECHANISMS, ScramMechanism, Token, prove, salt_password
from tests.patience import until
from tests.unit.broker.site import Client, batch, connect, story
from tests.unit.broker.test_logins import (
    ITERATIONS,
    SETTINGS,
    SHA_512,
    Hands,
    Issuer,
    alter,
    checker,
    choose,
    plain,
    say,
    scram,
    serving,
    upsertion,
    with_users,
)

FAILED = ErrorCode.sasl_authentication_failed
CLAIMS = {"iss": "us", "aud": "kafka", "sub": "alice", "exp": 4 << 30}


# ---------------------------------------------------------------------------- PLAIN and SCRAM


@story
async def test_cve_2017_12610_nobody_acts_as_another_user() -> None:
    """Kafka took whom a client wanted to act as for who it was; here both must be the same."""
    async with serving(with_users("alice", "bob")) as running:
        for mechanism, message in (
            ("PLAIN", b"bob\0alice\0ecila"),
            ("SCRAM-SHA-512", b"n,a=bob,n=alice,r=NONCE"),
        ):
            client = await connect(running)
            await choose(client, mechanism)
            assert (await say(client, message)).error_code is FAILED
            await client.close()
        client = await connect(running)
        await choose(client, "PLAIN")
        assert (await say(client, b"alice\0alice\0ecila")).error_code is ErrorCode.none
        await client.close()


def test_cve_2021_38153_secrets_are_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Kafka compared secrets byte by byte until one differed, and so told how many were right."""
    compared: list[set[bytes]] = []
    compare = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.append({bytes(one), bytes(other)})
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    site = with_users("alice")
    salted = salt_password(SHA_512, b"ecila", b"salt of alice", ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    stored = hashlib.sha512(client_key).digest()
    (tmp_path / "token").write_text("hunter2")

    @story
    async def attempts() -> None:
        async with serving(site) as running:
            for log_in in (plain, scram):
                compared.clear()
                client = await connect(running)
                assert (await log_in(client, "alice", "wrong")).error_code is FAILED
                assert any(stored in pair for pair in compared)
                await client.close()
        assert not await TokenFile(tmp_path / "token").admits("Bearer hunter3")
        assert {b"Bearer hunter2", b"Bearer hunter3"} in compared

    attempts()


@story
async def test_cve_2024_56128_a_proof_counts_only_with_the_nonce_of_its_login() -> None:
    """Kafka did not compare the nonce of the last message: what was proved once could be replayed.

    The proof is right for what was sent; only the nonce is not the one of this login.
    """
    async with serving(with_users("alice")) as running:
        client = await connect(running)
        await choose(client, SHA_512)
        bare = "n=alice,r=NONCE"
        question = (await say(client, f"n,,{bare}".encode())).auth_bytes.decode()
        unproved = "c=biws,r=NONCE" + "x" * 24
        assert unproved[9:] not in question
        salted = salt_password(SHA_512, b"ecila", b"salt of alice", ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", "sha512")
        stored = hashlib.sha512(client_key).digest()
        signature = hmac.digest(stored, f"{bare},{question},{unproved}".encode(), "sha512")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        last = f"{unproved},p={base64.b64encode(proof).decode()}"
        assert (await say(client, last.encode())).error_code is FAILED
        assert await client.is_closed()
        await client.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"r=OTHERx,s=c2FsdA==,i=4096",
        b"r=NONCE,s=c2FsdA==,i=4096",
        b"r=NONCEx,s=c2FsdA==,i=999999999",
        b"r=NONCEx,s=c2FsdA==,i=1",
        b"e=other-error",
        b"\xff",
    ],
)
def test_cve_2026_10143_a_broker_does_no_work_for_a_peer_that_asks_for_too_much(
    answer: bytes,
) -> None:
    """kafka-python hashed as often as a broker told it to, on its loop: for minutes."""
    steps = prove(ScramMechanism.SHA_512, "alice", "wonderland", "NONCE")
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(answer)
    assert end.value.value is False


@story
async def test_cve_2022_34917_those_who_are_nobody_take_no_memory_from_others() -> None:
    """Whoever reached Kafka's port could let it allocate all of its memory, without a login; here
    memory for whoever has not logged in has a bound of its own.
    """
    limits = Limits(login_memory_bytes=1 << 20, address_percent=100, drain_ms=1_000)
    site = with_users("alice")
    async with serving(site, limits) as running:
        good = await connect(running)
        await scram(good, "alice")
        hostile = [await connect(running) for _ in range(20)]
        for one in hostile:
            one.writer.write((400 << 10).to_bytes(4, "big") + b"\0\x24\0\x02" + bytes(390 << 10))
        await until(lambda: running.connections < 10)
        closed = [one["why"] for one in site.log if one["event"] == "connection closed"]
        assert all("unfinished requests take more" in why for why in closed)
        assert running.buffers.used == 0
        assert (await good.produce("t", 0, batch(bytes(900_000)))).error_code == 0
        for one in (*hostile, good):
            await one.close()


# ---------------------------------------------------------------------------- logs


@story
async def test_cve_2021_44228_what_a_client_says_is_written_and_not_looked_up() -> None:
    """Log4j looked up what stood in a message. Here a message is text: nothing in it is filled in,
    and nothing in it ends its line.
    """
    site = with_users("alice")
    said = "${jndi:ldap://127.0.0.1/x}%(password)s{user}{0}"
    async with serving(site) as running:
        client = await connect(running)
        await plain(client, f"{said}\r\nforged", "hunter2")
        await client.close()
    (told,) = [one for one in site.log if one["event"] == "a login failed"]
    assert told["user"] == f"{said}\\r\\nforged"
    assert "hunter2" not in str(told)


@story
async def test_cve_2026_33558_no_secret_is_in_any_line_of_the_log() -> None:
    """Kafka wrote whole requests into its log at DEBUG, with passwords in them. The log of this
    test has all levels.
    """
    site, issuer = with_users("admin"), Issuer()
    salted = upsertion("bob", "builder")["salted_password"]
    token = issuer.token(iss="them")
    async with serving(site, mechanisms=MECHANISMS, oauth=SETTINGS) as running:
        running.dispatcher._logins._checks = {"PLAINTEXT": checker(issuer).check}
        clients = [await connect(running) for _ in range(4)]
        await scram(clients[0], "admin")
        await alter(clients[0], upsertion("bob", "builder"))
        await alter(clients[0], {**upsertion("", "builder"), "salted_password": salted})
        await plain(clients[1], "bob", "builder")
        await plain(clients[2], "bob", "buildings")
        await choose(clients[3], "OAUTHBEARER")
        await say(clients[3], f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        for client in clients:
            await client.close()
    assert [one for one in site.log if one["event"] == "a login failed"]
    told = str(site.log)
    secrets = ["builder", "buildings", token, token.rpartition(".")[2], "nimda"]
    secrets += [salted.hex(), base64.b64encode(salted).decode(), repr(salted)]
    assert [one for one in secrets if one in told] == []


# ---------------------------------------------------------------------------- tokens


def test_cve_2025_27817_only_the_broker_says_where_keys_are() -> None:
    """Kafka fetched keys from wherever a config of a client, or of a connector, said: from files,
    from hosts inside. Here it is one address of the broker's own, whatever a token says of others.
    """
    issuer, stranger = Issuer(), Issuer()
    asked: list[str] = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return (issuer if url == SETTINGS.jwks_url else stranger).fetch(url)

    check = TokenChecker(SETTINGS, Hands(), fetch).check
    places = ("jku", "x5u", "kid")
    for place in places:
        for url in ("https://evil/keys", "file:///etc/passwd", "http://169.254.169.254/"):
            headers = {"kid": "first", place: url}
            forged = jwt.encode(CLAIMS, stranger.keys["first"], "ES256", headers=headers)
            assert isinstance(check(forged), str)
    row = ECAlgorithm.to_jwk(stranger.keys["first"].public_key(), as_dict=True)
    headers_with_key: dict[str, Any] = {"kid": "first", "jwk": row}
    forged = jwt.encode(CLAIMS, stranger.keys["first"], "ES256", headers=headers_with_key)
    assert isinstance(check(forged), str)
    assert isinstance(check(issuer.token()), Token)
    assert set(asked) == {SETTINGS.jwks_url}
    for url in ("http://login.example.com/keys", "ftp://localhost.example.com/", "keys.json"):
        with pytest.raises(InvalidInputError, match="https"):
            OauthSettings(jwks_url=url, issuer="us", audience=("kafka",))


def test_cve_2025_27817_keys_are_not_fetched_from_where_an_answer_points_to() -> None:
    """An address that sends us elsewhere would choose where keys are, and what is asked inside."""
    asked: list[str] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302 if self.path == "/keys" else 200)
            self.send_header("Location", "/inside")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with pytest.raises(OSError, match="302"):
                fetch_keys(f"http://127.0.0.1:{server.server_port}/keys")
        finally:
            server.shutdown()
            thread.join()
    assert asked == ["/keys"]


@story
async def test_cve_2026_33557_a_token_that_anybody_made_lets_nobody_in() -> None:
    """Kafka 4.1 took any token by default: whoever signed it, for whomever. Here there is no
    default that does, and signature, issuer and audience are all asked for.
    """
    for missing in ("jwks_url", "issuer", "audience"):
        given: dict[str, Any] = {"jwks_url": "https://h/", "issuer": "us", "audience": ("kafka",)}
        with pytest.raises(InvalidInputError, match="OAUTHBEARER needs"):
            OauthSettings(**{**given, missing: () if missing == "audience" else ""})
    with pytest.raises(InvalidInputError, match="OAUTHBEARER needs"):
        LoginSettings(mechanisms=("OAUTHBEARER",))
    issuer, stranger = Issuer(), Issuer()
    forged = [stranger.token(), issuer.token(iss="them"), issuer.token(aud="them")]
    forged += [jwt.encode(CLAIMS, "", "none", headers={"kid": "first"})]
    async with serving(with_users("alice"), mechanisms=MECHANISMS, oauth=SETTINGS) as running:
        running.dispatcher._logins._checks = {"PLAINTEXT": checker(issuer).check}
        good = await connect(running)
        assert (await by_token(good, issuer.token())).error_code is ErrorCode.none
        await good.close()
        for token in forged:
            client = await connect(running)
            found = await by_token(client, token)
            if found.error_code is ErrorCode.none:
                assert json.loads(found.auth_bytes) == {"status": "invalid_token"}
                found = await say(client, b"\x01")
            assert found.error_code is FAILED
            await client.close()


async def by_token(client: Client, token: str) -> Any:
    await choose(client, "OAUTHBEARER")
    return await say(client, f"n,,\x01auth=Bearer {token}\x01\x01".encode())


def test_cve_2022_29217_a_public_key_is_no_shared_secret() -> None:
    """PyJWT could be brought to check an HMAC with a public key, which everybody has. Here the
    algorithms are named, and none of them has a shared secret.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    issuer = Issuer()
    public = issuer.keys["first"].public_key()
    ssh = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    row = json.dumps(json.loads(issuer.fetch(""))["keys"][0]).encode()
    for secret in (ssh, pem, row):
        for algorithm in ("HS256", "HS512"):
            forged = signed({"alg": algorithm, "kid": "first"}, secret)
            assert isinstance(checker(issuer).check(forged), str)


def test_cve_2026_48523_a_key_signs_by_its_own_algorithm_and_by_no_secret() -> None:
    """PyJWT compared a token's algorithm with those that were allowed, and then checked it by that
    of its key. Here a key whose algorithm is not allowed is no key.
    """
    secret = b"a secret of 32 bytes and no less"
    shared = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    row = {"kty": "oct", "k": shared, "kid": "first", "alg": "HS256", "use": "sig"}
    check = TokenChecker(SETTINGS, Hands(), lambda _: json.dumps({"keys": [row]}).encode()).check
    for algorithm in ("ES256", "RS256", "HS256"):
        assert isinstance(check(signed({"alg": algorithm, "kid": "first"}, secret)), str)


def test_cve_2026_102274_a_key_that_cannot_be_read_takes_none_of_the_others_away() -> None:
    """PyJWT gave up all keys of an issuer when the numbers of one were no numbers."""
    issuer = Issuer()
    rows = json.loads(issuer.fetch(""))["keys"]
    odd = [{"kty": "RSA", "kid": "odd", "n": "", "e": "AQAB"}, {"kty": "RSA", "n": "!", "e": "!"}]
    odd += [{"kty": "EC", "crv": "P-256", "x": "", "y": ""}, {"kty": "OKP", "crv": "Ed25519"}]
    body = json.dumps({"keys": [*odd, None, 7, *rows]}).encode()
    check = TokenChecker(SETTINGS, Hands(), lambda _: body).check
    assert isinstance(check(issuer.token()), Token)
    issuer.add("odd")
    assert isinstance(check(issuer.token("odd")), str)


def signed(header: dict[str, str], secret: bytes) -> str:
    """Return a token that is signed with a secret, whatever its header says."""
    parts = [json.dumps(one).encode() for one in (header, CLAIMS)]
    text = b".".join(base64.urlsafe_b64encode(one).rstrip(b"=") for one in parts)
    kind = "sha512" if header["alg"].endswith("512") else "sha256"
    signature = base64.urlsafe_b64encode(hmac.digest(secret, text, kind)).rstrip(b"=")
    return (text + b"." + signature).decode()
