"""The confinement of a node's processes on their machine: a wall (``workers.walls``), variables, a folder of their own.

Drivers with their Python workers, the connector host and looks compute, or speak to others by, what users wrote. They
reach what they work with, and nothing that is worth stealing. See docs/decisions/0115-a-second-wall.md.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import redis

from workers import walls
from workers.engine.channels.spill import spill_folder
from workers.engine.spark.scratch import SPARES
from workers.engine.worker_settings import ROOT, Settings
from workers.library.files import replay_folders
from workers.library.inbox import inboxes
from workers.processes import python_path
from workers.walls import Wall

from ..agent_logs import logger
from ..node_files.node_store import HOST, LET_GO, TAKEN, TOLD, VOID, NodeStore
from .broker_sync import connect
from .broker_users import CONNECTORS, LOOKS, SLOTS, BrokerUsers
from .supervision import SPARE

# What a process gets of the agent's environment, if it is there: an agent's other variables may be anything.
PASSED = (
    "PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "SPARK_HOME",
    "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "PYTHONPYCACHEPREFIX", "PYTHONUNBUFFERED", "PYTHONWARNINGS",
    "WEIR_CHANNELS_JAR", "WEIR_CLASS_ARCHIVE", "WEIR_CONNECTOR_HOSTS", "WEIR_COPIES", "WEIR_COPIES_MB", "WEIR_COPY_S",
    "WEIR_CONNECTOR_MEMORY_MB", "WEIR_DATABASE_HOSTS", "WEIR_FILE_MB", "WEIR_NODE_LOST_S",
    "WEIR_FILE_S", "WEIR_FILES_KEEP_DAYS", "WEIR_FILES_KEEP_MB", "WEIR_HOLD_S", "WEIR_HTTP_HOSTS", "WEIR_INBOX_DIRS",
    "WEIR_LINK", "WEIR_PIN", "WEIR_PRIVATE_ADDRESSES", "WEIR_PYTHON_PACKAGES", "WEIR_REPLAY_DIRS", "WEIR_SINK_HOSTS",
    "WEIR_SLOT_CORES", "WEIR_SLOT_MEMORY_MB", "WEIR_SLOT_THREADS", "WEIR_SPARES", "WEIR_SPARK_MASTER",
    "WEIR_SPARK_PAGES", "WEIR_SPARK_SOURCES", "WEIR_SPILL_MB", "WEIR_SPILL_TEAM_MB", "WEIR_SUPERVISOR_CYCLE_S",
    "WEIR_TRIGGER_MS", "WEIR_WORKER_CYCLE_S", "WEIR_ZONE")
MORE_VARIABLES, MORE_PATHS = "WEIR_SLOT_ENVIRONMENT", "WEIR_SLOT_READS"  # that an operator adds
SHARED = ("checkpoints", "folds", "outputs", "feeds", "recordings")  # of all slots of a node
FOR_ALL = ("jvm", "replay")  # that every process of the node may read
_WITHIN_S = 120.0
_PROBE = """import os, sys, workers.processes
closed = [path for path in sys.argv[1:] if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0))]
sys.exit(f"closed to it: {', '.join(closed)}" if closed else 0)"""


@dataclass(frozen=True, slots=True)
class Means:
    """The machine's means to build walls: the number of a user for a node's processes, and Landlock."""

    user: int | None = None
    landlock: bool = False

    @property
    def is_there(self) -> bool:
        """True where there are walls around files and memory."""
        return self.user is not None or self.landlock

    def __str__(self) -> str:
        return " and ".join([*([f"user {self.user}"] if self.user is not None else []),
                             *(["Landlock"] if self.landlock else [])]) or "nothing"


class Confinement:
    """Encloses the processes of one node."""

    def __init__(
        self, settings: Settings, users: BrokerUsers, *, environment: Mapping[str, str] | None = None,
    ) -> None:
        self._settings, self.users = settings, users
        self._environment = os.environ if environment is None else environment
        self._node = NodeStore(settings.data_dir, settings.node).folder
        self._mark = sha256(str(self._node.resolve()).encode()).hexdigest()[:12]
        self.means = Means()
        self._spares = itertools.count()

    @classmethod
    def of(cls, settings: Settings, environment: Mapping[str, str] | None = None) -> Confinement:
        """The confinement by an agent with these settings, ready for its processes."""
        store = NodeStore(settings.data_dir, settings.node)
        users = BrokerUsers(connect(settings.redis_url), settings.redis_url, store)
        made = cls(settings, users, environment=environment)
        with suppress(redis.RedisError):  # it is away: users are made when it is back
            users.expect()
        made.prepare()
        return made

    # -- before the first process --------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find out what the machine gives, and hand the folders of the node's processes to who uses them.

        It may be killed at any moment and begins anew the next time; so folders of an earlier version are taken over.
        """
        self.clear()
        node, data_dir = self._node, self._settings.data_dir
        folders = [node / name for name in (TOLD, TAKEN, VOID, LET_GO, HOST, SPARES)]
        for folder in (*self._own_slots(), *folders, *(data_dir / name for name in (*SHARED, "tables")),
                       spill_folder(data_dir, self._settings.node)):
            folder.mkdir(parents=True, exist_ok=True)
        landlock = walls.landlock_version() > 0
        # Executors of a cluster write checkpoints, too, as whoever runs them: these folders must stay everybody's.
        is_root = os.geteuid() == 0
        another = walls.nobody_for(str(data_dir)) if is_root and not self._settings.spark_master else None
        for user in dict.fromkeys((another, None)):
            self.means = Means(user, landlock)
            if is_root:
                self._hand_over(user or 0)
            if self.means.is_there and self._probe_succeeds():
                break
            self.means = Means()
        for missing in self.missing():
            logger().warning("a wall is missing", missing=missing, see='"The second wall" in docs/security.md')
        logger().info("walls around slots, connectors and looks", of=str(self.means))

    def missing(self) -> list[str]:
        """The walls that are missing: ``files``, ``user`` (root's, which could ask other programs), ``broker``."""
        is_root = os.geteuid() == 0 and self.means.user is None
        return [*([] if self.means.is_there else ["files"]), *(["user"] if is_root else []),
                *(["broker"] if self.users.is_refused else [])]

    def _probe_succeeds(self) -> bool:
        """Whether a process gets behind the wall and still finds its interpreter, Weir, and what it is to read."""
        paths = [str(path) for path in (*self._readable(SLOTS), *self._readable(LOOKS)) if path.exists()]
        argv, env = self.enclosed("probe", [sys.executable, "-c", _PROBE, *paths], role=LOOKS)
        try:
            probe = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
            error = (probe.stderr[-1000:] or str(probe.returncode)) if probe.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as refusal:
            error = str(refusal)
        if error:
            logger().warning("no process can work behind this wall", of=str(self.means), error=error)
        return not error

    def _hand_over(self, user: int) -> None:
        """Give the user what its processes write, let it through to that, and close all else to it.

        Root without its rights is such a user, too: what was another's before would be closed to it.
        """
        data_dir = self._settings.data_dir
        spilled = spill_folder(data_dir, self._settings.node).parent
        folders = (self._node, spilled, *(data_dir / name for name in (*SHARED, "tables")))
        for folder in folders:
            _give(folder, user)
        for name in FOR_ALL:
            for path in _tree(data_dir / name):
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
        opened = {path.name for path in folders} | {*FOR_ALL, "nodes"}
        others = (*data_dir.iterdir(), *(path for path in (data_dir / "nodes").iterdir() if path != self._node))
        for path in others:
            if path.name not in opened and not path.is_symlink() and path.stat().st_mode & 0o077:
                path.chmod(path.stat().st_mode & 0o700)
        os.chown(data_dir, -1, user)
        data_dir.chmod(0o710)
        (data_dir / "nodes").chmod(0o711)

    # -- each process --------------------------------------------------------------------------------------------------

    def enclosed(self, name: str, argv: Sequence[str], *, role: str = "") -> tuple[list[str], dict[str, str]]:
        """The command and the variables of a process that is about to start.

        Parameters
        ----------
        name : str
            A slot's index, the spare's name, the connector host's, or that of a look.
        role : str, optional
            The role whose user of the broker it has; a slot's or the connector host's by its name.
        """
        role = role or (CONNECTORS if name == CONNECTORS else SLOTS)
        variables = self._variables(role)
        if not self.means.is_there:
            return list(argv), variables
        temporary = self._temporary(name)
        wall = self._wall(name, role, temporary)
        return wall.command(argv), {**variables, "TMPDIR": str(temporary), "HOME": str(temporary)}

    def enter(self) -> None:
        """Let this thread of the agent's reach, for good, the files that slots reach, and no others.

        Whatever the agent reads, writes or removes by path in folders of slots it does in such a thread: any folder or
        file there may be a link by then.
        """
        if self.means.is_there:
            write = (*self._own_slots(), *(self._settings.data_dir / name for name in SHARED))
            read = self._readable(SLOTS)
            walls.restrict_thread(Wall(
                self.means.user, landlock=self.means.landlock, write=_texts(write), read=_texts(read),
                keep=_texts([*read, ROOT, self._settings.data_dir])))

    def apart(self, do: Callable[[], None]) -> None:
        """Do something in a thread that has entered, and wait for it."""
        with ThreadPoolExecutor(1, initializer=self.enter) as threads:
            threads.submit(do).result()

    def _variables(self, role: str) -> dict[str, str]:
        variables = self._environment
        named = (*PASSED, *filter(None, variables.get(MORE_VARIABLES, "").replace(" ", "").split(",")))
        settings = self._settings
        return {
            **{name: variables[name] for name in named if name in variables},
            "REDIS_URL": self.users.url(role), "WEIR_NODE": settings.node, "WEIR_SLOTS": str(settings.slots),
            "WEIR_DATA_DIR": str(settings.data_dir), "PYTHONPATH": python_path(ROOT)}

    def _wall(self, name: str, role: str, temporary: Path) -> Wall:
        data_dir, node = self._settings.data_dir, self._node
        read, write = self._readable(role), [temporary]
        if role == SLOTS:
            slots = self._own_slots() if name == SPARE else [node / f"slot-{name}"]  # a spare may become any of them
            write += [*slots, *(node / name for name in (TAKEN, VOID, SPARES)), *(data_dir / name for name in SHARED)]
        elif role == CONNECTORS:
            write += [node / HOST, node / LET_GO, data_dir / "checkpoints", data_dir / "tables"]
        return Wall(
            self.means.user, str(temporary), self.means.landlock, write=_texts(write), read=_texts(read),
            list=_texts([ROOT, node]), keep=_texts([*read, ROOT, data_dir, temporary]))

    def _readable(self, role: str) -> list[Path]:
        """What a role may read beside what it writes."""
        data_dir = self._settings.data_dir
        recordings = replay_folders({**self._environment, "WEIR_DATA_DIR": str(data_dir)})
        folders = [self._node / TOLD, spill_folder(data_dir, self._settings.node)] if role == SLOTS \
            else inboxes(self._environment)
        if role == CONNECTORS:
            folders = [*folders, self._node / TOLD, self._node / TAKEN]
        return [ROOT / "workers", ROOT / "scheduler", *self._code(), *(data_dir / name for name in FOR_ALL),
                *recordings, *folders]

    def _code(self) -> list[Path]:
        """Where programs are that are not the system's: Python, Java, Spark, packages; and what an operator adds."""
        variables = self._environment
        named = [variables.get(name, "") for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "WEIR_CHANNELS_JAR")]
        named += [path for path in python_path(ROOT).split(os.pathsep) if Path(path) != ROOT]
        named += variables.get(MORE_PATHS, "").split(os.pathsep)
        if (java := shutil.which("java", path=variables.get("PATH"))) is not None:
            named.append(str(Path(java).resolve().parents[1]))
        return [Path(sys.base_prefix), Path(sys.prefix), *(Path(path).resolve() for path in named if path)]

    def _own_slots(self) -> list[Path]:
        return [self._node / f"slot-{index}" for index in range(self._settings.slots)]

    def _temporary(self, name: str) -> Path:
        """An empty folder for a process's own files and sockets, outside of the data folder: a socket's path is short.
        """
        if name == SPARE:  # it may serve a slot by now
            name = f"{name}-{next(self._spares)}"
        self.clear(name)
        folder = Path(tempfile.gettempdir()) / f"weir-{self._mark}-{name}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:  # somebody else's
            folder = Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
        if self.means.user is not None:
            os.chown(folder, self.means.user, self.means.user)
        return folder

    def clear(self, name: str = "*") -> None:
        """Clear away what a process that has ended had for itself; without a name what all had."""
        for folder in Path(tempfile.gettempdir()).glob(f"weir-{self._mark}-{name}"):
            shutil.rmtree(folder, ignore_errors=True)


