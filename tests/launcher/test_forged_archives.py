"""An archive that somebody forged: refused in a line, before anything is written."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path

import pytest
import redis
from django.core.management import CommandError

from dashboard.commands.management.commands import restore_database
from workers.launcher.backup import backup_cli, broker_keys, taking, zip_archive
from workers.launcher.backup.linking import LinkedFiles
from workers.launcher.state_folder import CannotStart


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDIS_URL", "DATABASE_URL", "WEIR_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


def forged(path: Path, manifest: object, **files: bytes) -> Path:
    """An archive that says of itself what somebody likes; whole, as far as its mark tells."""
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(zip_archive.MANIFEST, text)
        archive.comment = zip_archive.MARK + hashlib.sha256(text.encode()).hexdigest().encode()
    return path


FACTS = {
    "weir": "x", "made_at": "x", "database": "sqlite", "nodes": [], "slots": 0, "paused_ms": 0, "keys": 0,
    "migrations": {}, "left_out": [], "format": 1}
LONG_NAME, LONG_PATH = "nodes/" + "a" * 300, "nodes/" + "a/" * 2000 + "a"
ENTRY = {"size": 4, "sha256": hashlib.sha256(b"text").hexdigest(), "mtime_ns": 0}
FORGED = {
    "a list": [], "a text": '"x"', "a number": 5, "no JSON": "{", "deep": "[" * 100_000, "nothing": {},
    "files that are none": FACTS | {"files": 5}, "a file that is none": FACTS | {"files": {"a": {"size": 4}}},
    "a size that is none": FACTS | {"files": {"a": ENTRY | {"size": "x"}}},
    "more than is known": FACTS | {"files": {}, "other": 1},
    "a folder above": FACTS | {"files": {"../a": ENTRY}},
    "a folder in between": FACTS | {"files": {"nodes/../../a": ENTRY}},
    "from the root": FACTS | {"files": {"/tmp/a": ENTRY}}, "no name": FACTS | {"files": {"": ENTRY}},
    "a name that ends early": FACTS | {"files": {"nodes/a\0b": ENTRY}}, "this folder": FACTS | {"files": {".": ENTRY}},
    "a file that is not there": FACTS | {"files": {"nodes/b": ENTRY}},
    "a jar, which is run": FACTS | {"files": {"jvm/weir-channels.jar": ENTRY}},
    "users of the broker": FACTS | {"files": {"broker/users.acl": ENTRY}},
    "a key that is not sealed": FACTS | {"files": {"secret_key": ENTRY}},
    "a file that is a folder": FACTS | {"files": {"nodes/a": ENTRY, "nodes/a/b": ENTRY}},
    "a time that is none": FACTS | {"files": {"nodes/a": ENTRY | {"mtime_ns": 1 << 70}}},
    "a name that is none": FACTS | {"files": {"nodes/\ud800": ENTRY}},
    "a name that is too long": FACTS | {"files": {LONG_NAME: ENTRY}},
    "a path that is too long": FACTS | {"files": {LONG_PATH: ENTRY}},
    "a folder that should be a file": FACTS | {"files": {"broker.keys/a": ENTRY}},
    "a file that should be a folder": FACTS | {"files": {"nodes": ENTRY}},
    "migrations that are none": FACTS | {"files": {}, "migrations": 5},
    "names of migrations that are none": FACTS | {"files": {}, "migrations": {"teams": [5]}},
    "a version that is none": FACTS | {"files": {}, "weir": {}},
    "slots that are none": FACTS | {"files": {}, "slots": "5"},
    "more than it says": FACTS | {"files": {"nodes/bomb": ENTRY}}}


@pytest.mark.parametrize("name", FORGED)
def test_an_archive_that_somebody_forged_is_refused_in_a_line(name, tmp_path, capsys):
    texts = ("a", "jvm/weir-channels.jar", "broker/users.acl", "secret_key", "nodes/a", "nodes/a/b", "nodes",
             "broker.keys/a", LONG_NAME, LONG_PATH)
    path = forged(tmp_path / "weir.backup", FORGED[name], **{
        **dict.fromkeys(texts, b"text"), "nodes/bomb": b"\0" * (32 << 20)})
    assert backup_cli.main(["restore", str(path), "--data-dir", str(tmp_path / "inner" / "data")]) == 1
    assert "damaged" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["weir.backup"]


def test_an_archive_that_lacks_what_nothing_goes_on_without_is_refused_in_a_line(tmp_path, capsys):
    for files, lacking in (({}, "broker.keys"), ({"broker.keys": ENTRY}, "weir.sqlite3")):
        path = forged(tmp_path / "weir.backup", FACTS | {"files": files}, **dict.fromkeys(files, b"text"))
        assert backup_cli.main(["restore", str(path), "--data-dir", str(tmp_path / "inner" / "data")]) == 1
        assert f"has no {lacking}" in capsys.readouterr().out
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["weir.backup"]


def test_what_an_archive_says_of_itself_does_not_steer_the_terminal(tmp_path, capsys):
    files, turned = {"broker.keys": ENTRY, "weir.sqlite3": ENTRY}, "\x1b[31m\u202e\r"
    path = forged(tmp_path / "weir.backup", FACTS | {
        "files": files, "weir": turned, "made_at": turned, "left_out": [turned]}, **dict.fromkeys(files, b"text"))
    assert backup_cli.main(["restore", str(path), "--dry-run", "--data-dir", str(tmp_path / "data")]) == 0
    printed = capsys.readouterr().out
    assert r"not in it: \x1b[31m\u202e\r" in printed and all(line.isprintable() for line in printed.splitlines())


def test_a_manifest_is_no_longer_than_the_files_of_its_archive_make_it(tmp_path, capsys):
    """It could be a gigabyte, packed in a megabyte, which took several gigabytes as JSON."""
    path = forged(tmp_path / "weir.backup", json.dumps(FACTS | {"files": {}}) + " " * (17 << 20))
    assert backup_cli.main(["restore", str(path), "--data-dir", str(tmp_path / "data")]) == 1
    assert "damaged: manifest.json" in capsys.readouterr().out


@pytest.mark.parametrize("make", ["symlink_to", "hardlink_to"])
def test_an_archive_is_written_into_no_file_of_somebody_else(tmp_path, make: str):
    (tmp_path / "theirs").write_text("kept")
    getattr(tmp_path / f".weir.backup.{os.getpid()}.part", make)(tmp_path / "theirs")
    path = tmp_path / "weir.backup"
    zip_archive.write(path, zip_archive.Manifest(**FACTS), {}, progress=lambda *_: None)
    assert (tmp_path / "theirs").read_text() == "kept" and not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_nlink == 1


@pytest.mark.parametrize("name", ["a" * 80, "\u00e4" * 60, "\U0001f30a" * 30])
def test_the_manifest_of_many_files_has_room_for_their_names(tmp_path, monkeypatch, name: str):
    monkeypatch.setattr(zip_archive, "MOST_FACTS_BYTES", 1_000)
    (tmp_path / "file").write_bytes(b"text")
    sources = {f"nodes/{number}/{name}": (tmp_path / "file", 4) for number in range(500)}
    written = zip_archive.write(
        tmp_path / "weir.backup", zip_archive.Manifest(**FACTS), sources, progress=lambda *_: None)
    assert zip_archive.read_manifest(tmp_path / "weir.backup").files == written.files


def test_a_manifest_that_is_packed_by_no_way_of_ours_is_not_unpacked(tmp_path, capsys):
    """Python unpacks a member of LZMA whole, whatever length it says."""
    path, text = tmp_path / "weir.backup", json.dumps(FACTS | {"files": {}})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(zip_archive.MANIFEST, text)
        archive.comment = zip_archive.MARK + hashlib.sha256(text.encode()).hexdigest().encode()
    assert backup_cli.main(["restore", str(path), "--data-dir", str(tmp_path / "data")]) == 1
    assert "damaged: manifest.json" in capsys.readouterr().out


DIRECTORY = b"PK\1\2"  # the entry of a file in a zip's directory begins so
DAMAGED = {  # places in the manifest's entry, and what is written over them
    "a version of zip that is none": (6, b"\xff\0"), "encrypted": (8, b"\1\0"), "patched": (8, b"\x20\0"),
    "a name that is no text": (8, b"\0\x08", 46, b"\xff"), "another name": (46, b"x")}


@pytest.mark.parametrize("name", [*DAMAGED, "packed by no way"])
def test_a_zip_that_cannot_be_read_is_refused_in_a_line(name, tmp_path, capsys):
    path = forged(tmp_path / "weir.backup", FACTS | {"files": {}})
    content = bytearray(path.read_bytes())
    packed = len("manifest.json") + 30  # behind the header of the file
    if name == "packed by no way":
        content[packed:packed + 4] = b"\xff" * 4
    else:
        entry, places = content.index(DIRECTORY), iter(DAMAGED[name])
        for place, octets in zip(places, places, strict=True):
            content[entry + place:entry + place + len(octets)] = octets
    path.write_bytes(content)
    assert backup_cli.main(["restore", str(path), "--data-dir", str(tmp_path / "data")]) == 1
    out = capsys.readouterr().out
    assert f"{path} is no back-up of Weir, or was cut short (" in out and "copy it again, or take another one" in out


def test_a_back_up_follows_nothing_that_a_slot_has_put_there(tmp_path):
    """A slot writes in checkpoints and outputs; who takes a back-up reads and makes all files of the machine."""
    data_dir, outside = tmp_path / "data", tmp_path / "outside"
    for folder in ("checkpoints/f1-0/commits", "folds", "outputs/mine/.weir"):
        (data_dir / folder).mkdir(parents=True)
    (outside / "commits").mkdir(parents=True)
    (outside / "commits" / "0").write_text("loot")
    (data_dir / "secret_key").write_text("loot")
    (data_dir / "checkpoints" / "f1-0" / "commits" / "0").write_text("honest")
    (data_dir / "outputs" / "mine" / ".weir" / "lock").symlink_to(tmp_path / "made")
    for path, target in (("checkpoints/f2-0", outside), ("checkpoints/f1-0/state", outside),
                         ("checkpoints/f3-0.json", data_dir / "secret_key"), ("outputs/other", outside),
                         ("folds/f1-0.fold", data_dir / "secret_key")):
        (data_dir / path).symlink_to(target)
    copy = LinkedFiles(data_dir, tmp_path / "held")
    with pytest.raises(OSError):
        taking.hold(copy)
    assert not (tmp_path / "made").exists()
    (data_dir / "outputs" / "mine" / ".weir" / "lock").unlink()
    taking.hold(copy)
    held = [path for path in (tmp_path / "held").rglob("*") if not path.is_dir()]
    assert [path.read_text() for path in held if path.name == "0"] == ["honest"]
    assert "loot" not in "".join(path.read_text() for path in held)


def _keys_file(path: Path, **values: bytes) -> Path:
    path.write_bytes(b"".join(
        broker_keys.HEADER.pack(len(name), len(value), -1) + name.encode() + value for name, value in values.items()))
    return path


@pytest.mark.django_db
@pytest.mark.parametrize("columns", [
    {"django_session": ['session_key") FROM PROGRAM \'id\' --']}, {"django_session": ["session_key", '"session_key"']},
    {'django_session" (session_key) FROM PROGRAM \'id\' --': []}, {"pg_authid": ["rolname"]}])
def test_names_of_columns_are_never_text_of_a_command(columns: dict[str, list[str]]):
    """``COPY … FROM PROGRAM`` would run one on the database's machine."""
    restore_database.require_columns({"django_session": ["session_key", "session_data"]})
    with pytest.raises(CommandError, match="has no"):
        restore_database.require_columns(columns)


def test_keys_that_no_back_up_writes_are_refused_and_forged_orders_stay_out(broker: redis.Redis, tmp_path):
    broker.rpush("weir:trials:n1", "t1")
    order, whole = broker.dump("weir:trials:n1"), broker_keys.HEADER.pack(6, 4, -1) + b"weir:a" + b"text"
    broker.flushall()
    assert broker_keys.load(broker, _keys_file(tmp_path / "keys", **{
        "weir:trials:n1": order, "weir:trial:t1:order": order, "weir:looks:n1": order, "weir:ch:x": order})) == 1
    assert broker.keys() == [b"weir:ch:x"]
    broker.flushall()
    for content in (broker_keys.HEADER.pack(5, 4, -1) + b"other" + b"text", whole[:-1], whole + b"x",
                    broker_keys.HEADER.pack(6, 1 << 63, -1) + b"weir:a", b"x"):
        (tmp_path / "keys").write_bytes(content)
        with pytest.raises(CannotStart, match="not as a back-up writes them"):
            broker_keys.load(broker, tmp_path / "keys")
    assert broker.keys() == []
