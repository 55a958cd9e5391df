"""What a process asks of its machine."""

import resource

from lakelog import host


def test_a_server_may_have_as_many_open_files_as_the_system_lets_it() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        assert host.open_files_max() == 200
        host._raise_open_files()
        hard = before[1]
        all_of_them = host.OPEN_FILES if hard == resource.RLIM_INFINITY else hard
        assert host.open_files_max() == min(all_of_them, host.OPEN_FILES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
