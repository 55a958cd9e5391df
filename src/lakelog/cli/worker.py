"""A worker: a process of `lakelog serve --workers N`, a broker that a supervisor starts.

    python -m lakelog.cli.worker LINK PARENT     a socket that is open already; whose child it is

It runs what it is told over its link (``worker_link``), and logs JSON, which the supervisor writes
into the one log. It dies with the supervisor: nobody else would end it, and its port would be taken
when the supervisor is started again.
"""

import os
import socket
import sys
from typing import NoReturn

from lakelog.cli.logs import make_log
from lakelog.cli.running import Running, run_plan
from lakelog.cli.worker_link import Link, receive_plan
from lakelog.errors import FencedError, LakelogError
from lakelog.host import die_with_parent, leave_process

__all__ = ["EXIT_FENCED", "main"]

EXIT_FENCED = 3
"""Another broker was started with its node id."""


def main() -> NoReturn:
    """Do what the supervisor says until it, or a signal, ends it."""
    end, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    os.set_inheritable(end.fileno(), False)
    die_with_parent(parent)
    try:
        plan = receive_plan(end)
    except EOFError:
        leave_process(1)
    log, link = make_log("json"), Link(end)

    async def ready(running: Running) -> None:
        node = running.broker.services.cluster.node_id
        log.info("ready", bootstrap=running.address(plan), node=node)
        link.say_serving(node)

    try:
        run_plan(plan, plan.spec.open(), log, ready=ready, link=link)
    except FencedError as error:
        log.error(str(error))
        leave_process(EXIT_FENCED)
    except LakelogError as error:
        log.error(str(error))
        leave_process(1)
    leave_process(0)


if __name__ == "__main__":
    main()
