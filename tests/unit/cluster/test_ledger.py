"""The campaign goes on where its ledger ends, and its sum says what was seen and what was not."""

import re
from pathlib import Path

from tests.chaos import ledger
from tests.chaos.campaign import share_of
from tests.chaos.faults import ETCD, KINDS, SETS
from tests.chaos.planted import FOUND
from tests.chaos.workloads import WORKLOADS
from tests.cluster.checker import RULES
from tests.cluster.faults import Span
from tests.cluster.history import History
from tests.cluster.planted import BUGS

ENTRY: ledger.Entry = {
    "commit": "0123456789ab", "members": "bucket", "seed": 1, "workload": "group",
    "faults": "mixed", "heartbeat_ms": 500, "seconds": 120.0, "fired": {"kill": 3, "freeze": 1},
    "operations": 1000, "acked": 700, "reads": 1400, "ok_during_faults": 0.91,
    "anomalies": {}, "late": {}, "exits": 2, "took_s": 200.0,
}  # fmt: skip


def test_every_kind_of_fault_is_in_a_set() -> None:
    assert {kind for kinds in SETS.values() for kind in kinds} == {*KINDS, *ETCD}


def test_every_planted_bug_has_a_run_that_finds_it() -> None:
    assert FOUND.keys() == BUGS.keys()
    assert len(FOUND) >= 8
    for found in FOUND.values():
        assert set(found.rules) <= RULES.keys()
        assert found.workload in WORKLOADS
        assert found.faults in SETS


def test_lines_are_added_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    assert ledger.read(path) == []
    for seed in (1, 2):
        ledger.append(ENTRY | {"seed": seed}, path)
    assert [one["seed"] for one in ledger.read(path)] == [1, 2]


def test_the_sum_tells_faults_that_were_not_seen_and_runs_that_broke_down() -> None:
    broken = {name: ENTRY[name] for name in ("members", "seed", "workload", "faults", "seconds")}
    broken |= {"heartbeat_ms": 3000, "broken": "LateError: they do not agree"}
    wrong = ENTRY | {"anomalies": {"lost-write": 2}, "ok_during_faults": 0.4}
    text = ledger.summary([ENTRY, wrong, broken])
    rows = dict(re.split(r" {2,}", line.strip(), maxsplit=1) for line in text.splitlines())
    assert rows["runs"] == "3, of which 1 broke down"
    assert rows["safety anomalies"] == "lost-write 2"
    assert rows["late after a minute"] == "0"
    assert rows["ok during faults"] == "40.0% at least"
    assert rows["kill"] == "6"
    assert rows["store-silent"] == "0"
    assert rows["kill-pipeline"] == "0"
    assert rows["with beats as they come"] == "1"
    assert "no run yet" in ledger.summary([])


def test_the_page_has_the_sum_of_the_ledger() -> None:
    text = ledger.PAGE.read_text()
    assert ledger.page(text, ledger.read()) == text, "write it: python -m tests.chaos --write"
    assert ledger.page(ledger.page(text, [ENTRY]), ledger.read()) == text


def test_only_what_was_begun_during_a_fault_is_counted() -> None:
    history = History()
    for line in [
        ["sent", 1.0, "a", 0, 0],
        ["sent", 5.0, "a", 1, 0],
        ["acked", 9.0, "a", 1, 0, 0],
        ["sent", 6.0, "a", 2, 0],
        ["sent", 6.0, "a", 3, 0],
        ["refused", 6.5, "a", 3, "MSG_SIZE_TOO_LARGE"],
        ["committed", 20.0, 20.1, "g", {"0": 1}],
    ]:
        history.take(line)
    assert share_of(history, [Span(4.0, 7.0, "kill", 1), Span(6.0, 8.0, "kill", 2)]) == 0.5
    assert share_of(history, []) == 1.0
