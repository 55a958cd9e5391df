"""Files to dump, on disks and in object stores: their sizes, and bytes by ranges.

An address such as s3://bucket/topic-0/00000000000000000000.log is read where it lies, as much of it
as is asked for. Which store that is, and as whom, is taken from the environment, as the clouds' own
tools take it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakelog.cli.dump.files import OpenSegment, SegmentFile, read_range
from lakelog.errors import LakelogError, NotFoundError
from lakelog.formats import Files, Range
from lakelog_kafka_tools.thrown import Thrown

__all__ = ["Sources", "is_remote"]

_NO_FILE = "java.nio.file.NoSuchFileException"


def is_remote(path: str) -> bool:
    """Say whether a path is the address of an object."""
    return "://" in path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment(OpenSegment):
    """A segment whose bytes come from wherever it lies."""

    sources: "Sources"

    def give(self, wanted: Range) -> bytes:
        return self.sources.read(self.file.beside(wanted.suffix), wanted.start, wanted.end)


class Sources:
    """Reads files and objects by their paths."""

    def __init__(self) -> None:
        self._stores: dict[str, Any] = {}

    def size(self, path: str) -> int:
        """Return how many bytes a file has.

        Raises:
            Thrown: it cannot be read.
        """
        if is_remote(path):
            from lakelog.store import Head

            return int(self._perform(path, Head).size)
        try:
            return Path(path).stat().st_size
        except OSError:
            raise Thrown(_NO_FILE, path) from None

    def read(self, path: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``; less only where the file ends.

        Raises:
            Thrown: it cannot be read.
        """
        if end <= start:
            return b""
        if is_remote(path):
            from lakelog.store import GetRange

            return bytes(self._perform(path, GetRange, start, min(end, self.size(path))).body)
        try:
            with Path(path).open("rb", buffering=0) as file:
                return read_range(file.fileno(), start, end)
        except OSError:
            raise Thrown(_NO_FILE, path) from None

    def segment(self, file: SegmentFile) -> OpenSegment:
        """Return a segment that a format can walk through."""
        sizes: dict[str, int] = {}
        for suffix in (*file.format.side_suffixes, file.format.suffix):
            try:
                sizes[suffix] = self.size(file.beside(suffix))
            except Thrown:
                if suffix == file.format.suffix:
                    raise
        files = Files(base_offset=file.base_offset, sizes=sizes)
        return _Segment(file=file, files=files, contents={}, sources=self)

    def _perform(self, path: str, operation: Any, *args: int) -> Any:
        from lakelog.store import open_store, retrying

        folder, _, name = path.rpartition("/")
        if folder not in self._stores:
            self._stores[folder] = retrying(open_store(folder).perform)
        try:
            return self._stores[folder](operation(name, *args))
        except NotFoundError:
            raise Thrown(_NO_FILE, path) from None
        except LakelogError as error:
            raise Thrown("java.io.IOException", str(error)) from error
