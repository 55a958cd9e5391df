"""Run the behaviours: all of them on both clusters write docs/compatibility.md anew.

On three brokers of lakelog they are compared with that page.
"""

import argparse
import asyncio
import contextlib
import json
import sys

from tests.e2e.compat.behaviours import BEHAVIOURS
from tests.e2e.compat.clusters import CLUSTERS, THREE, broker_versions
from tests.e2e.compat.page import PAGE, Report, explanation, read_report, write_report
from tests.e2e.compat.running import PATIENCE_S, Result, prepare, run_client
from tests.e2e.compat.workers import CLIENTS


def _tell(client: str, behaviour: str, result: Result) -> None:
    line = {"client": client, "behaviour": behaviour, **vars(result)}
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()


async def _run(
    bootstrap: str, clients: list[str], behaviours: list[str], patience_s: float
) -> dict[str, tuple[str, dict[str, Result]]]:
    """One client after the other: what fails is not to be blamed on the neighbours."""
    plan = await prepare(bootstrap, behaviours, patience_s)
    return {client: await run_client(client, plan, _tell) for client in clients}


def _write(told: dict[str, dict[str, tuple[str, dict[str, Result]]]]) -> int:
    versions = {client: version for client, (version, _) in told["kafka"].items()}
    results = {
        cluster: {client: one for client, (_, one) in clients.items()}
        for cluster, clients in told.items()
    }
    report = Report(broker_versions(), versions, results)
    write_report(report)
    sys.stdout.write(f"{PAGE.name} is written\n")
    open_ones = [cell for cell in report.cells() if explanation(*cell) is None]
    for behaviour, client, kafka, lakelog in open_ones:
        sys.stdout.write(f"not explained: {behaviour}, {client}: {kafka} on Kafka, {lakelog}\n")
    return 1 if open_ones else 0


def _compare(told: dict[str, tuple[str, dict[str, Result]]]) -> int:
    """Say where three brokers do otherwise than the page says of one."""
    said = read_report().results["lakelog"]
    differ = [
        (client, name, result, said[client][name].result)
        for client, (_, results) in told.items()
        for name, result in results.items()
        if result.result != said[client][name].result
    ]
    for client, name, result, of_one in differ:
        what = f"{result.result} ({result.why})" if result.why else result.result
        sys.stdout.write(f"otherwise: {name}, {client}: {what}; on one broker: {of_one}\n")
    cells = sum(len(results) for _, results in told.values())
    sys.stdout.write(f"{cells - len(differ)} of {cells} are as {PAGE.name} says\n")
    return 1 if differ else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.compat", description=__doc__)
    parser.add_argument("--on", choices=[*CLUSTERS, *THREE], nargs="+", default=list(CLUSTERS))
    parser.add_argument("--at", help="the address of a cluster that runs already")
    parser.add_argument("--clients", choices=CLIENTS, nargs="+", default=list(CLIENTS))
    parser.add_argument("--only", choices=BEHAVIOURS, nargs="+", default=list(BEHAVIOURS))
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds for each")
    given = parser.parse_args()
    told = {}
    for on in [given.at] if given.at else given.on:
        start = contextlib.nullcontext(given.at) if given.at else {**CLUSTERS, **THREE}[on]()
        sys.stdout.write(f"on {on}\n")
        with start as bootstrap:
            told[on] = asyncio.run(_run(bootstrap, given.clients, given.only, given.patience))
    if [*told] == [*CLUSTERS] and given.clients == [*CLIENTS] and given.only == [*BEHAVIOURS]:
        return _write(told)
    return _compare(told["three"]) if "three" in told else 0


if __name__ == "__main__":
    sys.exit(main())
