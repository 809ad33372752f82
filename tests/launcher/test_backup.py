"""Back-ups: what goes in comes out, whatever happens meanwhile; what may not be restored is refused, and says why."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
import threading
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import redis
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.postgresql import cluster
from workers.launcher import state_folder
from workers.launcher.backup import backup_cli, backup_layout, broker_keys, held_database, serving, taking, zip_archive
from workers.launcher.backup.linking import LinkedFiles
from workers.launcher.backup.progress_line import ProgressLine
from workers.library.state_store import StoreLocation, read_whole

STATE = Path(__file__).parent / "state_af0fdcb.tar.xz"


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDIS_URL", "DATABASE_URL", "WEIR_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a system that has ended."""
    folder = tmp_path_factory.mktemp("stopped") / "data"
    with tarfile.open(STATE) as packed:
        packed.extractall(folder, filter="data")
    folder.chmod(0o700)
    (folder / "secrets_key").write_text("the key of secrets")
    return folder


@pytest.fixture(scope="module")
def made(stopped: Path) -> Path:
    """A back-up of it, with its keys."""
    path = stopped.parent / "weir.backup"
    words = stopped.parent / "passphrase"
    words.write_text("many words, and long ones\n")
    assert backup_cli.main(["backup", str(path), "--data-dir", str(stopped), "--passphrase-file", str(words)]) == 0
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """What a back-up carries as it is, by path."""
    names = [*backup_layout.STREAMING, *backup_layout.BEHIND_DATABASE, *backup_layout.SECRET]
    files = [path for name in names for path in backup_layout.files_below(folder / name)]
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in files
        if path.name not in ("owner", "base_mb", "base_cpu")}


def values(folder: Path) -> dict[bytes, object]:
    """What the broker has under its keys."""
    with serving.started(folder) as url, redis.Redis.from_url(url) as client:
        read = {
            b"string": client.get, b"hash": client.hgetall, b"set": client.smembers,
            b"list": lambda key: client.lrange(key, 0, -1),
            b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
            b"stream": lambda key: (client.xinfo_stream(key)["last-generated-id"], client.xrange(key))}
        return {key: (client.ttl(key) > 0, read[client.type(key)](key)) for key in client.scan_iter("weir:*")}


def rows(folder: Path) -> dict[str, list[tuple]]:
    with closing(sqlite3.connect(folder / "weir.sqlite3")) as connection:
        tables = [name for [name] in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}


@pytest.mark.broker
def test_what_is_restored_is_what_was_backed_up(stopped, made, tmp_path, capsys):
    target, words = tmp_path / "new", stopped.parent / "passphrase"
    assert backup_cli.main(["restore", str(made), "--data-dir", str(target), "--passphrase-file", str(words)]) == 0
    assert contents(target) == contents(stopped)
    assert values(target) == values(stopped)
    assert {**rows(target), "django_session": []} == {**rows(stopped), "django_session": []}
    assert rows(target)["django_session"] == []
    assert target.stat().st_mode & 0o777 == 0o700 and made.stat().st_mode & 0o777 == 0o600
    ages = {path: path.stat().st_mtime_ns for path in (stopped / "checkpoints").rglob("*.changelog")}
    assert {(target / path.relative_to(stopped)).stat().st_mtime_ns for path in ages} == set(ages.values())
    assert not list(stopped.glob(".backup-*")), "nothing is left behind"


@pytest.mark.broker
def test_keys_are_restored_with_their_passphrase_alone(stopped, made, tmp_path, capsys):
    with zipfile.ZipFile(made) as packed:
        assert all(b"the key of secrets" not in packed.read(name) for name in packed.namelist())
    (tmp_path / "other").write_text("another passphrase")
    arguments = ["restore", str(made), "--data-dir", str(tmp_path / "new")]
    assert backup_cli.main([*arguments, "--passphrase-file", str(tmp_path / "other")]) == 1
    assert "passphrase is not the one" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [tmp_path / "other"], "nothing is half made"
    assert backup_cli.main(arguments) == 0
    assert "secrets_key" in capsys.readouterr().out
    assert not {name for name in backup_layout.SECRET if (tmp_path / "new" / name).exists()}


@pytest.mark.parametrize(("why", "words"), [
    ("damaged", "damaged: broker.keys is not as it was written"), ("short", "was cut short"),
    ("manifest", "damaged: manifest.json"), ("newer", "newer version"), ("newer database", "newer version"),
    ("not empty", "is not empty"), ("in use", "in use"), ("missing", "There is no file")])
