"""Walls around processes that compute what users wrote: a user of their own, and Landlock, the kernel's own list of
paths that a process may reach.

    python -I -S workers/walls.py '<wall as JSON>' <command> …      (runs the command behind the wall)

As a module it makes that command. As a program it gives up its own rights and becomes the command, in the same process.
It imports the standard library alone, because it starts before each driver.

Where this process is root, the command gets another user id. Folders that root closed to others and that lie above
what the command needs (an interpreter in root's home) are replaced, in a mount namespace of the command's own, by
empty ones with a way to these alone. Landlock is there from Linux 5.19 on where it is not switched off; a process
behind it reaches the paths that it was given, and neither signals nor reads the memory of processes that are not.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

# <linux/landlock.h>, <sys/prctl.h>, <sys/mount.h>, <sched.h>, <linux/securebits.h>
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL = (1 << 15) - 1  # of files and folders, up to TRUNCATE
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_LEAST = 2  # before that no file could be moved from one folder to another
_SCOPES = 3  # abstract sockets, signals
_SET_PDEATHSIG, _SET_SECUREBITS, _SET_NO_NEW_PRIVS = 1, 28, 38
_NO_ROOT = 0b101111  # user 0 is nobody special from the next exec on, for good
_NEW_MOUNTS, _PRIVATE, _BIND, _REC = 0x00020000, 1 << 18, 1 << 12, 1 << 14
_NO_SUID_NO_DEV = 0b110

# Everybody's: programs, libraries, their settings, what the kernel tells.
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc", "/sys", "/run/systemd/resolve",
    "/var/lib/ca-certificates",
    *(f"/etc/{name}" for name in (
        "alternatives", "ca-certificates", "crypto-policies", "gai.conf", "group", "host.conf", "hostname", "hosts",
        "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "machine-id", "mime.types",
        "nsswitch.conf", "os-release", "passwd", "pki/ca-trust", "pki/java", "pki/tls/certs", "protocols",
        "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf", "timezone")),
    *(f"/etc/{name}" for name in os.listdir("/etc") if name.startswith("java")))
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PASSWD = "/etc/passwd"
NOBODY = 61_184  # user ids from here on are nobody's on any machine: systemd hands them out for a process's life
NOBODIES = 4_096


class NoWall(OSError):
    """The kernel does not give what a wall is made of."""


class Wall(NamedTuple):
    """The access of a command beyond what every program has (``SYSTEM``). Paths are absolute.

    ``user`` is the number of the user and group that it runs as; None leaves it as it is. It gets a name, with ``home``
    as its home, for Java does not start without. ``keep`` are the paths that have to be reachable for that user,
    whatever folders above them are closed. With ``landlock`` nothing but ``write``,
    ``read`` and, names alone, ``list`` is.
    """

    user: int | None = None
    home: str = ""
    landlock: bool = False
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command behind this wall."""
        return [sys.executable, "-I", "-S", os.path.realpath(__file__), json.dumps(self._asdict()), *argv]


def landlock_version() -> int:
    """Of the kernel's Landlock; 0 where there is none that serves."""
    if sys.platform != "linux":
        return 0
    version = _libc().syscall(_CREATE_RULESET, None, 0, _VERSION)
    return version if version >= _LEAST else 0


