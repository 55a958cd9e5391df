"""Draws the dashboard as its queries see it: `python -m tests.e2e.dashboards.picture FILE`.

A broker and a Prometheus run for a while, with traffic; in the middle the broker is stopped for ten
seconds, so that there is something to see. The picture in docs/how-to is one.
"""

import argparse
import signal
import time
from html import escape
from pathlib import Path
from typing import NamedTuple

from tests.e2e.dashboards.panels import Panel, read_panels
from tests.e2e.dashboards.traffic import traffic
from tests.parts.lakelog import running_lakelog
from tests.parts.prometheus import Prometheus, running_prometheus

WIDTH, HEIGHT, ACROSS = 300, 150, 4
COLOURS = ("#3274d9", "#e0752d", "#56a64b", "#a352cc", "#c4162a", "#8f8f8f")
LINES_MAX = len(COLOURS)
PRICES = {"prices": "s3"}


class Line(NamedTuple):
    """One series of a panel."""

    name: str
    points: list[tuple[float, float]]


def series(prometheus: Prometheus, panel: Panel, begin: float, end: float) -> list[Line]:
    """Return what a panel shows of a stretch of time."""
    found = prometheus.get("query_range", query=panel.query, start=begin, end=end, step=1)
    lines: list[Line] = []
    for row in found["result"]:
        name = panel.legend
        for label, value in row["metric"].items():
            name = name.replace("{{" + label + "}}", value)
        points = [(float(at), float(value)) for at, value in row["values"] if value != "NaN"]
        lines.append(Line(name, points))
    return sorted(lines, key=lambda line: -max((value for _, value in line.points), default=0))


def told(value: float, unit: str) -> str:
    """Return a value as people read it."""
    if unit == "percentunit":
        return f"{value:.0%}"
    if unit == "s":
        return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
    if unit == "currencyUSD":
        return f"${value:.2f}"
    size = next((size for size in (1e9, 1e6, 1e3) if value >= size), 1.0)
    letter = {1e9: "G", 1e6: "M", 1e3: "k"}.get(size, "")
    ending = {"Bps": "B/s", "bytes": "B", "cps": "/s", "reqps": "/s"}.get(unit, "")
    return f"{value / size:.3g} {letter}{ending}".strip()


def draw_panel(panel: Panel, lines: list[Line], x: int, y: int, begin: float, end: float) -> str:
    """Return one panel as SVG."""
    left, top, wide, high = x + 8, y + 30, WIDTH - 24, HEIGHT - 62
    top_value = max((value for line in lines for _, value in line.points), default=0.0)
    most = top_value or 1.0
    parts = [
        f'<rect x="{x}" y="{y}" width="{WIDTH - 8}" height="{HEIGHT - 8}" fill="#f7f8fa" rx="4"/>',
        f'<text x="{left}" y="{y + 18}" font-weight="bold">{escape(panel.title)}</text>',
        (
            f'<text x="{left + wide}" y="{y + 18}" text-anchor="end" fill="#666">'
            f"{escape(told(top_value, panel.unit))}</text>"
        ),
        f'<line x1="{left}" y1="{top + high}" x2="{left + wide}" y2="{top + high}" stroke="#ccc"/>',
    ]
    legend = left
    for line, colour in zip(lines[:LINES_MAX], COLOURS, strict=False):
        path = " ".join(
            f"{left + wide * (at - begin) / (end - begin):.1f},"
            f"{top + high * (1 - value / most):.1f}"
            for at, value in line.points
        )
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
        if legend < x + WIDTH - 70:
            parts.append(
                f'<text x="{legend}" y="{y + HEIGHT - 17}" fill="{colour}" font-size="10">'
                f"{escape(line.name)}</text>"
            )
        legend += 12 + 6 * len(line.name)
    return "\n".join(parts)


def draw(prometheus: Prometheus, begin: float, end: float) -> str:
    """Return all of the dashboard as SVG."""
    parts: list[str] = []
    x = y = 0
    row = ""
    for panel in read_panels("10s"):
        if panel.row != row:
            y += (HEIGHT if row else 0) + 6
            row, x = panel.row, 0
            parts.append(
                f'<text x="4" y="{y + 14}" fill="#333" font-size="14">{escape(row)}</text>'
            )
            y += 22
        lines = series(prometheus, panel, begin, end)
        parts.append(draw_panel(panel, lines, x, y, begin, end))
        x += WIDTH
    width, height = WIDTH * ACROSS, y + HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join(
        [head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>\n"]
    )


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=int, default=120)
    given = parser.parse_args()
    with (
        running_lakelog(options=PRICES, arguments=("--keep-every", "5", "--init")) as broker,
        running_prometheus(broker.http) as prometheus,
        traffic(broker.bootstrap),
    ):
        time.sleep(given.seconds / 2)  # noqa: TID251 (a picture takes its time)
        broker.signal(signal.SIGSTOP)
        time.sleep(10)  # noqa: TID251
        broker.signal(signal.SIGCONT)
        time.sleep(given.seconds / 2)  # noqa: TID251
        end = float(prometheus.get("query", query="time()")["result"][1])
        given.file.write_text(draw(prometheus, end - given.seconds, end))


if __name__ == "__main__":
    main()
