"""pipeline: the verbs that work on whole topics, run by Spark.

Each verb plans first. With --dry-run the plan is all there is: how many objects, bytes and requests
it would take, and their price. Else the plan is run, on Spark in this process or on the cluster
that --master names, and a report closes the run.

Ends with 0 if all is as it should be, 1 if something is damaged, different or refused, 2 if the
call is wrong, 3 if the run failed, 4 if what was asked for is not there, 5 if nothing wrong was
found but the format has no checksum to find it by.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from lakelog.cli.arguments import store_option
from lakelog.cli.maintenance import MAINTENANCE
from lakelog.cli.runs import job_command, together, topic_option
from lakelog.host import THIS_HOST

if TYPE_CHECKING:
    from lakelog.pipeline import Job

__all__ = ["pipeline"]

LAYOUTS = ("kafka", "kafs", "strm", "rustlog")
NAMESPACE = "lakelog"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.group()
def pipeline() -> None:
    """Keep a namespace, and verify, reindex and convert topics, on Spark."""


_source: Callable[[Any], Any] = together(
    click.argument("url"),
    click.option(
        "--layout", type=click.Choice([*LAYOUTS, NAMESPACE]), required=True,
        help="How segments lie; lakelog: in a namespace.",
    ),
    topic_option,
    store_option(),
)  # fmt: skip


@pipeline.command("verify")
@_source
@click.option("--records", is_flag=True, help="Decode every record, too.")
@click.option("--closed", is_flag=True, help="Nobody writes: a torn end is damage, too.")
@click.option("--against", metavar="URL", help="Compare with this, record by record.")
@click.option(
    "--against-layout", type=click.Choice([*LAYOUTS, "parquet", NAMESPACE]),
    help="As --layout unless given.",
)  # fmt: skip
@store_option("against-")
@job_command
def _verify(
    url: str,
    layout: str,
    topics: tuple[str, ...],
    store_options: dict[str, str],
    against: str | None,
    against_layout: str | None,
    against_store_options: dict[str, str],
    **options: Any,
) -> "tuple[Job, str]":
    """Check every byte of the segments below URL.

    Every CRC, the order of offsets, counts, and every entry of the indexes; of a namespace also its
    manifests, its journal, its cells, and how they agree. With --against the records are compared
    with those in another place, or with a running Kafka: kafka://host:port.

    Ends with 0 if all of it is good, 1 if something is damaged or different, 2 if the call is
    wrong, 3 if the run failed, 4 if no segment was found, or none of a topic that was named, and 5
    if nothing wrong was found in a format without checksums (rustlog): it is unverifiable.
    """
    from lakelog.pipeline.jobs import compare_job, verify_job

    common: dict[str, Any] = {
        "host": THIS_HOST,
        "layout": layout,
        "topics": topics or None,
        "store_options": store_options,
    }
    if against is None:
        return verify_job(url, **common, **options), url
    job = compare_job(
        url,
        against=against,
        against_layout="live" if against.startswith("kafka:") else against_layout or layout,
        against_store_options=against_store_options,
        **common,
    )
    return job, url


@pipeline.command("reindex")
@_source
@click.option("--closed", is_flag=True, help="Nobody writes: the last segment, too.")
@job_command
def _reindex(url: str, topics: tuple[str, ...], **options: Any) -> "tuple[Job, str]":
    """Make indexes again where they are missing or wrong.

    They follow from the segments alone. Sound ones are left as they are. Ends with 0 if all is
    well, 1 if a segment is damaged, 4 if no segment was found.
    """
    from lakelog.pipeline.jobs import reindex_job

    return reindex_job(url, topics=topics or None, **options), url


@pipeline.command("convert")
@click.argument("url")
@click.argument("target")
@click.option("--layout", type=click.Choice([*LAYOUTS, "parquet"]), required=True, help="Of URL.")
@click.option("--to", type=click.Choice([*LAYOUTS, "parquet"]), required=True, help="Of TARGET.")
@topic_option
@click.option(
    "--codec",
    type=click.Choice(CODECS),
    help="How to compress what is encoded again; else: strm lz4, parquet snappy, others none.",
)
@click.option("--level", type=int, help="Of the codec.")
@click.option("--block-bytes", type=click.IntRange(1), help="Of a batch or an STRM block.")
@click.option("--segment-bytes", type=click.IntRange(1), help="About how large segments become.")
@click.option("--lose", multiple=True, metavar="WHAT", help="Allow a loss; see the manual.")
@store_option()
@store_option("to-")
@job_command
def _convert(
    url: str,
    to: str,
    topics: tuple[str, ...],
    to_store_options: dict[str, str],
    **options: Any,
) -> "tuple[Job, str]":
    """Convert the segments below URL into another layout at TARGET.

    Offsets are kept. Segments keep their bounds unless --segment-bytes is given. What the target
    cannot hold is refused, unless --lose allows it: keys, null-values, headers, time-order,
    timestamp-types, producers, transactions. Ends with 0 if all was converted, 1 if something was
    refused or is damaged, 4 if there was nothing to convert.
    """
    from lakelog.pipeline.jobs import convert_job

    job = convert_job(
        url,
        host=THIS_HOST,
        target_layout=to,
        topics=topics or None,
        target_store_options=to_store_options,
        **options,
    )
    return job, url


for _command in MAINTENANCE:
    pipeline.add_command(_command)
