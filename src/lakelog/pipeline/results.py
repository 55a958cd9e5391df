"""Results as Arrow, which is how executors send them, and the report they add up to.

One row a unit, a few hundred bytes: a run over a million segments fits a driver.

What a run amounts to is one verdict. A verb that was pointed at a place and found nothing there has
not done what was asked for; one that keeps a namespace may well have nothing to do.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from lakelog.formats import FORMATS
from lakelog.names import TOPICS_PREFIX
from lakelog.pipeline.frame import BAD, MISSING, UNSEALED, UNVERIFIABLE, Finding, Result
from lakelog.store import Usage

__all__ = ["RESULT_SCHEMA", "Report", "Verdict", "results_to_arrow"]

POINTED = frozenset({"verify", "compare", "reindex", "convert"})
"""Verbs that are pointed at segments."""
_DATA_SUFFIXES = tuple(row.suffix for row in FORMATS.values())

FINDING_TYPE = pa.struct(
    [("object", pa.string()), ("position", pa.int64()), ("size", pa.int64()), ("what", pa.string())]
)

RESULT_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("object", pa.string()),
        ("outcome", pa.string()),
        ("records", pa.int64()),
        ("batches", pa.int64()),
        ("findings_count", pa.int64()),
        ("findings", pa.list_(pa.field("element", FINDING_TYPE))),
        ("made", pa.string()),
        ("gets", pa.int64()),
        ("puts", pa.int64()),
        ("bytes_read", pa.int64()),
        ("bytes_written", pa.int64()),
    ]
)


def results_to_arrow(results: Iterable[Result]) -> pa.RecordBatch:
    """Return results as rows."""
    return pa.RecordBatch.from_pylist([_row(result) for result in results], schema=RESULT_SCHEMA)


def _row(result: Result) -> dict[str, Any]:
    usage = result.usage
    return {
        "topic": result.topic,
        "partition": result.partition,
        "base_offset": result.base_offset,
        "object": result.object,
        "outcome": result.outcome,
        "records": result.records,
        "batches": result.batches,
        "findings_count": result.findings_count,
        "findings": [finding._asdict() for finding in result.findings],
        "made": result.made,
        "gets": usage.requests.get("get", 0),
        "puts": usage.requests.get("put", 0),
        "bytes_read": usage.bytes_read,
        "bytes_written": usage.bytes_written,
    }


class Verdict(StrEnum):
    """How a run ended, in a word; the first that is true."""

    BAD = "not good"
    """Something is damaged, different or refused."""

    NOTHING = "nothing found"
    """What was asked for, or a part of it, is not there."""

    UNVERIFIABLE = "unverifiable"
    """Nothing wrong was found, where there is no checksum to find it by."""

    GOOD = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a run ended."""

    verb: str
    table: pa.Table
    """A row for each unit; see RESULT_SCHEMA."""
    planning: Usage
    """What it took to plan."""
    seconds: float = 0.0
    """How long it took; filled in by whoever has a clock."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many units ended how."""
        return dict(sorted(Counter(self.table.column("outcome").to_pylist()).items()))

    @property
    def verdict(self) -> Verdict:
        """What the outcomes amount to."""
        outcomes = set(self.outcomes)
        if BAD & outcomes:
            return Verdict.BAD
        if MISSING in outcomes or (self.verb in POINTED and outcomes <= {"gone", UNSEALED}):
            return Verdict.NOTHING
        return Verdict.UNVERIFIABLE if UNVERIFIABLE in outcomes else Verdict.GOOD

    @property
    def is_good(self) -> bool:
        """Whether the run did what was asked for, and found nothing wrong where it would show."""
        return self.verdict is Verdict.GOOD

    @property
    def segments(self) -> int:
        """How many segments the rows are about."""
        return sum(key.endswith(_DATA_SUFFIXES) for key in self.table.column("object").to_pylist())

    @property
    def topics(self) -> int:
        """How many topics the rows are about, also those without segments."""
        columns = (self.table.column(name).to_pylist() for name in ("topic", "object"))
        return len(
            {
                topic.partition("~")[0]
                for topic, key in zip(*columns, strict=True)
                if key.endswith((*_DATA_SUFFIXES, "/manifest")) or key.startswith(TOPICS_PREFIX)
            }
        )

    @property
    def usage(self) -> Usage:
        """All requests, those of planning included."""
        requests = {"get": self._sum("gets"), "put": self._sum("puts")}
        worked = Usage(
            requests={kind: count for kind, count in requests.items() if count},
            bytes_read=self._sum("bytes_read"),
            bytes_written=self._sum("bytes_written"),
        )
        return self.planning + worked

    @property
    def records(self) -> int:
        return self._sum("records")

    @property
    def findings_count(self) -> int:
        return self._sum("findings_count")

    def findings(self, limit: int) -> list[Finding]:
        """Return the first findings that were kept."""
        kept = (one for many in self.table.column("findings").to_pylist() for one in many)
        return [Finding(**one) for one, _ in zip(kept, range(limit), strict=False)]

    def summary(self) -> dict[str, Any]:
        """Return the figures of the report, as JSON has them."""
        usage = self.usage
        return {
            "verb": self.verb,
            "good": self.is_good,
            "verdict": self.verdict.value,
            "outcomes": self.outcomes,
            "segments": self.segments,
            "topics": self.topics,
            "records": self.records,
            "batches": self._sum("batches"),
            "findings": self.findings_count,
            "bytes_read": usage.bytes_read,
            "bytes_written": usage.bytes_written,
            "requests": dict(usage.requests),
            "price_usd": round(usage.price_usd, 6),
            "seconds": round(self.seconds, 3),
        }

    def _sum(self, column: str) -> int:
        return int(self.table.column(column).to_numpy().sum()) if self.table.num_rows else 0
