"""import: topics out of what another log has left on its disks.

    lakelog import kafka DIR... --storage URL

The topics keep their offsets, so that whoever consumed them goes on where he was. Nobody can read
or append to a topic before its import has ended; a run that was ended is completed by running it
again. Ends like the verbs of the pipeline do.
"""

from typing import TYPE_CHECKING, Any

import click

from lakelog.cli.arguments import named_values, storage_options, store_option
from lakelog.cli.runs import job_command, topic_option
from lakelog.host import THIS_HOST

if TYPE_CHECKING:
    from lakelog.pipeline import Job

__all__ = ["import_"]


@click.group("import")
def import_() -> None:
    """Bring topics from another log, with their offsets."""


@import_.command("kafka")
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@storage_options
@topic_option
@click.option(
    "--config", "configs", multiple=True, metavar="NAME=VALUE",
    help="A setting of the topics; may be repeated. Without one they keep every record.",
)  # fmt: skip
@click.option("--segment-bytes", type=click.IntRange(1), help="About how large segments become.")
@click.option("--partial", is_flag=True, help="Partitions may be missing; they are empty then.")
@click.option("--stay-closed", is_flag=True, help="More is to come: do not open the topics yet.")
@store_option("from-")
@job_command
def _kafka(
    directories: tuple[str, ...],
    url: str,
    topics: tuple[str, ...],
    configs: tuple[str, ...],
    **options: Any,
) -> "tuple[Job, str]":
    """Make topics out of the log directories of Kafka brokers, with the same offsets.

    DIR is what a broker calls log.dirs, or a copy of it. Of partitions that several brokers hold,
    the copy with the newest leader epoch counts. Stop the brokers first; or import while they run
    with --stay-closed, and once more when they have stopped.
    """
    from lakelog.pipeline.jobs import import_job

    job = import_job(
        directories,
        host=THIS_HOST,
        storage=url,
        topics=topics or None,
        configs=named_values(configs),
        **options,
    )
    return job, " ".join(directories)
