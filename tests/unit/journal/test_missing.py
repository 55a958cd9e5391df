"""What stands behind a batch that was let go is not called out of order."""

from lakelog.journal import (
    MISSING_MAX,
    Append,
    Fold,
    Missing,
    Outcome,
    Refusal,
    Refused,
    Stored,
    Touch,
    Unknown,
    new_append,
)
from lakelog.testing import make_batch
from tests.unit.journal.script import TOPIC

OUT_OF_ORDER = Refused(Refusal.OUT_OF_ORDER)


def batch(sequence: int, producer: int = 7, epoch: int = 0, partition: int = 0) -> Append:
    return new_append(TOPIC, partition, make_batch(1, 1, (producer, epoch, sequence), 0))


def told(missing: Missing, request: Append, now_ms: int = 0) -> Outcome:
    return missing.judged(request, OUT_OF_ORDER, now_ms)


def test_out_of_order_is_told_to_whom_nothing_was_done() -> None:
    assert told(Missing(), batch(6)) == OUT_OF_ORDER


def test_whoever_stands_behind_a_missing_one_is_missing() -> None:
    missing = Missing()
    missing.note(batch(5), 0)
    assert told(missing, batch(6)) == Unknown()
    assert told(missing, batch(9)) == Unknown()


def test_others_are_not() -> None:
    missing = Missing()
    missing.note(batch(5), 0)
    others = batch(6, producer=8), batch(6, epoch=1), batch(6, partition=1), batch(4), batch(5)
    assert {told(missing, one) for one in others} == {OUT_OF_ORDER}


def test_the_first_that_is_missing_counts_and_it_is_remembered_for_a_minute() -> None:
    missing = Missing()
    missing.note(batch(5), 0)
    assert told(missing, batch(8), 50_000) == Unknown()
    assert told(missing, batch(6), 109_999) == Unknown(), "since the last that was missed"
    assert told(missing, batch(6), 169_999) == OUT_OF_ORDER


def test_an_unknown_outcome_is_a_missing_batch() -> None:
    missing = Missing()
    assert missing.judged(batch(5), Unknown(), 0) == Unknown()
    assert told(missing, batch(6)) == Unknown()


def test_all_other_outcomes_are_told_as_they_are() -> None:
    missing = Missing()
    missing.note(batch(5), 0)
    for outcome in (Stored(1, 2, 3, 4), Refused(Refusal.FENCED), Refused(Refusal.TOO_LARGE)):
        assert missing.judged(batch(6), outcome, 0) == outcome


def test_sequences_go_on_behind_the_last_number() -> None:
    missing = Missing()
    missing.note(batch((1 << 31) - 1), 0)
    assert told(missing, batch(0)) == Unknown()
    assert told(missing, batch((1 << 31) - 2)) == OUT_OF_ORDER


def test_what_has_no_number_is_not_remembered_and_the_oldest_are_forgotten() -> None:
    missing = Missing()
    missing.note(Touch(), 0)
    for producer in range(MISSING_MAX + 1):
        missing.note(batch(5, producer=producer), 0)
    assert told(missing, batch(6, producer=0)) == OUT_OF_ORDER
    assert told(missing, batch(6, producer=1)) == Unknown()


def sifted(missing: Missing, *requests: Append, now_ms: int = 0) -> list[int]:
    """Return which of the batches are to be stored, of producers that the lane does not know."""
    taken = [(one, at) for at, one in enumerate(requests)]
    waiting, behind = missing.sift(taken, lambda _: False, Fold(lane=0, every=100), now_ms)
    assert sorted([*behind, *(at for _, at in waiting)]) == list(range(len(requests)))
    return [at for _, at in waiting]


def test_the_first_of_a_producer_waits_for_what_was_sent_before_it_to_another_broker() -> None:
    missing = Missing()
    assert sifted(missing, batch(13)) == []
    assert sifted(missing, batch(13), now_ms=59_999) == []
    assert sifted(missing, batch(0), batch(1), batch(5, producer=8), now_ms=59_999) == [0, 1]


def test_a_producer_that_was_forgotten_is_stored_after_a_minute() -> None:
    missing = Missing()
    assert sifted(missing, batch(13)) == []
    assert sifted(missing, batch(13), batch(14), now_ms=60_000) == [0, 1]


def test_who_is_strange_is_forgotten_when_there_are_too_many() -> None:
    missing = Missing()
    for producer in range(MISSING_MAX + 1):
        sifted(missing, batch(5, producer=producer))
    assert sifted(missing, batch(5, producer=1), now_ms=60_000) == [0]
    assert sifted(missing, batch(5, producer=0), now_ms=60_000) == []
