"""The installation's keys, in a back-up only sealed with a passphrase: Fernet under a key made by scrypt (RFC 7914)."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from workers.launcher.state_folder import CannotStart, write_private

from . import backup_layout

SALT_BYTES = 16
COST, BLOCK_SIZE, PARALLEL = 2**15, 8, 1  # 32 MB and about a tenth of a second for each guess


def passphrase_of(path: Path | None) -> str | None:
    """The first line of a file; None where none is named."""
    if path is None:
        return None
    try:
        line = (path.read_text().splitlines() or [""])[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotStart(f"The passphrase in {path} cannot be read: {error}.") from None
    if len(line) < 8:
        raise CannotStart(f"The passphrase in {path} has fewer than eight characters: choose a longer one.")
    return line


def seal(data_dir: Path, passphrase: str) -> bytes:
    """The sealed keys of a system: they open secrets, sign sessions, and log in to the sample workspace."""
    files = {name: (data_dir / name).read_text() for name in backup_layout.SECRET if (data_dir / name).is_file()}
    salt = os.urandom(SALT_BYTES)
    return salt + Fernet(_key(passphrase, salt)).encrypt(json.dumps(files).encode())


def open_into(folder: Path, sealed: bytes, passphrase: str) -> list[str]:
    """Put the keys back; their files' names."""
    salt, token = sealed[:SALT_BYTES], sealed[SALT_BYTES:]
    try:
        files = json.loads(Fernet(_key(passphrase, salt)).decrypt(token))
    except InvalidToken:
        raise CannotStart(
            "The passphrase is not the one of this back-up: give that one, or none, and set secrets anew.") from None
    names = [name for name in files if name in backup_layout.SECRET]
    for name in names:
        write_private(folder / name, files[name])
    return names


def _key(passphrase: str, salt: bytes) -> bytes:
    return base64.urlsafe_b64encode(Scrypt(salt, 32, COST, BLOCK_SIZE, PARALLEL).derive(passphrase.encode()))
