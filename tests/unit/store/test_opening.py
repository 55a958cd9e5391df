"""Addresses become stores, specs travel, and nothing is loaded or connected before its time."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.errors import InvalidInputError
from lakelog.store import (
    LocalStore,
    MemoryStore,
    PutIfAbsent,
    RemoteStore,
    StoreSpec,
    open_store,
)


def test_an_address_says_which_store_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_store("memory:"), MemoryStore)
    for address, root in [
        ("file:///data/log", "/data/log"),
        ("file://localhost/data", "/data"),
        ("file:/data", "/data"),
        ("file:///a%20b", "/a b"),
        ("/data/log/", "/data/log"),
        ("log", f"{tmp_path}/log"),
        ("./s3:", f"{tmp_path}/s3:"),
    ]:
        store = open_store(address)
        assert isinstance(store, LocalStore)
        assert store.root == root
        assert store.url == f"file://{root}"
    for address in ("s3://bucket", "gs://bucket/folder", "az://container/a/b/"):
        store = open_store(address)
        assert isinstance(store, RemoteStore)
        assert store.url == address.rstrip("/")


@pytest.mark.parametrize(
    "address",
    [
        "", "http://host/x", "s3://", "s3:///key", "ftp://x", "file://host/path", "hdfs://x/y",
        "s3://bucket/a//b", "s3://bucket/../x", "s3://bucket?x=1", "memory://x", "file:relative",
    ],
)  # fmt: skip
def test_an_address_of_no_store_is_refused(address: str) -> None:
    with pytest.raises(InvalidInputError):
        open_store(address)


def test_options_are_refused_where_they_would_do_nothing() -> None:
    with pytest.raises(
        InvalidInputError, match="takes only the option one_machine, and got region"
    ):
        open_store("/data", {"region": "x"})
    with pytest.raises(InvalidInputError, match="takes no options, and got one_machine"):
        open_store("memory:", {"one_machine": "true"})
    with pytest.raises(InvalidInputError, match="one_machine=yes: use true or false"):
        open_store("/data", {"one_machine": "yes"})
    assert isinstance(open_store("/data", {"one_machine": "true"}), LocalStore)


def test_a_spec_travels_and_keeps_its_secrets_to_itself() -> None:
    spec = StoreSpec("s3://bucket/ns", {"secret_access_key": "hidden"})
    copy = pickle.loads(pickle.dumps(spec))
    assert copy == spec
    assert "hidden" not in repr(spec)
    store = copy.open()
    assert "hidden" not in repr(store)
    again = pickle.loads(pickle.dumps(store))
    assert isinstance(again, RemoteStore)
    assert again.url == store.url == "s3://bucket/ns"


def test_a_body_is_not_part_of_what_is_shown() -> None:
    assert "hidden" not in repr(PutIfAbsent("a", b"hidden"))


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_obstore_is_loaded_by_the_first_remote_operation_only() -> None:
    out = _python(
        "import sys\n"
        "from lakelog.store import MemoryStore, ListPage, open_store\n"
        "MemoryStore().perform(ListPage())\n"
        "open_store('s3://bucket')\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('obstore', 'numpy')])"
    )
    assert out == "[]\n"


def test_a_forked_child_is_refused_and_does_not_hang() -> None:
    out = _python(
        "import os, signal, sys\n"
        "from lakelog.errors import *\n"
        "from lakelog.store import Head, open_store\n"
        "options = {'endpoint': 'http://127.0.0.1:1', 'allow_http': 'true',\n"
        "           'access_key_id': 'a', 'secret_access_key': 'b', 'region': 'us-east-1'}\n"
        "store = open_store('s3://bucket', options)\n"
        "def ask():\n"
        "    try: store.perform(Head('a'))\n"
        "    except LakelogError as error: print(type(error).__name__, flush=True)\n"
        "ask()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(20)\n"
        "    ask()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    assert out == "UnavailableError\nInvalidInputError\n"
