"""What a remote store makes of each thing a server can say, or not say.

The server is a thread that answers every request with what the test tells it. No real store can be
made to lose an answer at will; that is what this is for, and for nothing that one can do.
"""

import asyncio
import http.server
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from lakelog.errors import (
    InvalidInputError,
    LakelogError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from lakelog.store import (
    Changed,
    Created,
    Delete,
    Exists,
    Get,
    GetRange,
    Head,
    ListPage,
    Op,
    PutIfAbsent,
    PutIfMatch,
    RemoteStore,
    Store,
    StoreSpec,
    open_store,
    remote,
)
from tests.parts.lying_s3 import Lie, LyingS3, running_lying_s3
from tests.parts.seaweedfs import SeaweedFS

SILENCE, HANG_UP = 0, -1


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    status = 500
    body = b""
    requests = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.released = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        self.server.requests += 1
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.status == SILENCE:
            self.server.released.wait(10)
        if self.server.status <= 0:
            self.close_connection = True
            return
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815 (its base wants them)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.released.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def store(server: Server) -> Store:
    return open_store(
        "s3://bucket",
        {
            "endpoint": f"http://127.0.0.1:{server.server_port}",
            "access_key_id": "key",
            "secret_access_key": "hidden",
            "region": "us-east-1",
            "allow_http": "true",
            "timeout": "500ms",
        },
    )


WRITES = [PutIfAbsent("k", b"x"), PutIfMatch("k", b"x", '"e"')]


@pytest.mark.parametrize(
    "status", [408, 409, 416, 425, 429, 499, 500, 502, 503, 504, 507, SILENCE, HANG_UP]
)
@pytest.mark.parametrize("op", WRITES)
def test_a_write_without_a_clear_answer_is_unknown_and_is_sent_once(
    server: Server, store: Store, op: Op, status: int
) -> None:
    server.status = status
    with pytest.raises(UnavailableError, match="outcome unknown"):
        store.perform(op)
    assert server.requests == 1
    with pytest.raises(UnavailableError, match="outcome unknown"):
        asyncio.run(store.perform_async(op))
    assert server.requests == 2


def error_body(code: str) -> bytes:
    """What S3 sends: a head, a line break, and the rest."""
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{head}\n<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()


@pytest.mark.parametrize(
    ("status", "code", "next_step"),
    [
        (400, "RequestTimeout", "outcome unknown"),
        (400, "IncompleteBody", "outcome unknown"),
        (400, "BadDigest", "outcome unknown"),
        (400, "XAmzContentSHA256Mismatch", "outcome unknown"),
        (403, "RateLimitExceeded", "outcome unknown"),
        (400, "ExpiredToken", "the credentials have expired"),
        (403, "RequestTimeTooSkewed", "the clock of this machine .* set it"),
    ],
)
@pytest.mark.parametrize("op", WRITES)
def test_a_write_that_may_do_better_next_time_is_unknown(
    server: Server, store: Store, op: Op, status: int, code: str, next_step: str
) -> None:
    server.status, server.body = status, error_body(code)
    with pytest.raises(UnavailableError, match=f"{code}: as told.*{next_step}"):
        store.perform(op)
    assert server.requests == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "InvalidArgument"),
        (400, ""),
        (402, ""),
        (405, "MethodNotAllowed"),
        (407, ""),
        (411, "MissingContentLength"),
        (414, ""),
        (417, ""),
        (431, ""),
        (501, "NotImplemented"),
    ],
)
@pytest.mark.parametrize("op", WRITES)
def test_a_write_that_is_refused_is_told_so_and_is_sent_once(
    server: Server, store: Store, op: Op, status: int, code: str
) -> None:
    """Putting it again would be refused again, for ever."""
    server.status, server.body = status, error_body(code) if code else b""
    with pytest.raises(InvalidInputError, match="nothing was stored: check") as raised:
        store.perform(op)
    assert not isinstance(raised.value, TooLargeError)
    assert code in str(raised.value)
    assert "<" not in str(raised.value)
    assert server.requests == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (413, ""),
        (413, "RequestBodyTooLarge"),
        (400, "EntityTooLarge"),
        (400, "MaxMessageLengthExceeded"),
    ],
)
@pytest.mark.parametrize("op", WRITES)
def test_a_write_that_is_too_large_is_told_apart(
    server: Server, store: Store, op: Op, status: int, code: str
) -> None:
    server.status, server.body = status, error_body(code) if code else b"<html>413</html>"
    with pytest.raises(TooLargeError, match="nothing was stored: split it"):
        store.perform(op)
    with pytest.raises(TooLargeError):
        asyncio.run(store.perform_async(op))
    assert server.requests == 2


@pytest.mark.parametrize("op", [Get("k"), GetRange("k", 0, 5), ListPage()])
def test_a_read_that_is_refused_is_not_worth_another(server: Server, store: Store, op: Op) -> None:
    server.status, server.body = 400, error_body("InvalidArgument")
    with pytest.raises(InvalidInputError, match="InvalidArgument"):
        store.perform(op)


def test_a_look_at_an_object_that_is_refused_without_a_word_is_unknown(
    server: Server, store: Store
) -> None:
    """The answer to a HEAD has no body: S3 says so of an expired token as of a wrong request."""
    server.status, server.body = 400, b""
    with pytest.raises(UnavailableError, match="then retry"):
        store.perform(Head("k"))


# ---------------------------------------------------------------------------- how long it may take


def test_a_request_has_the_longer_the_more_it_carries() -> None:
    mib = 1 << 20
    asked = [0, 1, 16 * mib, 16 * mib + 1, 32 * mib, 33 * mib, 256 * mib, 1 << 62]
    assert [remote.timeout_s(size) for size in asked] == [30, 30, 30, 60, 60, 120, 480, 15360]


