"""What is run through the models: who takes part, with which mistake, and what must come of it.

A cast is written as ``A B | C | sealer``: processes are separated by bars. Of a lane, batch names
are a writer that appends them in turn (or writes a CHECKPOINT, or moves log_start: ERASE);
``reader 0/1`` asks for offset 1 of partition 0. Of a history, ``sweeper 2`` sweeps twice, and
``merger twin`` has the id of the one before. Every row that holds is exhaustive within its cast.
"""

from dataclasses import dataclass
from functools import partial

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
    model: str = "lane"
    """The text that is searched: the name of a file beside this one, without ``.pml``."""

    def prelude(self) -> str:
        """The definitions that go before the text of the model."""
        processes = [process.split() for process in self.cast.split("|")]
        lines = (_of_lane if self.model == "lane" else _of_history)(processes, self.defines)
        lines += [one.replace("=", " ") for one in self.defines]
        return "".join(f"#define {line}\n" for line in lines)


def _of_lane(processes: list[list[str]], defines: tuple[str, ...]) -> list[str]:
    words = {word for process in processes for word in process}
    start = "; ".join(_run(number, process) for number, process in enumerate(processes))
    keys = max(2, len(words & _BATCHES))
    optional = [word.upper() for word in ("reader", "cleaner") if word in words]
    return [f"START {start}", f"KEYS {keys}", *optional]


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


def _of_history(processes: list[list[str]], defines: tuple[str, ...]) -> list[str]:
    given = dict(one.split("=") for one in defines if "=" in one)
    sealed = int(given.get("SEALED", "2"))
    runs: list[str] = []
    # Each writer makes one object, under its own number; those before are sealed already, and the
    # name without an id comes between them.
    objects = sealed + ("PLAIN" in given)
    for verb, *rest in processes:
        if verb in _WRITERS:
            objects += rest != ["twin"]
            runs.append(f"run {_WRITERS[verb].format(me=objects - 1)}")
        else:
            runs.append(f"run {verb.capitalize()}({', '.join(rest)})")
    verbs = {verb for verb, *_ in processes}
    lines = [f"START {'; '.join(runs)}", f"OBJECTS {objects}"]
    if "TIME_MAX" not in given:
        lines.append(f"TIME_MAX {2 if 'sweeper' in verbs else 0}")  # Nobody else looks at a clock.
    if verbs & {"merger", "compactor"}:
        lines.append("REWRITER")
    lines += [verb.upper() for verb in sorted(verbs - {"merger", "compactor"})]
    return lines + ["COMPACTED"] * ("compactor" in verbs)


_WRITERS = {
    "sealer": "Sealer({me})",
    "merger": "Rewriter({me}, false)",
    "compactor": "Rewriter({me}, true)",
}

_THREE = "A | B | C | sealer"
_PAIR = "A C | B | sealer"
_QUIET = "NO_LOST_ANSWERS"


def _mutant(name: str, cast: str, breaks: str, *defines: str, model: str = "lane") -> Row:
    """A row whose mistake is called as the row is."""
    mistake = f"MUTANT_{name.upper().replace(' ', '_')}"
    return Row(name, cast, (mistake, *defines), breaks, model)


def _history(name: str, cast: str, *defines: str) -> Row:
    return Row(name, cast, defines, model="history")


_mistaken = partial(_mutant, model="history")


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
    Row("a bundle is given up", _PAIR, ("GIVES_UP",)),
    Row("a plain batch is given up", "A C | PLAIN | sealer", ("GIVES_UP",)),
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
    _mutant("given up and taken for absent", "A C | PLAIN | sealer", "J2", "GIVES_UP"),
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

_SWEPT = "merger | sweeper 1"
_ANY_AGE = "LEFTOVERS_OF_ANY_AGE"
_PLAIN = ("SEALED=0", "PLAIN=0", "TIME_MAX=1")
_DEAD = "TOMBS=2"
"""Record 1 is a tombstone, and outdates record 0."""

_REACHED = ("SEALED=3", "KEY_B=1", "TOMBS=4")
"""Record 2 is a tombstone, and outdates record 1; record 0 has another key, and stays."""

