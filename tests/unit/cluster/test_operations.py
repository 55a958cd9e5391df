"""A history in Jepsen's shape says the same as the diaries that it was made of."""

from pathlib import Path
from typing import Any

from tests.cluster.edn import edn_of
from tests.cluster.history import History
from tests.cluster.operations import history_of, operations, read_operations, write_operations

LINES: list[list[Any]] = [
    ["sent", 1.0, "a", 0, 3],
    ["sent", 1.25, "a", 1, 3],
    ["acked", 1.5, "a", 0, 3, 7],
    ["sent", 1.75, "a", 2, 3],
    ["refused", 2.0, "a", 1, "MSG_SIZE_TOO_LARGE"],
    ["refused", 2.25, "a", 2, "TIMED_OUT"],
    ["sent", 2.5, "a", 3, 3],
    ["assigned", 1.0, "g/0", [3]],
    ["polled", 1.5, 1.75, "g/0", {"3": [[7, "a:0"]]}],
    ["revoked", 2.0, "g/0", [3]],
    ["committed", 2.0, 2.5, "g", {"3": 8}],
    ["fetched", 2.25, 2.5, "g", {"3": -1}],
    ["scanned", 2.5, 3.0, "/spark", {"3": [[7, "a:0"]], "4": []}],
    ["starts", 3.0, 3.25, "a", {"3": 0}],
    ["ends", 3.0, 3.25, "a", {"3": 8}],
    ["error", 4.0, "a", "fatal: X"],
    ["quiet", 5.0, "a"],
]


def history(lines: list[list[Any]]) -> History:
    found = History()
    for line in lines:
        found.take(line)
    return found


def test_nothing_is_lost_on_the_way_through_a_file(tmp_path: Path) -> None:
    assert write_operations(LINES, tmp_path / "history.jsonl") == 4 + 1 + 2 + 1 + 2
    assert history_of(read_operations(tmp_path / "history.jsonl")) == history(LINES)


def test_sends_and_polls_look_as_jepsen_writes_them() -> None:
    found = [one for one in operations(LINES) if one["f"] in ("send", "poll")]
    told = [(one["type"], one["value"]) for one in found]
    assert ("invoke", [["send", 3, "a:0"]]) in told
    assert ("ok", [["send", 3, [7, "a:0"]]]) in told
    assert ("fail", [["send", 3, "a:1"]]) in told
    assert ("info", [["send", 3, "a:2"]]) in told
    assert ("ok", [["poll", {"3": [[7, "a:0"]]}]]) in told
    assert [one["index"] for one in operations(LINES)] == list(range(len(operations(LINES))))


def test_a_process_has_one_operation_under_way_and_none_after_one_of_unknown_end() -> None:
    busy: set[int] = set()
    crashed: set[int] = set()
    for one in operations(LINES):
        process = one["process"]
        assert process not in crashed
        if one["type"] == "invoke":
            assert process not in busy
            busy.add(process)
        else:
            busy.discard(process)
        if one["type"] == "info" and one["f"] == "send":
            crashed.add(process)
    assert len(crashed) == 1


def test_as_edn_fields_types_and_functions_are_keywords_and_keys_are_numbers() -> None:
    lines = [edn_of(one) for one in operations(LINES)]
    assert (
        '{:index 3, :time 1500000000, :process 0, :type :ok, :f :send, :who "a", '
        ':value [[:send 3 [7 "a:0"]]]}'
    ) in lines
    assert any(':f :poll, :who "g/0", :value [[:poll {3 [[7 "a:0"]]}]]}' in one for one in lines)
    assert any(":type :invoke, :f :poll" in one and ":value [[:poll]]" in one for one in lines)
    assert any(':f :scan, :who "/spark", :value {3 [[7 "a:0"]], 4 []}}' in one for one in lines)
    assert any(":type :fail, :f :send" in one and ':error "MSG_SIZE' in one for one in lines)
    assert any(":f :quiet" in one and ":value nil" in one for one in lines)
