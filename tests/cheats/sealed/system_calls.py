# puzzle: 01_pointwise/swish
# open: reaches into memory through ctypes
# sealed: harmless
# sealed on a GPU: the same
# Doors to the kernel: a user namespace, with all capabilities in it, and a virtual machine's host.
import contextlib
import ctypes
import socket

from honest import swish as honest

library = ctypes.CDLL(None)
NEW_USER_NAMESPACE = 0x10000000
assert library.unshare(NEW_USER_NAMESPACE) == -1
assert library.ptrace(0, 0, 0, 0) == -1
assert library.personality(0x40000) == -1
for family in (socket.AF_VSOCK, socket.AF_NETLINK, socket.AF_PACKET):
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM):
        raise AssertionError(family)


def swish(x):
    return honest(x)
