"""Keys mean the same in every store, or are refused before one is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidInputError
from lakelog.store import (
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    PutIfMatch,
    check_key,
    check_prefix,
)


@pytest.mark.parametrize("key", ["a", "a/b", ".a", "a..b/...", "a b/ü", "x" * 255, "/".join("abc")])
def test_plain_paths_are_keys(key: str) -> None:
    check_key(key)
    check_prefix(key + "/")


@pytest.mark.parametrize(
    "key",
    [
        "", "/", "/a", "a/", "a//b", ".", "..", "a/.", "a/../b", "./a", "../../etc/passwd",
        "a\\b", "a\x00b", "a\nb", "a\tb", "\x7f", "\ud800", "x" * 256, "é" * 128,
        "/".join(["x" * 100] * 11), ".lakelog-staging", ".lakelog-staging/lock",
    ],
)  # fmt: skip
def test_what_some_store_would_change_is_no_key(key: str) -> None:
    for ask in (check_key, Head, Get):
        with pytest.raises(InvalidInputError):
            ask(key)


@pytest.mark.parametrize("prefix", ["a", "/", "a//", "../", "a/b"])
def test_a_prefix_is_nothing_or_a_folder(prefix: str) -> None:
    with pytest.raises(InvalidInputError):
        check_prefix(prefix)


@given(st.text())
def test_any_text_is_a_key_or_is_refused(text: str) -> None:
    try:
        check_key(text)
    except InvalidInputError:
        return
    assert 1 <= len(text.encode()) <= 1024
    assert all(segment not in ("", ".", "..") for segment in text.split("/"))


def test_operations_refuse_impossible_numbers() -> None:
    for start, end in [(-1, 5), (5, 4)]:
        with pytest.raises(InvalidInputError, match="0 <= start <= end"):
            GetRange("a", start, end)
    with pytest.raises(InvalidInputError):
        GetSuffix("a", -1)
    for limit in (0, 1001):
        with pytest.raises(InvalidInputError, match="1 to 1000"):
            ListPage("", "", limit)
    with pytest.raises(InvalidInputError, match="no etag"):
        PutIfMatch("a", b"", "")
