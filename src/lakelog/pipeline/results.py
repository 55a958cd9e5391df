"""Results as Arrow, which is how they come home from executors, and the report they add up to.

One row a unit, a few hundred bytes: a run over a million segments fits a driver.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakelog.pipeline.frame import BAD, Finding, Result
from lakelog.store import Usage

__all__ = ["RESULT_SCHEMA", "Report", "results_to_arrow"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a run ended."""

    verb: str
    table: pa.Table
    """A row for each unit; see RESULT_SCHEMA."""
    planning: Usage
    """What it took to plan."""
    seconds: float

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many units ended how."""
        return dict(sorted(Counter(self.table.column("outcome").to_pylist()).items()))

    @property
    def is_good(self) -> bool:
        """Whether the run did what was asked for, and found nothing wrong."""
        return not BAD & set(self.outcomes)

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
            "outcomes": self.outcomes,
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
