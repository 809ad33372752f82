"""Walls around a node's processes: each role, by each means that this machine has, reaches what is its own alone."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from workers import walls
from workers.engine.agents.node_files.atomic_files import write_atomically
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising import confinement
from workers.engine.agents.supervising.broker_users import CONNECTORS, LOOKS, SLOTS, BrokerUsers
from workers.engine.agents.supervising.confinement import MORE_PATHS, MORE_VARIABLES, PASSED, Confinement, Means
from workers.engine.agents.supervising.supervision import SPARE
from workers.engine.agents.supervising.trial_runner import _remove_files
from workers.engine.files import disk
from workers.engine.files.closing import FileLimits
from workers.engine.files.folder import META
from workers.engine.files.keeper import FileKeeper
from workers.engine.files.retention import Retention
from workers.engine.worker_settings import ROOT, Settings

LOOT = "what-nobody-may-have"
TRY = """
import json, os, sys
def tried(path, mode):
    try:
        open(path, mode).close()
        return True
    except OSError:
        return False
paths = json.loads(sys.argv[1])
print(json.dumps({
    "read": [path for path in paths if tried(path, "r")], "write": [path for path in paths if tried(path, "a")],
    "environment": dict(os.environ), "user": os.getuid(),
    "agent": tried(f"/proc/{os.getppid()}/environ", "r")}))
"""
NODE = "nodes/n1"
FILES = (
    "weir.sqlite3", "secret_key", "broker/url", "logs/web.log", "nodes/n2/told/desired.json",
    f"{NODE}/told/desired.json", f"{NODE}/slot-0/f1-0.json", f"{NODE}/slot-1/f2-0.json", f"{NODE}/taken/f3-0",
    f"{NODE}/connectors/sinks.json", f"{NODE}/let-go/f4-0",
    "checkpoints/f1-0.json", "outputs/a/part-0", "recordings/a.arrow", "replay/recording.csv", "jvm/channels.jar",
    "tables/t/log", "spill/n1/c/0", "anything")
SHARED = {"checkpoints/f1-0.json", "outputs/a/part-0", "recordings/a.arrow"}
FOR_ALL = {"replay/recording.csv", "jvm/channels.jar"}
OF_SLOT = {f"{NODE}/slot-0/f1-0.json", f"{NODE}/taken/f3-0", *SHARED}
OF_NODE = {name for name in FILES if name.startswith(f"{NODE}/")}
# By process: its role, what it may write, and what it may read beside that.
REACH = {
    "0": (SLOTS, OF_SLOT, {f"{NODE}/told/desired.json", "spill/n1/c/0", *FOR_ALL}),
    SPARE: (SLOTS, {*OF_SLOT, f"{NODE}/slot-1/f2-0.json"}, {f"{NODE}/told/desired.json", "spill/n1/c/0", *FOR_ALL}),
    CONNECTORS: (
        CONNECTORS, {f"{NODE}/connectors/sinks.json", f"{NODE}/let-go/f4-0", "checkpoints/f1-0.json", "tables/t/log"},
        {f"{NODE}/told/desired.json", f"{NODE}/taken/f3-0", *FOR_ALL}),
    "look-1": (LOOKS, set(), FOR_ALL)}
# Without Landlock the node's processes are one user, and share what is the node's.
AS_ONE = {*OF_NODE, *SHARED, "tables/t/log", "spill/n1/c/0"}


def means() -> list[object]:
    landlock, root = walls.landlock_version() > 0, os.geteuid() == 0
    return [
        pytest.param(*row, id=name, marks=() if may else pytest.mark.skip("needs root, or a kernel with Landlock"))
        for name, may, row in (
            ("user and Landlock", root and landlock, (True, True)), ("user", root, (True, False)),
            ("Landlock", landlock, (False, True)))]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A folder as an earlier version left it: all of one user, much of it readable by every one."""
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LOOT)
    (tmp_path / f"{NODE}/desired.json").write_text("{}")
    return tmp_path


class Users(BrokerUsers):
    """No broker is asked."""

    def __init__(self, store: NodeStore) -> None:
        super().__init__(None, "redis://:agent@127.0.0.1:1/0", store)  # type: ignore[arg-type]


@pytest.fixture
def enclosing(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Confinement]:
    def made(user: bool, landlock: bool, **environment: str) -> Confinement:
        if not landlock:
            monkeypatch.setattr(walls, "landlock_version", lambda: 0)
        if not user:
            monkeypatch.setattr(confinement.os, "geteuid", lambda: 1)
        settings = Settings(data_dir=data_dir)
        confined = Confinement(settings, Users(NodeStore(data_dir, "n1")), environment={
            "PATH": os.environ["PATH"], "DATABASE_URL": LOOT, "WEIR_SECRETS_KEY": LOOT, "TOKEN": LOOT, **environment})
        confined.prepare()
        assert (confined.means.user is not None, confined.means.landlock) == (user, landlock)
        return confined

    return made


