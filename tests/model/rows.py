"""What is run through the model: who takes part, with which mistake, and what must come of it.

A cast is written as ``A B | C | sealer``: processes are separated by bars. Batch names are a writer
that appends them in turn (or writes a CHECKPOINT, or moves log_start: ERASE); ``reader 0/1`` asks
for offset 1 of partition 0. Every row that holds is exhaustive within its cast.
"""

from dataclasses import dataclass

__all__ = ["LONG_ROWS", "ROWS", "Row"]

_BATCHES = {"A", "B", "C", "D", "PLAIN", "DROP"}


@dataclass(frozen=True, slots=True)
class Row:
    """One search: all interleavings of a cast."""

    name: str
    cast: str
    defines: tuple[str, ...] = ()
    breaks: str | None = None
    """The beginning of the name of the law that must be found broken; None if all must hold."""

    def prelude(self) -> str:
        """The definitions that go before the text of the model."""
        processes = [process.split() for process in self.cast.split("|")]
        words = {word for process in processes for word in process}
        start = "; ".join(_run(number, process) for number, process in enumerate(processes))
        keys = max(2, len(words & _BATCHES))
        lines = [f"START {start}", f"KEYS {keys}", *(one.replace("=", " ") for one in self.defines)]
        lines += [word.upper() for word in ("reader", "cleaner") if word in words]
        return "".join(f"#define {line}\n" for line in lines)


def _run(number: int, words: list[str]) -> str:
    match words:
        case ["sealer"]:
            return "run Sealer()"
        case ["cleaner"]:
            return "run Cleaner()"
        case ["reader", place]:
            partition, _, offset = place.partition("/")
            return f"run Reader({number}, {partition}, {offset})"
        case _:
            batches = [*words, "NONE", "NONE"][:3]
            return f"run Writer({number}, {', '.join(batches)})"


_THREE = "A | B | C | sealer"
_PAIR = "A C | B | sealer"
_QUIET = "NO_LOST_ANSWERS"


def _mutant(name: str, cast: str, breaks: str, *defines: str) -> Row:
    """A row whose mistake is called as the row is."""
    mistake = f"MUTANT_{name.upper().replace(' ', '_')}"
    return Row(name, cast, (mistake, *defines), breaks)


_HOLDS = (
    Row("three writers", _THREE),
    Row("two writers, three appends", _PAIR),
    Row("a retry at two brokers", "A C | B | B | sealer", (_QUIET,)),
    Row("a plain batch", "A C | PLAIN | sealer"),
    Row("a PUT is replayed", "A C | PLAIN | sealer", ("REPLAYED",)),
    Row("checkpoints by writers", _PAIR, ("WRITERS_CHECKPOINT",)),
    Row("a checkpoint by another process", "A C | B | CHECKPOINT | sealer", (_QUIET,)),
    # Economy, not safety: it may land below the floor with or without that head read.
    Row(
        "a checkpoint without reading head",
        _PAIR,
        ("WRITERS_CHECKPOINT", "CHECKPOINT_WITHOUT_HEAD"),
    ),
    Row("two sealers", "A B | C | sealer | sealer", (_QUIET,)),
    Row("a sealer that trims twice", "A B C | D | sealer", ("ROUNDS=2",)),
    Row("keys are deleted from above", "A B C | D | sealer", ("DELETED_FROM_ABOVE",)),
    Row("a late PUT", _PAIR, ("LATE",)),
    Row("tokens", _THREE, ("TOKENS", _QUIET)),
    Row("a reader", "A C | B | sealer | reader 0/0", (_QUIET,)),
    Row("a reader with tokens", "A C | B | sealer | reader 0/0", ("TOKENS", _QUIET)),
    Row("a topic is deleted", "C | DROP | D | sealer", (_QUIET,)),
    Row("a topic is deleted under a reader", "C | DROP | sealer | reader 1/0"),
    Row("records are deleted", "A B C | ERASE | sealer"),
    Row("records are deleted under a reader", "A B | ERASE | sealer | reader 0/0"),
)