def command_of(name: str) -> list[str]:
    """The command that runs a slot, by its index, the spare or the connector host."""
    if name == CONNECTORS:
        return [sys.executable, "-m", "workers.engine.connectors.connector_host"]
    return [sys.executable, "-m", "workers.engine.agents.slot", *(["--spare"] if name == SPARE else ["--slot", name])]


def trusted_environment(settings: Settings) -> dict[str, str]:
    """The variables of a process of the agent's own, which computes nothing that users wrote."""
    return {**os.environ, "REDIS_URL": settings.redis_url, "PYTHONPATH": python_path(ROOT),
            "WEIR_DATA_DIR": str(settings.data_dir)}


def unconfined(settings: Settings, users: BrokerUsers) -> Confinement:
    """Of processes that are a test's own, which must find what the test gives them."""
    return _Unconfined(settings, users)


class _Unconfined(Confinement):
    def prepare(self) -> None:
        """Nothing is prepared."""

    def _variables(self, role: str) -> dict[str, str]:
        return {**self._environment, **super()._variables(role), "REDIS_URL": self._settings.redis_url}


def _tree(folder: Path) -> Iterable[Path]:
    """A folder with all below it, links not followed; empty for a missing folder."""
    if folder.is_dir() and not folder.is_symlink():
        yield folder
        for entry in os.scandir(folder):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _tree(path)
            elif not entry.is_symlink():
                yield path


def _give(folder: Path, user: int) -> None:
    """Give a folder with all below it to a user; not what links lead to.

    By descriptors: a process of an agent before this one may put a link in the place of a folder meanwhile.
    """
    for _, folders, files, within in os.fwalk(folder):
        if os.fstat(within).st_uid != user:
            os.fchown(within, user, user)
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                if os.stat(name, dir_fd=within, follow_symlinks=False).st_uid != user:
                    os.chown(name, user, user, dir_fd=within, follow_symlinks=False)


def _texts(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(str, paths)))
