"""The hostile client, a process that is told what to do: a line in, a line out.

    python -m tests.e2e.hostile.attacker PORT HTTP_PORT
    > 3.0 it connects as fast as it can
    < done

It comes from another address than the honest clients, as somebody else would. It has the lowest
priority: what the honest clients notice is to be the broker's doing, and not that a process beside
them takes the processor.
"""

import os
import sys
import time
import traceback

from tests.e2e.hostile.rows import ROWS
from tests.e2e.hostile.target import Target


def main() -> None:
    os.nice(19)
    port, http_port = map(int, sys.argv[1:])
    target = Target(port=port, http_port=http_port)
    by_name = {row.name: row for row in ROWS}
    print("ready", flush=True)  # noqa: T201 (what it is asked by pipe it answers by pipe)
    for line in sys.stdin:
        seconds, _, name = line.strip().partition(" ")
        try:
            by_name[name].attack(target, time.monotonic() + float(seconds))
        except Exception:  # noqa: BLE001 (told, and judged by who asked)
            said = traceback.format_exc().replace("\n", " | ")
            print(f"failed: {said}", flush=True)  # noqa: T201
        else:
            print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