def nobody_for(name: str) -> int:
    """The number of a user that owns nothing on this machine but what it is given: always the same for a name."""
    from hashlib import sha256

    return NOBODY + int.from_bytes(sha256(name.encode()).digest()[:4]) % NOBODIES


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(call: str, result: int) -> int:
    if result < 0:
        raise NoWall(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")
    return result


# -- a way through closed folders --------------------------------------------------------------------------------------


def closed_above(path: str, user: int) -> str | None:
    """The first folder above a path that the user may not pass, where it is no owner; None where it may pass all."""
    parts = path.split("/")[1:]
    for length in range(len(parts)):
        folder = "/" + "/".join(parts[:length])
        try:
            status = os.stat(folder)
        except OSError:
            return None
        passes = stat.S_IXUSR if status.st_uid == user else stat.S_IXGRP if status.st_gid == user else stat.S_IXOTH
        if not status.st_mode & passes:
            return folder
    return None


def _open_ways(paths: Iterable[str], user: int, home: str) -> None:
    """Let the user pass to these paths, and with a home have a name, in a mount namespace of this thread's own."""
    paths_below: dict[str, list[str]] = {}
    for path in _outermost(path for path in paths if os.path.exists(path)):
        if (closed := closed_above(path, user)) is not None:
            paths_below.setdefault(closed, []).append(path)
    libc = _libc()
    _call("unshare", libc.unshare(_NEW_MOUNTS))
    _call("mount", libc.mount(None, b"/", None, _REC | _PRIVATE, None))
    opened = {path: os.open(path, os.O_PATH) for below in paths_below.values() for path in below}
    for closed, below in paths_below.items():
        _call("mount", libc.mount(b"tmpfs", closed.encode(), b"tmpfs", _NO_SUID_NO_DEV, b"mode=0755,size=1m"))
        for path in below:
            if os.path.isdir(f"/proc/self/fd/{opened[path]}"):
                os.makedirs(path, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            source = f"/proc/self/fd/{opened[path]}".encode()
            _call("mount", libc.mount(source, path.encode(), None, _BIND | _REC, None))
    for descriptor in opened.values():
        os.close(descriptor)
    if home:
        names = os.path.join(home, "passwd")
        with open(PASSWD) as names_before, open(names, "x") as file:
            file.write(f"{names_before.read().rstrip()}\nweir:x:{user}:{user}::{home}:/usr/sbin/nologin\n")
        _call("mount", libc.mount(names.encode(), PASSWD.encode(), None, _BIND, None))
    try:
        os.chdir(os.getcwd())  # else the way up from here would go on through the folders as they were
    except OSError:
        os.chdir("/")


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    last = None
    for path in sorted(set(map(os.path.realpath, paths)), key=lambda path: path.split("/")):
        if last is None or not f"{path}/".startswith(f"{last}/"):
            last = path
            yield path


# -- Landlock ----------------------------------------------------------------------------------------------------------


def _ruleset(wall: Wall) -> int:
    libc, version = _libc(), landlock_version()
    if not version:
        raise NoWall("this kernel has no Landlock")
    handled = _ALL if version >= 3 else _ALL & ~_TRUNCATE
    attributes = (ctypes.c_uint64 * 3)(handled, 0, _SCOPES)
    size = 24 if version >= 6 else 8
    ruleset = _call("landlock", libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0))
    for paths, rights in (
        ((*SYSTEM, *wall.read), _READ_FILE | _READ_DIR | _EXECUTE), (DEVICES, _READ_FILE | _WRITE_FILE),
        (wall.list, _READ_DIR), (wall.write, _ALL),
    ):
        for path in paths:
            _allow(libc, ruleset, path, rights & handled)
    return ruleset


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there, nobody reaches
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = ctypes.create_string_buffer(
            rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder), 12)
        _call("landlock", libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(descriptor)


# -- the program -------------------------------------------------------------------------------------------------------


def restrict(wall: Wall) -> None:
    """Take away from this process, for good, what the wall takes away.

    Raises
    ------
    NoWall
        The kernel refuses a part of it: nothing may run then.
    """
    libc, parent = _libc(), os.getppid()
    if wall.user is not None:
        _open_ways(wall.keep, wall.user, wall.home)
    ruleset = _ruleset(wall) if wall.landlock else None  # paths are looked up while this user may
    if wall.user is not None:
        os.setgroups([])
        os.setresgid(wall.user, wall.user, wall.user)
        os.setresuid(wall.user, wall.user, wall.user)
    elif os.geteuid() == 0:
        _call("prctl", libc.prctl(_SET_SECUREBITS, _NO_ROOT, 0, 0, 0))
    _call("prctl", libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if ruleset is not None:
        _call("landlock", libc.syscall(_RESTRICT_SELF, ruleset, 0))
        os.close(ruleset)
    # Another user makes the kernel forget what becomes of this process when its parent dies.
    _call("prctl", libc.prctl(_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def restrict_thread(wall: Wall) -> None:
    """Take away from this thread, for good, what the wall takes away of files; other threads keep theirs.

    For what a process does itself where hostile ones write: whatever links they put there, it reaches no more than they
    do. Landlock is enough; without it the thread has the wall's user for files.

    Raises
    ------
    NoWall
        The kernel refuses a part of it: the thread must end then.
    """
    libc = _libc()
    if wall.landlock:
        ruleset = _ruleset(wall)
        _call("prctl", libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _call("landlock", libc.syscall(_RESTRICT_SELF, ruleset, 0))
        os.close(ruleset)
    elif wall.user is not None:
        _open_ways(wall.keep, wall.user, "")
        os.setgroups([])  # of the whole process: root needs none
        # Of the thread alone, and root's rights over others' files go with it (capabilities(7)).
        for change in (libc.setfsgid, libc.setfsuid):
            change(wall.user)
            if change(-1) != wall.user:
                raise NoWall("the kernel gives this thread no user of its own")


def main() -> None:
    """Restrict this process and become the command."""
    wall = json.loads(sys.argv[1])
    restrict(Wall(**wall))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
