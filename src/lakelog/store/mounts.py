"""Whether other machines may use a folder: what kind of file system it is on.

A store of files lets one writer win by what one kernel promises: a link is made or not, a lock is
held or not. On a file system that several machines mount, another kernel knows nothing of it, or
learns of it late. Nothing in the answers of the system calls shows that, so the kind of the file
system is looked up, in the table of mounts that the kernel keeps:

    36 35 98:0 /export /srv/log rw,noatime shared:1 - nfs4 host:/export rw,vers=4.2
       where in it it is mounted ^                    ^ the kind
"""

import re
from pathlib import Path

from lakelog.store.local import LocalStore
from lakelog.store.opening import StoreSpec

__all__ = ["MOUNTS", "SHARED", "file_system_of", "is_unknown"]

MOUNTS = Path("/proc/self/mountinfo")

SHARED = frozenset(
    {
        "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "gfs2", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs",
        "vboxsf", "wekafs",
        "fuse.ceph", "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys",
        "fuse.juicefs", "fuse.mfs", "fuse.moosefs", "fuse.mount-s3", "fuse.rclone", "fuse.s3fs",
        "fuse.seaweedfs", "fuse.sshfs", "fuse.vmhgfs-fuse",
    }
)  # fmt: skip
"""Kinds that exist to be mounted by several machines."""


def file_system_of(spec: StoreSpec, mounts: Path = MOUNTS) -> str:
    """Return the kind of file system that a store of files is on; "" if that is not known.

    Any other store has none.
    """
    store = spec.open()
    if not isinstance(store, LocalStore):
        return ""
    root = Path(store.root).resolve()
    kind = ""
    longest = -1
    try:
        table = mounts.read_text(errors="surrogateescape")
    except OSError:
        return ""
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        words = fields.split(" ")
        if len(words) < 5 or not rest:
            continue
        at = Path(_plain(words[4]))
        # The last of two at the same place covers the other.
        if len(at.parts) >= longest and root.is_relative_to(at):
            kind, longest = rest.split(" ")[0], len(at.parts)
    return kind


def is_unknown(kind: str) -> bool:
    """Say whether it is not known here if several machines can mount such a file system."""
    return kind in ("", "fuse", "virtiofs") or kind.startswith("fuse.")


def _plain(text: str) -> str:
    """Undo what the kernel does to blanks and the like in its table."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