def slow_options(s3: LyingS3, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(remote, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(remote, "TIMEOUT_BYTES", 1000)
    return s3.options


def test_a_large_object_is_given_the_time_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Lie(name="slow", delay_s=0.6)
    with running_lying_s3() as s3:
        store = open_store("s3://bucket", slow_options(s3, monkeypatch))
        s3.lie(slow, "PUT", "small")
        with pytest.raises(UnavailableError, match="outcome unknown"):
            store.perform(PutIfAbsent("small", b"x"))
        s3.lie(slow, "PUT", "large")
        assert isinstance(store.perform(PutIfAbsent("large", b"x" * 16_000)), Created)
        # A read that brings nothing for the time of a small request is given up, however large.
        s3.lie(slow, "GET", "large")
        with pytest.raises(UnavailableError, match="outcome unknown"):
            store.perform(GetRange("large", 0, 16_000))
        assert len(store.perform(GetRange("large", 0, 16_000)).body) == 16_000


def test_a_timeout_that_is_given_is_the_one_of_every_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_lying_s3() as s3:
        store = open_store("s3://bucket", {**slow_options(s3, monkeypatch), "timeout": "300ms"})
        s3.lie(Lie(name="slow", delay_s=0.6), "PUT", "large")
        with pytest.raises(UnavailableError):
            store.perform(PutIfAbsent("large", b"x" * 16_000))


# ---------------------------------------------------------------------------- what is believed


@pytest.mark.parametrize("status", [412, 304])
def test_a_server_that_says_the_key_exists_is_believed(
    server: Server, store: Store, status: int
) -> None:
    server.status = status
    assert store.perform(PutIfAbsent("k", b"x")) == Exists()


def test_azure_says_409_when_a_blob_exists(server: Server, store: Store) -> None:
    server.status = 409
    server.body = b"<Error><Code>BlobAlreadyExists</Code></Error>"
    assert store.perform(PutIfAbsent("k", b"x")) == Exists()
    server.body = b"<Error><Code>ConditionalRequestConflict</Code></Error>"
    with pytest.raises(UnavailableError):
        store.perform(PutIfAbsent("k", b"x"))


@pytest.mark.parametrize("status", [412, 404])
def test_a_server_that_says_the_object_changed_is_believed(
    server: Server, store: Store, status: int
) -> None:
    server.status = status
    assert store.perform(PutIfMatch("k", b"x", '"e"')) == Changed()


@pytest.mark.parametrize("status", [500, 503, 429, SILENCE, HANG_UP])
@pytest.mark.parametrize("op", [Get("k"), Head("k"), GetRange("k", 0, 5), ListPage()])
def test_a_read_without_an_answer_is_unavailable_and_is_sent_once(
    server: Server, store: Store, op: Op, status: int
) -> None:
    server.status = status
    with pytest.raises(UnavailableError, match="then retry"):
        store.perform(op)
    assert server.requests == 1


@pytest.mark.parametrize(
    ("status", "error", "next_step"),
    [
        (401, InvalidInputError, "check credentials"),
        (403, InvalidInputError, "check credentials"),
        (404, NotFoundError, "check the bucket"),
        (301, InvalidInputError, "check the option region"),
    ],
)
@pytest.mark.parametrize("op", [Get("k"), ListPage("f/"), PutIfAbsent("k", b"x")])
def test_an_error_says_what_to_do_next(
    server: Server, store: Store, op: Op, status: int, error: type[LakelogError], next_step: str
) -> None:
    server.status = status
    with pytest.raises(error, match=next_step) as raised:
        store.perform(op)
    assert "hidden" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "list-type" not in str(raised.value)


def test_deleting_what_a_server_does_not_have_is_done(server: Server, store: Store) -> None:
    server.status = 404
    assert store.perform(Delete("k")) is None


def test_a_server_that_is_away_is_unavailable(server: Server, store: Store) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(UnavailableError):
        store.perform(Head("k"))


def test_a_wrong_option_is_named() -> None:
    credentials = {"access_key_id": "key", "secret_access_key": "hidden"}
    for wrong, text in [("endpoynt", "endpoynt"), ("timeout", "soon")]:
        store = open_store("s3://bucket", {**credentials, wrong: "soon"})
        with pytest.raises(InvalidInputError, match=text):
            store.perform(Head("k"))


@pytest.mark.seaweedfs
def test_wrong_credentials_are_named(seaweedfs: SeaweedFS) -> None:
    bucket = seaweedfs.bucket("contract")
    wrong = {**seaweedfs.options, "secret_access_key": "wrong"}
    store = open_store(f"s3://{bucket}", wrong)
    for op in (Head("k"), Get("k"), ListPage(), PutIfAbsent("k", b"x"), Delete("k")):
        with pytest.raises(InvalidInputError, match="check credentials"):
            store.perform(op)


@pytest.mark.seaweedfs
def test_a_spec_is_opened_in_another_process(seaweedfs: SeaweedFS) -> None:
    bucket = seaweedfs.bucket("contract")
    spec = StoreSpec(f"s3://{bucket}/elsewhere", seaweedfs.options)
    assert isinstance(spec.open(), RemoteStore)
    spec.open().perform(PutIfAbsent("a/1", b"hello"))
    code = (
        "import pickle, sys; from lakelog.store import Get;"
        "spec = pickle.loads(sys.stdin.buffer.read());"
        "sys.stdout.buffer.write(spec.open().perform(Get('a/1')).body)"
    )
    there = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(spec), stdout=-1)
    assert there.stdout == b"hello"