_BROKEN = (
    _mutant("no W4", _PAIR, "J3"),
    _mutant("check before put", _PAIR, "J3"),
    _mutant("passed by the floor is success", _PAIR, "J3"),
    _mutant("walk not checked", "B | B | sealer | A C", "J3", _QUIET),
    _mutant("walk checked at its end", "B | B | sealer | A C", "J3", _QUIET),
    _mutant("winner not checked", "C | sealer | B | A", "J2"),
    _mutant("winner checked before going on", "sealer | D | A B C | D", "J3", _QUIET),
    _mutant("loser takes offsets only", "A | A | C | sealer", "J2"),
    _mutant("loser folds nothing", _PAIR, "J2"),
    _mutant("retry with a new nonce", "A | PLAIN | sealer", "J2"),
    _mutant("retry with other batches", _PAIR, "J3"),
    _mutant("plain batch appended again", "A C | PLAIN | sealer", "J2"),
    _mutant("exists means not stored", "A C | PLAIN | sealer", "J2", "REPLAYED", _QUIET),
    _mutant("delete before floor", _PAIR, "J1"),
    _mutant("floor before manifest", "A | B | sealer | reader 0/0", "J6", _QUIET),
    _mutant("trim past checkpoint", _PAIR, "J2"),
    _mutant("checkpoint below the floor", _PAIR, "J8"),
    _mutant("checkpoint of unverified fold", "CHECKPOINT | B | A C D | sealer", "J3", _QUIET),
    _mutant("checkpoint before the answer", _PAIR, "J", _QUIET),
    Row("checkpoints above the floor are deleted", "A | B | sealer | cleaner", (_QUIET,), "J8"),
    _mutant("sealer does not check", "sealer | sealer | C | A B D", "J4", _QUIET),
    _mutant("clock stops in sleep", _PAIR, "J3", "TOKENS"),
    _mutant("token not compared", "A C | B | sealer | reader 0/0", "J9", "TOKENS", _QUIET),
    _mutant("reader does not check", "A C | B | sealer | reader 0/0", "J9", _QUIET),
    _mutant("reader checks another key", "A C | B | sealer | reader 0/0", "J9", _QUIET),
    _mutant("manifest before journal", "A | B | sealer | reader 0/0", "J6", _QUIET),
    _mutant("fold forgets deletion", "D | DROP | C | sealer", "J2"),
    _mutant("log start from unverified end", "A C | B | ERASE | sealer", "J5", _QUIET),
    _mutant("sealed end not raised", "A B C | ERASE | sealer", "J4", _QUIET),
)

ROWS = _HOLDS + _BROKEN

LONG_ROWS = (
    Row("long: a retry at two brokers", "A C | B | B | sealer"),
    Row("long: a plain batch, three writers", "A | PLAIN | C | sealer"),
    Row("long: floor to 2, two with one batch", "A B C | D | D | sealer", (_QUIET,)),
    Row("long: every writer writes checkpoints", _THREE, ("WRITERS_CHECKPOINT",)),
    Row(
        "long: checkpoints without reading head",
        "A C | B | CHECKPOINT | sealer",
        ("WRITERS_CHECKPOINT", "CHECKPOINT_WITHOUT_HEAD"),
    ),
    Row("long: a checkpoint, four appends", "A C D | B | CHECKPOINT | sealer"),
    Row("long: two sealers, three writers", "A | B | C | sealer | sealer", (_QUIET,)),
    Row("long: two sealers, four appends", "A B D | C | sealer | sealer"),
    Row("long: three writers, two trims", "A B | C | D | sealer", (_QUIET, "ROUNDS=2")),
    Row("long: a late PUT, three writers", _THREE, ("LATE",)),
    Row("long: tokens", _THREE, ("TOKENS",)),
    Row(
        "long: tokens, a late PUT, two trims", "A B C | D | sealer", ("TOKENS", "LATE", "ROUNDS=2")
    ),
    Row("long: a reader, three writers", "A | B | C | sealer | reader 0/1", (_QUIET,)),
    Row("long: a topic is deleted, two sealers", "C | DROP | D | sealer | sealer", (_QUIET,)),
    Row("long: a topic is deleted twice", "C D | DROP | DROP | sealer"),
    Row(
        "long: keys are deleted from above",
        "A B C | D | D | sealer",
        ("DELETED_FROM_ABOVE", _QUIET),
    ),
    Row("long: records are deleted", "A C | B | ERASE | sealer"),
    Row(
        "long: winner checked before going on, offsets",
        "C D DROP | B | A | sealer",
        ("MUTANT_WINNER_CHECKED_BEFORE_GOING_ON", _QUIET),
        "J2",
    ),
)
