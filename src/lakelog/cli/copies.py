"""`lakelog topic copy` and `restore`: a topic becomes another one, with the same offsets.

    lakelog topic copy orders --storage URL --to URL2
    lakelog topic restore orders --at 2026-03-01T12:00:00Z --as orders-before --storage URL

Both run on Spark, as the verbs of the pipeline do, and end like them. Nobody can read or append to
the new topic before all of it is there; a run that was ended is completed by running it again.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lakelog.cli.arguments import storage_options, store_option
from lakelog.cli.runs import job_command
from lakelog.host import THIS_HOST

if TYPE_CHECKING:
    from lakelog.pipeline import Job

__all__ = ["copy", "moment_ms", "restore"]


def moment_ms(text: str) -> int:
    """Return a moment in milliseconds since 1970: such a number, or ISO 8601 with a zone.

    Raises:
        click.BadParameter: it is neither.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise click.BadParameter(
            f"{text!r}: use 2026-03-01T12:00:00Z, or milliseconds since 1970", param_hint="--at"
        )
    return int(moment.astimezone(UTC).timestamp() * 1000)


@click.command("copy")
@click.argument("name")
@storage_options
@click.option("--to", required=True, metavar="URL", help="The namespace of the copy.")
@click.option("--as", "new_name", metavar="NAME", help="What the copy is called; else the same.")
@click.option("--segment-bytes", type=click.IntRange(1), help="About how large segments become.")
@store_option("to-")
@job_command
def copy(name: str, url: str, new_name: str | None, **options: Any) -> "tuple[Job, str]":
    """Copy a topic, with the same offsets and configs, as it is now.

    The copy is a new topic, in this namespace or in another. To append records to one that is
    there, read and write them with Spark.
    """
    from lakelog.pipeline.jobs import copy_job

    made = new_name or name
    return copy_job(url, name, name=made, host=THIS_HOST, **options), f"{name} to {made}"


@click.command("restore")
@click.argument("name")
@storage_options
@click.option("--at", "moment", required=True, metavar="TIME", help="ISO 8601, or milliseconds.")
@click.option("--as", "new_name", required=True, metavar="NAME", help="The topic that is made.")
@click.option("--segment-bytes", type=click.IntRange(1), help="About how large segments become.")
@job_command
def restore(
    name: str,
    url: str,
    store_options: dict[str, str],
    moment: str,
    new_name: str,
    segment_bytes: int | None,
) -> "tuple[Job, str]":
    """Make a topic that is as another one was at a moment, with the same offsets.

    Of every partition it has what lies before the first record of that time, or of a later one.
    What was compacted or has expired since does not come back.
    """
    from lakelog.pipeline.jobs import copy_job

    job = copy_job(
        url,
        name,
        to=url,
        name=new_name,
        host=THIS_HOST,
        at_ms=moment_ms(moment),
        segment_bytes=segment_bytes,
        store_options=store_options,
        to_store_options=store_options,
    )
    return job, f"{name} at {moment} to {new_name}"
