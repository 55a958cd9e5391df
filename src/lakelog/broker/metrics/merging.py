"""Metrics of several workers as one page for Prometheus.

    # HELP lakelog_connections Open now.          of worker 0, and of worker 1
    # TYPE lakelog_connections gauge
    lakelog_connections 3.0

    lakelog_connections{worker="0"} 3.0           in one page: a family once, its rows by worker
    lakelog_connections{worker="1"} 5.0

Sums, maxima and quantiles over all rows are then what they would be over as many brokers, so rules
and dashboards that aggregate need not know of workers. What is a setting of all of them has no
worker: a rule that divides by it finds one row for an instance, as before.

Pages are texts, and stay texts: a name ends with a brace or a blank, and a label is put there. To
parse ten thousand rows only to write them again would take a second.
"""

from collections.abc import Iterator, Mapping

__all__ = ["merge_pages"]

SETTINGS = frozenset({"lakelog_group_shard_bytes_max"})
_HELP, _END = "# HELP ", "# EOF"


def merge_pages(pages: Mapping[int, str], own: str = "") -> str:
    """Return the pages of workers as one; what is of the supervisor's ``own`` comes first.

    All of them are of one format: that of Prometheus, or OpenMetrics, which says where it ends.
    """
    merged: dict[str, list[str]] = dict(_families(own))
    for worker, page in sorted(pages.items()):
        for name, lines in _families(page):
            if name not in merged:
                merged[name] = [line for line in lines if line.startswith("#")]
            elif name in SETTINGS:
                continue
            rows = (line for line in lines if not line.startswith("#"))
            merged[name] += rows if name in SETTINGS else (_labelled(row, worker) for row in rows)
    lines = [line for family in merged.values() for line in family]
    if any(page.rstrip().endswith(_END) for page in (own, *pages.values())):
        lines.append(_END)
    return "".join(f"{line}\n" for line in lines)


def _families(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each family's name and lines, which begin with its help."""
    name, lines = "", list[str]()
    for line in page.split("\n"):  # A label may hold what else ends a line.
        if line.startswith(_HELP):
            if lines:
                yield name, lines
            name, lines = line.split(" ", 3)[2], []
        if line and line != _END:
            lines.append(line)
    if lines:
        yield name, lines


def _labelled(row: str, worker: int) -> str:
    label = f'worker="{worker}"'
    brace, blank = row.find("{"), row.find(" ")
    if 0 <= brace < blank:
        rest = row[brace + 1 :]
        return f"{row[:brace]}{{{label}{'' if rest.startswith('}') else ','}{rest}"
    return f"{row[:blank]}{{{label}}}{row[blank:]}"
