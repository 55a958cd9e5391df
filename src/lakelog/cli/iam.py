"""`lakelog iam`: what a process needs of a bucket, as a policy of S3's IAM."""

from urllib.parse import urlsplit

import click

from lakelog.cli.arguments import exit_on_error
from lakelog.security import ROLES, bucket_policy

__all__ = ["iam"]


@click.command(
    epilog="\b\n"
    + "\n".join(f"{name:10}{row.what}" for name, row in ROLES.items()).replace("`", "")
)
@click.argument("role", type=click.Choice(list(ROLES)))
@click.argument("bucket", metavar="s3://BUCKET/FOLDER")
def iam(role: str, bucket: str) -> None:
    """Print the IAM policy that a process of a ROLE needs, and nothing more.

    Nothing is asked of the store. It is for S3 and stores that know its policies.
    """
    parts = urlsplit(bucket)
    if parts.scheme != "s3" or not parts.netloc:
        raise click.UsageError(f"{bucket} is not in S3: name the log as s3://bucket/folder")
    with exit_on_error():
        click.echo(bucket_policy(role, parts.netloc, parts.path))
