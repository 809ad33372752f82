"""Child processes that never outlive their parent, whatever kills it.

Every child gets a session of its own (Ctrl-C reaches the parent alone, which then stops things in order) and a
parent-death signal (``prctl(PR_SET_PDEATHSIG)``), so that SIGKILL of the parent takes the child along.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Bound at import: between fork and exec nothing may be loaded.
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def give_back_freed_memory() -> None:
    """Give the system the pages that the C library keeps for later (glibc; others have no such call): some 13 MB after
    the imports of a slot. It takes some milliseconds, and other threads go on."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def python_path(root: Path) -> str:
    """A ``PYTHONPATH`` for a child: Weir's folder, then what this process's own names, as packages that tasks use."""
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join(dict.fromkeys([str(root), *folders]))


def die_with_parent(on_parent_death: int = signal.SIGKILL, *, parent_pid: int | None = None) -> None:
    """Make the kernel send this process a signal when its parent dies; ``exec`` keeps this, ``fork`` does not.

    Call it at a child's start. ``parent_pid`` closes the race of a parent that died before the call: where the
    parent is another process by now, the signal is delivered at once.
    """
    if _prctl(_PR_SET_PDEATHSIG, int(on_parent_death), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if parent_pid is not None and os.getppid() != parent_pid:
        os.kill(os.getpid(), on_parent_death)


def spawn(
    argv: Sequence[str | os.PathLike[str]], *, env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None, stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None, stderr: int | IO[Any] | None = subprocess.STDOUT,
) -> subprocess.Popen[bytes]:
    """Start a child in its own session, which the kernel kills when this process dies.

    Its process group id is its pid, so ``kill_group`` reaches it and what it started in the same session. Callable
    from any thread: the kernel watches the forking *thread*, so one that lives as long as the process does the forking.
    """
    parent_pid = os.getpid()

    def fork() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent_pid=parent_pid),
        )

    if threading.current_thread() is threading.main_thread():
        return fork()
    return _forker().run(fork)


def stop(process: subprocess.Popen[bytes], *, timeout_s: float, sig: int = signal.SIGTERM) -> int:
    """Ask a child of ``spawn`` to end, wait, and kill its process group if it is still there; its exit code."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.send_signal(sig)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
    kill_group(process)
    return process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL a child of ``spawn`` and everything in its process group; nothing left there is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, so that ``descendants`` sees them (Linux subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid: int | None = None) -> list[int]:
    """Pids of the live or defunct children of a process (this one by default), from /proc."""
    return _children_by_parent().get(os.getpid() if pid is None else pid, [])


def descendants(pid: int | None = None) -> list[int]:
    """Pids of every live or defunct descendant of a process (this one by default), nearest first, from /proc."""
    by_parent = _children_by_parent()
    pids: list[int] = []
    front = [os.getpid() if pid is None else pid]
    while front:
        front = [child for parent in front for child in by_parent.get(parent, [])]
        pids.extend(front)
    return pids


def _children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The command's name stands in parentheses and may hold spaces: the parent follows the last one.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    return children


def reap(pid: int) -> bool:
    """Collect an adopted orphan that has ended; True where one was collected."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False


class _Forker:
    """A thread that lives as long as the process and forks on behalf of threads that may not."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._requests: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        # A daemon: joining it at exit would never end, and its death is the process's own.
        threading.Thread(target=self._serve, name="forker", daemon=True).start()

    def _serve(self) -> None:
        while True:
            fork, result = self._requests.get()
            try:
                result.set_result(fork())
            except Exception as error:
                result.set_exception(error)

    def run(self, fork: Callable[[], Any]) -> Any:
        result: Future[Any] = Future()
        self._requests.put((fork, result))
        return result.result()


_lock = threading.Lock()
_the_forker: _Forker | None = None


def _forker() -> _Forker:
    global _the_forker
    with _lock:
        if _the_forker is None or _the_forker.pid != os.getpid():  # a forked child has lost the thread
            _the_forker = _Forker()
        return _the_forker
