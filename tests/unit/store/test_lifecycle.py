"""Which rules of a bucket delete what is ours, and that no answer of it can do harm."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.store import ExpiryRule, StoreSpec, find_expiry
from lakelog.store.lifecycle import ANSWER_BYTES_MAX, parse_rules, sign

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
DAYS = "<Expiration><Days>30</Days></Expiration>"


def document(*rules: str, status: str = "Enabled", opening: str = "") -> bytes:
    told = "".join(f"<Rule><ID>r</ID><Status>{status}</Status>{rule}</Rule>" for rule in rules)
    text = f'{opening}<LifecycleConfiguration xmlns="urn:any">{told}</LifecycleConfiguration>'
    return text.encode()


def prefixes(*rules: str) -> list[str]:
    return [rule.prefix for rule in parse_rules(document(*rules))]


# ---------------------------------------------------------------------------- reading rules


def test_a_rule_that_deletes_is_found_in_every_way_of_writing_it() -> None:
    assert prefixes(f"<Filter><Prefix>a/</Prefix></Filter>{DAYS}") == ["a/"]
    assert prefixes(f"<Prefix>a/</Prefix>{DAYS}") == ["a/"]
    assert prefixes(f"<Filter/>{DAYS}", DAYS) == ["", ""]
    sized = "<And><Prefix>a/</Prefix><ObjectSizeLessThan>9</ObjectSizeLessThan></And>"
    assert prefixes(f"<Filter>{sized}</Filter>{DAYS}") == ["a/"]
    assert prefixes("<Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration>") == [""]


def test_a_rule_that_deletes_nothing_of_ours_is_none() -> None:
    tag = "<Tag><Key>k</Key><Value>v</Value></Tag>"
    assert prefixes(f"<Filter>{tag}</Filter>{DAYS}") == []
    assert prefixes(f"<Filter><And><Prefix>a/</Prefix>{tag}</And></Filter>{DAYS}") == []
    marker = "<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>"
    assert prefixes(f"<Expiration>{marker}</Expiration>") == []
    assert (
        prefixes("<NoncurrentVersionExpiration><Days>1</Days></NoncurrentVersionExpiration>") == []
    )
    assert parse_rules(document(DAYS, status="Disabled")) == ()
    assert parse_rules(document()) == ()


@pytest.mark.parametrize(
    ("rule", "ours", "reached"),
    [
        ("", "logs/", True),
        ("", "", True),
        ("logs/", "logs/", True),
        ("lo", "logs/", True),
        ("logs/old/", "logs/", True),
        ("logs/", "", True),
        ("logs", "logs2/", True),
        ("other/", "logs/", False),
        ("logs2/", "logs/", False),
    ],
)
def test_a_rule_reaches_what_lies_below_it_and_what_it_lies_below(
    rule: str, ours: str, reached: bool
) -> None:
    assert ExpiryRule(id="r", prefix=rule).reaches(ours) is reached


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<LifecycleConfiguration>",
        b"<html></html>",
        b"\xff\xfe<",
        document(opening="<!DOCTYPE a>"),
        document(opening='<!DOCTYPE a [<!ENTITY e "x">]>'),
        document(DAYS, opening="<!-- a comment --><!DOCTYPE a>"),
        document(opening='<!DOCTYPE a [<!ENTITY e "x">]>').decode().encode("utf-16"),
        b"<?xml version='1.0' encoding='cp037'?>" + "<!DOCTYPE a><a/>".encode("cp037"),
        document(DAYS) + b" " * ANSWER_BYTES_MAX,
    ],
    ids=range(10),
)
def test_what_is_no_list_of_rules_is_refused_before_it_can_do_harm(body: bytes) -> None:
    with pytest.raises(CorruptError, match="check that the endpoint is an object store"):
        parse_rules(body)


def test_deep_documents_end() -> None:
    depth = ANSWER_BYTES_MAX // 8
    body = document("<Filter>" + "<a>" * depth + "</a>" * depth + "</Filter>" + DAYS)
    assert len(parse_rules(body)) == 1


def test_a_comment_does_no_harm() -> None:
    assert len(parse_rules(document(DAYS, opening="<!-- rules -->"))) == 1


# ---------------------------------------------------------------------------- asking


def test_the_signature_is_that_of_the_example_in_the_documentation_of_s3() -> None:
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "x-amz-content-sha256": EMPTY,
        "x-amz-date": "20130524T000000Z",
    }
    key, secret = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    assert sign("/", "lifecycle=", headers, "us-east-1", key, secret) == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
        "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    )


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    status = 200
    body = b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, dict[str, str]]] = []

    @property
    def options(self) -> dict[str, str]:
        endpoint = f"http://127.0.0.1:{self.server_port}"
        keys = {"AWS_ACCESS_KEY_ID": "key", "aws_secret_access_key": "hidden"}
        return {"endpoint": endpoint, "allow_http": "true", "region": "eu-1", **keys}


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.path, headers))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_the_request_is_signed_for_the_bucket_and_the_moment(server: Server) -> None:
    server.body = document(DAYS)
    spec = StoreSpec("s3://bucket/folder", {**server.options, "session_token": "passing"})
    found = find_expiry(spec, "logs/", now_ms=lambda: 1_700_000_000_000)
    assert found.rules == (ExpiryRule(id="r", prefix=""),)
    ((path, headers),) = server.seen
    assert path == "/bucket?lifecycle"
    assert headers["x-amz-date"] == "20231114T221320Z"
    assert headers["x-amz-security-token"] == "passing"
    assert "Credential=key/20231114/eu-1/s3/aws4_request" in headers["authorization"]
    assert "x-amz-security-token" in headers["authorization"]


def test_keys_of_the_environment_are_asked_with(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("AWS_ACCESS_KEY_ID", "aws_secret_access_key")
    options = {name: value for name, value in server.options.items() if name not in secrets}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    server.body = document(DAYS)
    found = find_expiry(StoreSpec("s3://bucket/folder", options), "")
    assert found.rules == (ExpiryRule(id="r", prefix=""),)
    ((_, headers),) = server.seen
    assert "Credential=of-the-environment/" in headers["authorization"]


def test_a_hosted_bucket_is_asked_for_at_its_own_host(server: Server) -> None:
    options = {**server.options, "virtual_hosted_style_request": "true"}
    find_expiry(StoreSpec("s3://bucket", options), "")
    assert [path for path, _ in server.seen] == ["/?lifecycle"]


def test_rules_elsewhere_are_told_and_do_no_harm(server: Server) -> None:
    server.body = document(f"<Filter><Prefix>tmp/</Prefix></Filter>{DAYS}")
    found = find_expiry(StoreSpec("s3://bucket/folder", server.options), "")
    assert (found.rules, found.said) == ((), "1 that delete, none here")


@pytest.mark.parametrize(
    ("status", "body", "known"),
    [
        (404, b"<Error><Code>NoSuchLifecycleConfiguration</Code></Error>", True),
        (404, b"<Error><Code>NoSuchBucket</Code></Error>", False),
        (403, b"", False),
        (405, b"", False),
        (501, b"", False),
        (500, b"", False),
        (301, b"", False),
        (200, b"<html></html>", False),
        (200, b"x" * (ANSWER_BYTES_MAX + 10), False),
    ],
)
def test_only_a_clear_answer_is_known(
    server: Server, status: int, body: bytes, known: bool
) -> None:
    server.status, server.body = status, body
    found = find_expiry(StoreSpec("s3://bucket", server.options), "")
    assert found.rules == (() if known else None)
    assert "hidden" not in found.said


def test_a_store_that_nobody_can_ask_is_not_asked(server: Server) -> None:
    for secret in ("AWS_ACCESS_KEY_ID", "aws_secret_access_key"):
        options = {name: value for name, value in server.options.items() if name != secret}
        found = find_expiry(StoreSpec("s3://bucket", options), "")
        assert (found.rules, found.said[:11]) == (None, "not checked")
        assert "access_key_id" in found.said
    for url in ("gs://bucket", "az://bucket"):
        found = find_expiry(StoreSpec(url), "")
        assert (found.rules, found.said[:11]) == (None, "not checked")
    for url in ("memory:", "file:///nowhere"):
        assert find_expiry(StoreSpec(url), "").rules == ()
    assert server.seen == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_token": "two\nlines"},
        {"endpoint": "https:///no-host"},
        {"endpoint": "localhost"},
        {"endpoint": "https://user:hidden@127.0.0.1:port"},
    ],
)
def test_an_option_that_cannot_be_sent_is_not_shown(server: Server, wrong: dict[str, str]) -> None:
    found = find_expiry(StoreSpec("s3://bucket", {**server.options, **wrong}), "")
    assert (found.rules, found.said) == (None, "an option of the store cannot be sent")
    assert server.seen == []


def test_a_token_is_not_sent_in_plain_text_where_that_is_forbidden(server: Server) -> None:
    with pytest.raises(InvalidInputError, match="allow_http"):
        find_expiry(StoreSpec("s3://bucket", {**server.options, "allow_http": "false"}), "")
    assert server.seen == []