_HISTORY_HOLDS = (
    _history("two mergers and a sweep", "merger | merger | sweeper 1"),
    _history("two mergers of three rows", "merger | merger | sealer", "SEALED=3"),
    _history("a merge, two sweeps and a reader", "merger | sweeper 2 | reader"),
    _history("two sweepers and a reader", "merger | sweeper 1 | sweeper 1 | reader"),
    _history("a grace of two ticks", "merger | sweeper 1 | reader", "GRACE=2", "TIME_MAX=4"),
    _history("two sealers and a sweep", "sealer | sealer | sweeper 1"),
    _history("a seal, a merge and a sweep", "sealer | merger | sweeper 1"),
    _history("the log begins later under a merge", "merger | retainer | sweeper 1"),
    _history("the log begins later under a reader", "retainer | retainer | sweeper 1 | reader"),
    _history("an object arrives twice", "merger | sweeper 2", "LATE"),
    _history("names without an id", "sealer | sealer | sweeper 1", *_PLAIN),
    _history("two compactors and a seal", "compactor | compactor | sealer", _DEAD),
    _history("three compactors", "compactor | compactor | compactor", _DEAD),
    _history("two keys", "compactor | compactor | sealer", "SEALED=3", "KEY_B=5", "TOMBS=4"),
    _history("a merge under a compaction", "compactor | merger | compactor", _DEAD),
    _history("the log begins later under a compaction", "compactor | merger | retainer", _DEAD),
    _history("nothing is left of a row", "compactor | merger | compactor", *_REACHED),
    _history("a compaction, a sweep and a reader", "compactor | sweeper 1 | reader", _DEAD),
    # Only readers suffer from it.
    _history(
        "dropped early, and nobody reads",
        "merger | retainer | sweeper 1",
        "MUTANT_DROPPED_SINCE_THE_INTENT",
    ),
    # Either guard is enough, while there is one clock: an object is younger than its intent.
    _history("leftovers of any age", "merger | sweeper 1 | reader", _ANY_AGE),
    _history("leftovers by their age alone", _SWEPT, "MUTANT_SWEEP_IGNORES_INTENTS"),
)

_HISTORY_BROKEN = (
    _mistaken("intent after output", _SWEPT, "H1"),
    _mistaken("sweep ignores intents", _SWEPT, "H1", _ANY_AGE),
    _mistaken("old intents are not cancelled", _SWEPT, "H1"),
    _mistaken("commit without intent", _SWEPT, "H1"),
    _mistaken("manifest before listing", _SWEPT, "H1", _ANY_AGE),
    _mistaken("named objects are swept", _SWEPT, "H3"),
    _mistaken("sweep ignores grace", "merger | sweeper 1 | reader", "H4"),
    _mistaken("replaced rows are forgotten", "merger | sweeper 1 | reader", "H4"),
    _mistaken("dropped since the intent", "merger | sweeper 1 | reader", "H4"),
    _mistaken("dropped since before the commit", "merger | sweeper 1 | reader", "H4"),
    _mistaken("rows are not compared", "merger | merger", "H1"),
    _mistaken("what is left of the rows is replaced", "merger | merger", "H1", "SEALED=3"),
    _mistaken("not read back", "merger | merger twin", "H1 a row", "SEALED=3"),
    Row("two with one id", "merger | merger twin | sweeper 1", ("SEALED=3",), "H1", "history"),
    _mistaken(
        "plain names are not burnt", "sealer | sealer | sweeper 1 | sweeper 1", "H1", *_PLAIN
    ),
    _mistaken("leftovers stay", "merger | merger", "H5"),
    _mistaken("seal anywhere", "sealer | sealer", "H1"),
    _mistaken("lost answer is a failure", "merger", "H3"),
    _mistaken("drop without a start", "retainer", "H1"),
    _mistaken("drop as planned", "retainer | merger", "H1"),
    _mistaken("cleaned end as found later", "compactor | sealer", "H6"),
    _mistaken("only dirty rows are cleaned", "compactor | compactor", "H6", _DEAD),
    _mistaken("unsealed records are noted", "compactor", "H2"),
    _mistaken("map outdates itself", "compactor", "H2"),
    _mistaken("tombstones beyond the map go", "merger | compactor", "H6 an", _DEAD),
)

ROWS = _HOLDS + _BROKEN + _HISTORY_HOLDS + _HISTORY_BROKEN

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
    Row("long: given up, and it arrives late", _PAIR, ("GIVES_UP", "LATE")),
    Row("long: a plain batch is given up, too", "PLAIN A | B | sealer", ("GIVES_UP", "LATE")),
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
    _history("long: a seal, a merge, a sweep and a reader", "sealer | merger | sweeper 1 | reader"),
    _history("long: two mergers, a sweep and a reader", "merger | merger | sweeper 1 | reader"),
    _history(
        "long: retention, a merge, a sweep, a reader", "merger | retainer | sweeper 1 | reader"
    ),
    _history(
        "long: names without an id, two sweepers",
        "sealer | sealer | sweeper 1 | sweeper 1",
        *_PLAIN,
    ),
    _history(
        "long: three compactors and a seal", "compactor | compactor | compactor | sealer", _DEAD
    ),
    _history(
        "long: two compactors, a merge, a seal", "compactor | merger | compactor | sealer", _DEAD
    ),
    _history("long: a compaction, a seal and a sweep", "compactor | sealer | sweeper 1", _DEAD),
)
