"""`python -m tests.e2e.acls`: all of the matrix on both, and the page of it."""

import asyncio
import sys

from tests.e2e.acls.clusters import running_kafka, running_lakelog
from tests.e2e.acls.columns import COLUMNS, Column, admin_acls
from tests.e2e.acls.matrix import Matrix, run_matrix
from tests.e2e.acls.page import PAGE, differences, page, write_results

__all__ = ["ask_kafka", "ask_lakelog"]


def ask_kafka(columns: list[Column]) -> Matrix:
    """Return what a Kafka answers."""
    with running_kafka(admin_acls()) as port:
        return asyncio.run(run_matrix(port, columns))


def ask_lakelog(columns: list[Column]) -> Matrix:
    """Return what a broker of ours answers."""

    async def ask() -> Matrix:
        async with running_lakelog(admin_acls()) as port:
            return await run_matrix(port, columns)

    return asyncio.run(ask())


def main() -> int:
    """Run all of it."""
    kafka, ours = ask_kafka(COLUMNS), ask_lakelog(COLUMNS)
    write_results(kafka)
    PAGE.write_text(page())
    found = differences(kafka, ours)
    for line in (*found, f"{sum(map(len, kafka.values()))} cells, {len(found)} differences"):
        sys.stdout.write(f"{line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