def tried(confined: Confinement, name: str, role: str, paths: Sequence[Path]) -> dict:
    argv, env = confined.enclosed(name, [sys.executable, "-c", TRY, json.dumps(list(map(str, paths)))], role=role)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("user", "landlock"), means())
@pytest.mark.parametrize("name", REACH)
def test_a_process_reaches_what_is_its_own_and_nothing_else(enclosing, data_dir, name, user, landlock):
    role, writes, reads = REACH[name]
    confined = enclosing(user, landlock)
    reached = tried(confined, name, role, [data_dir / path for path in FILES])
    names = {what: {str(Path(path).relative_to(data_dir)) for path in reached[what]} for what in ("read", "write")}
    assert tried(confined, name, role, [Path("/etc/shadow")])["read"] == []
    more = set() if landlock else AS_ONE
    assert names["write"] == writes | more and names["read"] == writes | reads | more
    assert LOOT not in str(reached["environment"])
    assert reached["environment"]["REDIS_URL"] != confined._settings.redis_url
    assert not reached["agent"] and (reached["user"] != os.getuid()) is user
    assert confined.missing() == []


def test_what_a_connector_host_kept_before_is_where_it_writes_now(tmp_path: Path) -> None:
    store, outside = NodeStore(tmp_path, "n1"), tmp_path / "outside"
    for folder in (store.folder / "connectors-spark", outside):
        folder.mkdir(parents=True)
    (store.folder / "sinks.json").write_text("lives")
    store.host_folder.symlink_to(outside)  # it could write there then
    for _ in range(2):
        store.take_over()
    assert (store.host_folder / "sinks.json").read_text() == "lives" and list(outside.iterdir()) == []
    assert [path.name for path in store.folder.iterdir()] == ["connectors"]


@pytest.mark.parametrize("written", [
    write_atomically, disk.replace_text, lambda path, text: disk.write(path, lambda file: file.write(text.encode()))])
def test_what_is_written_where_others_write_follows_no_link(written, tmp_path):
    outside, path = tmp_path / "outside", tmp_path / "state.json"
    outside.write_text(LOOT)
    for name in (path.name, f".{path.name}.{os.getpid()}"):
        path.with_name(name).symlink_to(outside)
    written(path, "{}")
    assert path.read_text() == "{}" and not path.is_symlink() and outside.read_text() == LOOT


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given to another user, which only root may do")
def test_an_owner_is_given_no_file_that_a_link_leads_to(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    folder.mkdir()
    os.chown(folder, 12_345, 12_345)
    outside.write_text(LOOT)
    (folder / "file").symlink_to(outside)
    disk.give_to_owner_of(folder, folder / "file")
    assert outside.stat().st_uid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given to another user, which only root may do")
def test_nothing_is_given_away_where_a_process_puts_a_link_meanwhile(enclosing, data_dir, tmp_path, monkeypatch):
    """A process that broke out lives on while another agent starts, and moves folders under its hands."""
    outside = tmp_path / "of-root"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "file").write_text(LOOT)
    (data_dir / "checkpoints" / "f1" / "deep").mkdir(parents=True)
    (data_dir / "checkpoints" / "f1" / "deep" / "file").write_text("")
    (data_dir / "outputs" / "link").symlink_to(outside)
    change = os.chown

    def chown(path, *given, **options):
        if Path(path).name in ("deep", "file") and not (data_dir / "checkpoints" / "f1").is_symlink():
            (data_dir / "checkpoints" / "f1").rename(data_dir / "moved")
            (data_dir / "checkpoints" / "f1").symlink_to(outside)
        change(path, *given, **options)

    monkeypatch.setattr(confinement.os, "chown", chown)
    enclosing(True, walls.landlock_version() > 0)
    assert (data_dir / "checkpoints" / "f1").is_symlink()
    assert {path.stat().st_uid for path in (outside, outside / "deep", outside / "deep" / "file")} == {0}


