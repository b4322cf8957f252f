"""The system calls that no launcher needs and a cell's processes do not get: libseccomp's filter.

They are doors to the kernel that namespaces leave open: new user namespaces, in which a process has
all capabilities, sockets that no network namespace holds back (VSOCK leads from a virtual machine
to its host), keyrings, which all processes of a user share, and what most holes were found in.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import socket
import tempfile
from collections.abc import Iterator

REFUSED = (
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime",
    "delete_module", "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick",
    "init_module", "io_uring_enter", "io_uring_register", "io_uring_setup", "kcmp",
    "kexec_file_load", "kexec_load", "keyctl", "memfd_create", "memfd_secret", "mount",
    "mount_setattr", "move_mount", "name_to_handle_at", "open_by_handle_at", "open_tree",
    "perf_event_open", "personality", "pidfd_getfd", "pivot_root", "process_vm_readv",
    "process_vm_writev", "ptrace", "quotactl", "quotactl_fd", "reboot", "request_key", "setns",
    "settimeofday", "swapoff", "swapon", "syslog", "umount2", "unshare", "userfaultfd",
)  # fmt: skip
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NOT_EQUAL, MASKED_EQUAL = 1, 7
NEW_USER_NAMESPACE = 0x10000000


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


@contextlib.contextmanager
def refused() -> Iterator[tuple[list[str], list[int]]]:
    """Yield bubblewrap's options for this filter, and the file that it reads; none without one."""
    rules = compiled()
    if rules is None:
        yield [], []
        return
    with tempfile.TemporaryFile() as file:
        file.write(rules)
        file.seek(0)
        yield ["--seccomp", str(file.fileno())], [file.fileno()]


@functools.cache
def compiled() -> bytes | None:
    """Return the filter as the kernel takes it, None where libseccomp is not installed."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    rule = library.seccomp_rule_add_array
    rule.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    filtered = ctypes.c_void_p(library.seccomp_init(ALLOW))

    def refuse(name: str, error: int, *comparison: int) -> None:
        number = library.seccomp_syscall_resolve_name(name.encode())
        # Of one that this libseccomp does not know there is no number.
        if number >= 0:
            tested = _Comparison(*comparison)
            status = rule(filtered, ERRNO | error, number, bool(comparison), ctypes.byref(tested))
            if status:
                raise OSError(-status, os.strerror(-status), name)

    for name in REFUSED:
        refuse(name, errno.EPERM)
    refuse("clone", errno.EPERM, 0, MASKED_EQUAL, NEW_USER_NAMESPACE, NEW_USER_NAMESPACE)
    # Its flags lie in memory, where no filter looks. The C library then calls clone.
    refuse("clone3", errno.ENOSYS)
    refuse("socket", errno.EPERM, 0, NOT_EQUAL, socket.AF_UNIX)
    with tempfile.TemporaryFile() as file:
        library.seccomp_export_bpf(filtered, file.fileno())
        library.seccomp_release(filtered)
        file.seek(0)
        return file.read()
