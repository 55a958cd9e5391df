"""What a bundle and a checkpoint share: how the object begins and ends.

    object => lead payload directory footer
      lead, 8 bytes
         0  magic       "KAFB" or "KAFC"
         4  version     u16   1
         6  reserved    u16   0
      payload           a bundle's slices; a checkpoint has none
      directory         a head of fixed width, then tables
      footer, 24 bytes
         0  position    u64   where the directory begins
         8  payload crc u32   CRC-32C of the payload
        12  crc         u32   CRC-32C of the directory and of the footer so far
        16  reserved    u32   0
        20  magic       "BFAK" or "CFAK"

The directory stands at the end, with the head in it, so that one request for the last bytes yields
all that a walker wants, and a checksum over it. The footer comes last: an object cut short can
never pass for a whole one.
"""

import struct
from dataclasses import dataclass

from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import Bytes

__all__ = ["FOOTER_BYTES", "LEAD_BYTES", "Frame", "directory_start"]

VERSION = 1
LEAD_BYTES = 8
FOOTER_BYTES = 24

_LEAD = struct.Struct(">4sHH")
_FOOTER = struct.Struct(">QIII4s")
_FOOTER_CRC_AT = 12


def directory_start(footer: Bytes, size: int, *, magic: bytes, where: str) -> int:
    """Return where the directory of an object of ``size`` bytes begins; ``footer`` is its end.

    Raises:
        CorruptError: this is not the end of such an object.
    """
    if size < LEAD_BYTES + FOOTER_BYTES:
        raise CorruptError(f"{size} bytes, an empty one has more", at=size, where=where)
    if len(footer) < FOOTER_BYTES:
        raise CorruptError(f"only {len(footer)} of its bytes are here", at=size, where=where)
    at = size - FOOTER_BYTES
    position, _, _, reserved, end = _FOOTER.unpack_from(footer, len(footer) - FOOTER_BYTES)
    if end != magic:
        raise CorruptError(f"ends with {end!r}, not {magic!r}", at=at + 20, where=where)
    if reserved:
        raise CorruptError(f"reserved bytes hold {reserved:#x}", at=at + 16, where=where)
    if not LEAD_BYTES <= position <= at:
        raise CorruptError(f"the directory begins at {position}", at=at, where=where)
    return int(position)


@dataclass(frozen=True, slots=True)
class Frame:
    """The magics of one kind of object, and its name in errors."""

    magic: bytes
    end: bytes
    where: str

    @property
    def lead(self) -> bytes:
        return _LEAD.pack(self.magic, VERSION, 0)

    def check_lead(self, data: Bytes) -> None:
        """Check how an object begins.

        Raises:
            CorruptError: it is another kind of object.
            UnsupportedError: another version wrote it.
        """
        if len(data) < LEAD_BYTES:
            raise CorruptError(f"{len(data)} bytes", at=len(data), where=self.where)
        magic, version, reserved = _LEAD.unpack_from(data)
        if magic != self.magic:
            raise CorruptError(f"magic {magic!r}, not {self.magic!r}", at=0, where=self.where)
        if version != VERSION:
            raise UnsupportedError(
                f"version {version}, this reader knows {VERSION}; use a newer one",
                at=4,
                where=self.where,
            )
        if reserved:
            raise CorruptError(f"reserved bytes hold {reserved:#x}", at=6, where=self.where)

    def footer(self, position: int, payload_crc: int, directory: Bytes) -> bytes:
        """Return the footer that seals ``directory``, which begins at ``position``."""
        start = struct.pack(">QI", position, payload_crc)
        crc = crc32c(start, crc32c(directory))
        return start + struct.pack(">II4s", crc, 0, self.end)

    def open(self, tail: Bytes, size: int) -> tuple[int, memoryview, int]:
        """Return where the directory begins, its bytes, and the CRC of the payload.

        ``tail`` is the end of an object of ``size`` bytes, from the directory on or from before.

        Raises:
            CorruptError: no correct writer made it.
        """
        position = directory_start(tail, size, magic=self.end, where=self.where)
        view = memoryview(tail)
        begin = position - (size - len(view))
        if begin < 0:
            raise CorruptError(f"only {len(view)} of its bytes are here", at=size, where=self.where)
        footer = view[len(view) - FOOTER_BYTES :]
        _, payload_crc, crc, _, _ = _FOOTER.unpack(footer)
        directory = view[begin : len(view) - FOOTER_BYTES]
        if crc32c(footer[:_FOOTER_CRC_AT], crc32c(directory)) != crc:
            raise CorruptError(
                "the directory does not match its CRC",
                at=size - FOOTER_BYTES + _FOOTER_CRC_AT,
                where=self.where,
            )
        return position, directory, payload_crc