def test_what_may_not_be_restored_is_refused_in_a_line(why, words, made, tmp_path, capsys):
    target, path = tmp_path / "data", tmp_path / "copy"
    path.write_bytes(made.read_bytes())
    held = None
    if why == "damaged":
        _altered(path, "broker.keys", lambda content: content[:-1] + bytes([content[-1] ^ 1]))
    elif why == "short":
        path.write_bytes(made.read_bytes()[:-2000])
    elif why == "manifest":
        _altered(path, zip_archive.MANIFEST, lambda content: content.replace(b'"nodes"', b'"Nodes"'))
    elif why == "newer":
        _rewritten(path, format=zip_archive.FORMAT + 1, weir="9.0")
    elif why == "newer database":
        _rewritten(path, migrations={"catalog": ["0001_initial", "9999_later"]})
    elif why == "not empty":
        target.mkdir()
        (target / "something").touch()
    elif why == "in use":
        held = state_folder.lock(target)
    else:
        path.unlink()
    before = sorted(tmp_path.rglob("*"))
    assert backup_cli.main(["restore", str(path), "--data-dir", str(target)]) == 1
    output = capsys.readouterr().out
    assert words in output and len(output.splitlines()) == 1
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "lock") == [
        path for path in before if path.name != "lock"]
    if held:
        held.close()


def _altered(path: Path, name: str, change) -> None:
    """The archive with another content of one file, as one that was tampered with."""
    with zipfile.ZipFile(path) as old:
        files, comment = {member: old.read(member) for member in old.namelist()}, old.comment
    files[name] = change(files[name])
    with zipfile.ZipFile(path, "w") as new:
        for member, content in files.items():
            new.writestr(member, content)
        new.comment = comment


def _rewritten(path: Path, **facts) -> None:
    """The archive as another version would have written it."""
    manifest = zip_archive.read_manifest(path)
    with zipfile.ZipFile(path) as old:
        folder = path.parent / "unpacked"
        old.extractall(folder)
    sources = {name: (folder / name, entry.size) for name, entry in manifest.files.items()}
    zip_archive.write(path, replace(manifest, **facts), sources, progress=lambda *_: None)