@pytest.mark.parametrize(("user", "landlock"), means())
def test_what_the_agent_does_where_slots_write_reaches_what_slots_reach(enclosing, data_dir, user, landlock):
    """A slot asks the agent, by links, for the site's key, for a file in its place, and for another's folder to go."""
    confined = enclosing(user, landlock)
    inside, outside = data_dir / "outputs", data_dir / "broker"
    owner = inside.stat()

    def by_slot() -> None:
        for query, staged in (("reads", ""), ("writes", "{}\n"), ("honest", '{"x": 1}\n')):
            meta = inside / "team" / query / META
            (meta / "x").mkdir(parents=True)
            (meta / "0-000000000001.staged").write_text(staged)
        reads, writes = inside / "team" / "reads" / META, inside / "team" / "writes"
        (reads / "0-000000000001.staged").unlink()
        (reads / "0-000000000001.staged").symlink_to(data_dir / "secret_key")
        (reads / "x" / "0-000000000001.staged").symlink_to(data_dir / "secret_key")
        (inside / "deep").mkdir()
        (inside / "deep" / META).symlink_to(data_dir / "logs")
        (writes / META / "x" / "url.closing").write_text("forged")
        (writes / "x").symlink_to(outside)
        (writes / META / "state.json").write_text(json.dumps({"file": "x/url", "runs": 1}))
        (inside / "team" / "link").symlink_to(data_dir)
        for path in (inside / "team").rglob("*") if os.geteuid() == 0 else ():
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)

    by_slot()
    (data_dir / "logs" / "0-000000000001.staged").write_text(LOOT)
    reports: list[object] = []
    keeper = FileKeeper(inside, FileLimits(file_s=0.0), Retention(), report=lambda *_, **facts: reports.append(facts))
    confined.apart(lambda: keeper.turn(now_s=2e9))
    confined.apart(lambda: _remove_files(inside / "team" / "link", ["nodes"]))
    closed = [path for path in inside.rglob("events-*") if not path.is_symlink()]
    assert [path.read_text() for path in closed if "honest" in str(path)] == ['{"x": 1}\n']
    assert LOOT not in "".join(path.read_text() for path in closed)
    assert (outside / "url").read_text() == LOOT and (data_dir / "logs" / "0-000000000001.staged").exists()
    assert all((data_dir / name).exists() for name in FILES) and len(reports) >= 2
    assert (data_dir / "secret_key").read_text() == LOOT, "this thread reaches what it did"


@pytest.mark.parametrize(("user", "landlock"), means())
def test_what_was_cut_short_is_done_the_next_time(enclosing, data_dir, user, landlock):
    enclosing(user, landlock)
    (data_dir / "checkpoints" / "f5-0.json").write_text("")  # an earlier version ran here again, as root
    (data_dir / "weir.sqlite3").chmod(0o644)
    confined = enclosing(user, landlock)
    reached = tried(confined, "0", SLOTS, [data_dir / "checkpoints" / "f5-0.json", data_dir / "weir.sqlite3"])
    assert reached["write"] == reached["read"] == [str(data_dir / "checkpoints" / "f5-0.json")]
    if user:
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o710


@pytest.mark.parametrize(("user", "landlock"), means())
def test_an_operator_adds_variables_and_paths(enclosing, tmp_path_factory, user, landlock):
    folder = tmp_path_factory.mktemp("more")
    folder.chmod(0o755)
    (folder / "key").write_text("")
    confined = enclosing(user, landlock, **{MORE_VARIABLES: "TOKEN", MORE_PATHS: str(folder)})
    reached = tried(confined, "0", SLOTS, [folder / "key"])
    assert reached["environment"]["TOKEN"] == LOOT and "DATABASE_URL" not in reached["environment"]
    assert reached["read"] == [str(folder / "key")]


@pytest.mark.parametrize(("user", "landlock"), means())
def test_bytecode_that_is_kept_beside_the_environment_serves_there_too(enclosing, user, landlock):
    """Else each process compiles all that it imports: a slot two seconds long, which a driver's start waits for."""
    confined = enclosing(user, landlock, PYTHONPYCACHEPREFIX=f"{sys.prefix}/bytecode")
    argv, env = confined.enclosed("0", [sys.executable, "-c", "import sys; print(sys.pycache_prefix)"], role=SLOTS)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{sys.prefix}/bytecode"


def test_without_means_that_is_said(enclosing, data_dir, monkeypatch):
    monkeypatch.setattr(walls, "landlock_version", lambda: 0)
    confined = enclosing(False, False)
    assert confined.means == Means() and confined.missing() == ["files"]
    assert LOOT not in str(confined.enclosed("0", ["true"])[1]), "the environment is walled off all the same"


def test_every_setting_of_engine_and_library_reaches_them():
    """A new one is passed on, or is a secret, or the agent's."""
    read = set()
    for folder in ("engine", "library"):
        for path in (ROOT / "workers" / folder).rglob("*.py"):
            read |= set(re.findall(r"\"(WEIR_[A-Z_]+)\"", path.read_text()))
    given = {"WEIR_DATA_DIR", "WEIR_NODE", "WEIR_SLOTS"}
    assert read - set(PASSED) - given == {"WEIR_SECRETS_KEY", MORE_VARIABLES, MORE_PATHS}
    assert not [name for name in PASSED if name.startswith("WEIR_") and name not in read]
