"""The pipeline for spark-submit, which wants a file.

    spark-submit --master spark://host:7077 "$(python -m lakelog.spark.submit)" verify s3://... ...

Run as a module without arguments it prints its own path. With arguments it is `lakelog pipeline`,
on the master and with the settings that spark-submit was given.
"""

import sys

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Run a verb of the pipeline, or say where this file is."""
    if not arguments:
        sys.stdout.write(__file__ + "\n")
        return
    from importlib import import_module

    # By name, because a floor does not import the one above it; this file is a door of the house.
    command = import_module("lakelog.cli").main
    command(["pipeline", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
