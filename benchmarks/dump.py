"""``lakelog dump`` on a gibibyte: how soon it prints, and how much memory it holds.

The bars: the first line within one second, and less than 300 MB over a full pass that prints every
record. The value is the worse of the two, as a share of what is allowed turned round: 1 or more
passes. The quick form dumps 128 MiB: memory must not grow with the file, so neither figure should.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.data import Shape, run_of
from benchmarks.measure import arguments, closing_line
from lakelog.records import rebase

FIRST_LINE_S = 1.0
MEMORY_MB = 300.0


def write_segment(path: Path, size: int) -> int:
    """Repeat a run of batches, each given its own place; return the number of records."""
    records = 1000
    batch = bytearray(run_of(Shape(records=records, value_bytes=1000)))
    offset = 0
    with path.open("wb") as file:
        while file.tell() < size:
            rebase(batch, base_offset=offset, leader_epoch=0)
            file.write(batch)
            offset += records
    return offset


def main() -> None:
    options = arguments(__doc__)
    size = 128 << 20 if options.quick else 1 << 30
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{0:020}.log"
        records = write_segment(path, size)
        first = min(_first_line(path) for _ in range(3))
        start = time.perf_counter()
        lines, memory = _read_all(path)
        took = time.perf_counter() - start
    assert lines == 2 + records + records // 1000, lines
    print(f"first line after {first:.2f} s; {records} records in {took:.1f} s; {memory:.0f} MB")
    closing_line(
        name="dump",
        value=min(FIRST_LINE_S / first, MEMORY_MB / memory),
        bar=1.0,
        unit="allowed over used, the worse of first line and memory",
        first_line_s=round(first, 3),
        memory_mb=round(memory),
        records_per_s=round(records / took),
        file_mib=size >> 20,
    )


def _dump(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lakelog", "dump", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def _first_line(path: Path) -> float:
    """Seconds until the first record is printed."""
    start = time.perf_counter()
    with _dump(path) as child:
        assert child.stdout
        while not child.stdout.readline().startswith(b"| offset: 0 "):
            pass
        took = time.perf_counter() - start
        child.terminate()
    return took


def _read_all(path: Path) -> tuple[int, float]:
    """Lines printed, and the most memory held, in MB.

    The kernel's own figure of a finished child is of no use here: it counts what the child shared
    with us before it became another program.
    """
    lines, memory = 0, 0.0
    with _dump(path) as child:
        assert child.stdout
        status = Path(f"/proc/{child.pid}/status")
        while chunk := child.stdout.read(1 << 16):
            lines += chunk.count(b"\n")
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
            memory = max(memory, int(found[1]) / 1024) if found else memory
    return lines, memory


if __name__ == "__main__":
    main()
