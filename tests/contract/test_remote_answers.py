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

from lakelog.errors import InvalidInputError, LakelogError, NotFoundError, UnavailableError
from lakelog.store import (
    Changed,
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
)
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


@pytest.mark.parametrize("status", [409, 500, 502, 503, 504, 429, 400, 408, 416, SILENCE, HANG_UP])
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
