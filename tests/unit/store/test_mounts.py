"""The kind of file system a folder is on, and what a process says to it."""

from pathlib import Path

import pytest

from lakelog.errors import InvalidInputError
from lakelog.store import StoreSpec, Verdict, admit, file_system_of, machine_finding

TABLE = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:40 / /srv rw,relatime shared:1 master:2 - xfs /dev/vdb rw
31 30 0:41 /export /srv/log rw,noatime - nfs4 host:/export rw,vers=4.2
32 30 0:42 / /srv/a\\040b rw - cifs //host/share rw
33 30 0:43 / /srv/twice rw - tmpfs none rw
34 30 0:44 / /srv/twice rw - fuse.sshfs host: rw
not a line of the kernel
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("/data", "ext4"),
        ("/srv", "xfs"),
        ("/srv/logs", "xfs"),
        ("/srv/log", "nfs4"),
        ("file:///srv/log/orders", "nfs4"),
        ("file:///srv/a%20b/c", "cifs"),
        ("/srv/twice/x", "fuse.sshfs"),
        ("memory:", ""),
        ("s3://bucket", ""),
    ],
)
def test_a_folder_is_on_the_file_system_that_is_mounted_deepest(
    mounts: Path, url: str, kind: str
) -> None:
    assert file_system_of(StoreSpec(url), mounts) == kind


def test_a_folder_behind_a_link_is_where_the_link_leads(mounts: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/srv/log")
    assert file_system_of(StoreSpec(str(tmp_path / "link")), mounts) == "nfs4"


def test_this_machine_has_a_table_of_mounts(tmp_path: Path) -> None:
    assert file_system_of(StoreSpec("/proc/self")) == "proc"
    assert file_system_of(StoreSpec(str(tmp_path)), tmp_path / "none") == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "lustre", "ceph", "fuse.sshfs"])
def test_a_network_file_system_is_refused_unless_one_machine_uses_it(kind: str) -> None:
    with pytest.raises(InvalidInputError, match=f"machine: {kind}, .*both win.*one_machine=true"):
        admit("/data", [machine_finding(StoreSpec("/data"), kind)])
    alone = machine_finding(StoreSpec("/data", {"one_machine": "true"}), kind)
    assert admit("/data", [alone]) == []
    with pytest.raises(InvalidInputError, match="both win"):
        admit("/data", [machine_finding(StoreSpec("/data", {"one_machine": "false"}), kind)])


@pytest.mark.parametrize("kind", ["fuse.something", "fuse", "virtiofs", ""])
def test_a_file_system_of_which_nothing_is_known_is_warned_of(kind: str) -> None:
    found = machine_finding(StoreSpec("/data"), kind)
    assert found.verdict is Verdict.UNCHECKED
    assert found.is_fine
    (warning,) = admit("/data", [found])
    assert "make sure that no other machine uses it" in warning


@pytest.mark.parametrize(
    ("url", "kind"),
    [("/data", "ext4"), ("/data", "tmpfs"), ("/data", "fuseblk"), ("memory:", ""), ("s3://b", "")],
)
def test_whatever_else_is_good(url: str, kind: str) -> None:
    found = machine_finding(StoreSpec(url), kind)
    assert found.verdict is Verdict.GOOD
    assert admit(url, [found]) == []