def test_a_dry_run_lists_and_changes_nothing(made, tmp_path, capsys):
    assert backup_cli.main(["restore", str(made), "--data-dir", str(tmp_path / "new"), "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "checkpoints and states of queries" in output and "is whole and may go to" in output
    assert list(tmp_path.iterdir()) == []


def test_a_back_up_that_cannot_be_made_says_why(stopped, tmp_path, capsys):
    assert backup_cli.main(["backup", str(tmp_path / "b"), "--data-dir", str(tmp_path / "none")]) == 1
    (tmp_path / "empty").mkdir()
    assert backup_cli.main(["backup", str(tmp_path / "b"), "--data-dir", str(tmp_path / "empty")]) == 1
    assert list((tmp_path / "empty").iterdir()) == [], "a folder that is not Weir's is left alone"
    (tmp_path / "b").touch()
    assert backup_cli.main(["backup", str(tmp_path / "b"), "--data-dir", str(stopped)]) == 1
    output = capsys.readouterr().out.splitlines()
    assert ["no data folder" in output[0], "no database" in output[1], "--replace" in output[2]] == [True] * 3


def test_whoever_writes_waits_until_a_pause_is_over(broker: redis.Redis):
    written = threading.Event()

    def write() -> None:
        broker.set("weir:something", 1)
        written.set()

    with broker_keys.paused(broker, limit_s=20.0):
        threading.Thread(target=write, daemon=True).start()
        assert not written.wait(0.3) and broker.get("weir:something") is None
    assert written.wait(60)
    with pytest.raises(broker_keys.TookTooLong), broker_keys.paused(broker, limit_s=0.1):
        threading.Event().wait(0.12)


class PlayedQuery:
    """A query and the agent that closes its files, which go on while their files are copied: one change of the disk at
    a time, in the order in which the engine makes them."""

    def __init__(self, data_dir: Path) -> None:
        self.checkpoint = data_dir / "checkpoints" / "f1-0"
        self.sink = data_dir / "outputs" / "lines-1" / "f1-0"
        for folder in ("commits", "offsets", "state"):
            (self.checkpoint / folder).mkdir(parents=True)
        (self.sink / ".weir").mkdir(parents=True)
        (data_dir / "checkpoints" / "f1-0.json").touch()
        self._steps = self._play()

    def step(self) -> None:
        next(self._steps)

    def _play(self):
        batch, closed = 0, -1
        while True:
            for what, folder in (("offsets", self.checkpoint), ("state", self.checkpoint)):
                (folder / what / str(batch)).touch()
                yield
            (self.sink / ".weir" / f"{batch}.staged").touch()
            yield
            (self.checkpoint / "commits" / str(batch)).touch()
            yield
            if batch % 3 == 2:
                yield from self._close(range(closed + 1, batch + 1))
                closed = batch
            for what in ("offsets", "state", "commits"):  # Spark keeps so many batches
                (self.checkpoint / what / str(batch - 8)).unlink(missing_ok=True)
                yield
            batch += 1

    def _close(self, batches: range):
        with (self.sink / ".weir" / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            # Within the lock: whoever copies waits for all of this.
            (self.sink / f"events-{batches[0]}-{batches[-1]}.json").touch()
            for batch in batches:
                (self.sink / ".weir" / f"{batch}.staged").unlink(missing_ok=True)
        yield


@settings(max_examples=60, deadline=None)
@given(before=st.integers(0, 60), pace=st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_of_a_batch_that_is_done_everything_is_held_whatever_happens_meanwhile(before, pace, tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("played")
    query = PlayedQuery(data_dir)
    for _ in range(before):
        query.step()
    steps = iter(pace)

    class Watched(LinkedFiles):
        def take(self, paths, **more):
            def meanwhile():
                for path in paths:
                    for _ in range(next(steps, 0)):
                        query.step()
                    yield path
            super().take(meanwhile(), **more)

    copy = Watched(data_dir, tmp_path_factory.mktemp("held"))
    assume(taking.hold(copy))  # else it is done again
    names = [Path(name) for name in copy.sizes]
    done = {int(path.name) for path in names if path.parent.name == "commits"}
    planned = {int(path.name) for path in names if path.parent.name == "offsets"}
    states = {int(path.name) for path in names if path.parent.name == "state"}
    if not done:
        return
    assert max(done) in states and max(done) in planned
    staged = {int(path.stem) for path in names if path.suffix == ".staged"}
    files = [path.stem.split("-") for path in names if path.name.startswith("events-")]
    closed = [range(int(first), int(last)) for _, first, last in files]
    written = [number for part in closed for number in (*part, part.stop)] + sorted(staged)
    assert len(written) == len(set(written)), "each batch once"
    assert set(range(max(done) + 1)) <= set(written), "and none left out"


def test_records_that_change_meanwhile_are_no_moment(tmp_path):
    PlayedQuery(tmp_path / "data")

    class Changed(LinkedFiles):
        def take(self, paths, **more):
            super().take(paths, **more)
            (self.data_dir / "checkpoints" / "f2-0.begun").touch()

    assert not taking.hold(Changed(tmp_path / "data", tmp_path / "held"))


def test_what_is_appended_after_the_moment_stays_out(tmp_path):
    (tmp_path / "data" / "spill").mkdir(parents=True)
    segment = tmp_path / "data" / "spill" / "1.blocks"
    segment.write_bytes(b"then")
    copy = LinkedFiles(tmp_path / "data", tmp_path / "held")
    copy.take([segment])
    with segment.open("ab") as file:
        file.write(b" and now")
    manifest = zip_archive.Manifest("1", "now", "sqlite", (), 0, 0, 0, {})
    name = "spill/1.blocks"
    zip_archive.write(
        tmp_path / "b", manifest, {name: (copy.folder / name, copy.sizes[name])}, progress=lambda *_: None)
    assert zipfile.ZipFile(tmp_path / "b").read("spill/1.blocks") == b"then"


def test_state_by_key_is_held_with_the_versions_before_the_newest(tmp_path):
    """A query goes on meanwhile: what its checkpoint says is in the copy, and may be gone on with."""
    location = StoreLocation(str(tmp_path / "data" / "folds"), "f1-0.t-0")
    pointer = location.create({"a": 1}, {})
    newest = pointer
    for value in range(2, 6):
        batch = location.begin(newest)
        batch.write(("a", "", ""), str(value), due=None, before=batch.read("a"))
        newest = batch.commit()
    copy = LinkedFiles(tmp_path / "data", tmp_path / "held")
    assert taking.hold(copy) and list(copy.sizes) == [f"folds/{pointer.store}"]
    location.begin(newest).roll_back()
    assert [read_whole(tmp_path / "held" / "folds", version) for version in (pointer, newest)] == ['{"a":1}', '{"a":5}']


def test_an_sqlite_copy_is_of_the_moment_at_which_it_was_begun(tmp_path):
    with closing(sqlite3.connect(tmp_path / "weir.sqlite3", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (n)")
        writer.execute("INSERT INTO t VALUES (1)")
        with held_database.read("", tmp_path) as reading:
            writer.execute("INSERT INTO t VALUES (2)")
            (tmp_path / "copy").mkdir()
            reading.copy(tmp_path / "copy", progress=lambda _: None)
    with closing(sqlite3.connect(tmp_path / "copy" / "weir.sqlite3")) as copied:
        assert copied.execute("SELECT n FROM t").fetchall() == [(1,)]


def test_every_folder_that_operations_names_is_copied_or_known_to_be_made_again():
    text = (state_folder.ROOT / "docs" / "operations.md").read_text().split("## The state folder")[1].split("\n\n")[1]
    names = {part.strip("`/ ") for line in text.splitlines()[2:] for part in line.split("|")[1].split(",")}
    assert names <= {
        *backup_layout.STREAMING, *backup_layout.BEHIND_DATABASE, *backup_layout.SECRET, *backup_layout.MADE_AGAIN}


def test_progress_is_silent_for_a_second_then_speaks(capsys):
    now_s = [0.0]
    shown = ProgressLine(clock=lambda: now_s[0])
    for second in range(8):
        now_s[0] = float(second)
        shown("copying", second / 10)
    assert capsys.readouterr().err.splitlines() == ["weir: copying: 10%", "weir: copying: 60%"]


def test_what_migrations_are_newer_is_told_by_this_versions_files():
    by_app = held_database.known_migrations()
    assert "0001_initial" in by_app["catalog"]
    assert held_database.newer_migrations({**by_app, "auth": ["0099_of_django"], "gone_app": ["0001_initial"]}) == []
    assert held_database.newer_migrations({"catalog": ["9999_later"]}) == ["catalog.9999_later"]


def test_the_manifest_is_json_that_other_tools_read(made):
    manifest = json.loads(zipfile.ZipFile(made).read(zip_archive.MANIFEST))
    assert manifest["format"] == 1 and manifest["files"]["weir.sqlite3"]["size"] > 0
    assert os.path.basename(made) not in manifest["files"]


@pytest.mark.long
@pytest.mark.broker
def test_a_system_on_postgresql_is_restored_to_an_empty_database(tmp_path, monkeypatch, capsys):
    with cluster() as first, cluster() as second:
        data, target = tmp_path / "data", tmp_path / "new"
        data.mkdir(mode=0o700)
        monkeypatch.setenv("DATABASE_URL", first)
        manage("prepare", data=data)
        assert backup_cli.main(["backup", str(tmp_path / "b"), "--data-dir", str(data)]) == 0
        monkeypatch.delenv("DATABASE_URL")
        assert backup_cli.main(["restore", str(tmp_path / "b"), "--data-dir", str(target)]) == 1
        assert "DATABASE_URL" in capsys.readouterr().out
        monkeypatch.setenv("DATABASE_URL", second)
        assert backup_cli.main(["restore", str(tmp_path / "b"), "--data-dir", str(target)]) == 0
        assert table_rows(second) == {**table_rows(first), "django_session": set()}
        manage("add_user", "zoe", "--team", "city", data=target)  # sequences go on behind what was copied
        assert backup_cli.main(["restore", str(tmp_path / "b"), "--data-dir", str(tmp_path / "third")]) == 1
        assert "has tables already" in capsys.readouterr().out and not (tmp_path / "third").exists()


def manage(*command: str, data: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-P", str(state_folder.ROOT / "manage.py"), *command), capture_output=True, text=True,
        timeout=300, env={**os.environ, "WEIR_DATA_DIR": str(data), "REDIS_URL": ""})
    assert done.returncode == 0, done.stderr


def table_rows(url: str) -> dict[str, set[tuple]]:
    with psycopg.connect(url) as connection:
        names = [name for [name] in connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")]
        return {name: {tuple(map(str, row)) for row in connection.execute(f"SELECT * FROM {name}")} for name in names}
