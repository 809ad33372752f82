"""Static files with a hash in their name, compressed beforehand, so that browsers keep them for years."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage

_NOT_SERVED = ["build"]  # what vendored scripts were built from
_STAMP = ".collected"
_MODULE = r"""["'](?P<url>\.{1,2}/[^"']+)["']"""


class HashedFiles(CompressedManifestStaticFilesStorage):
    """The files that ``collectstatic`` writes below ``STATIC_ROOT``; before it has run, files keep their plain names.

    Our own ES modules name each other by relative paths, which get hashes, too; vendored scripts are left as they are.
    A file that the manifest lacks is served by its plain name: a page must not fail because files were collected
    before an upgrade.
    """

    patterns = (
        ("css/*.css", (r"""(?P<matched>url\(["'](?P<url>\.{1,2}/[^"']+)["']\))""",)),
        ("js/*.js", (
            (rf"(?P<matched>\bfrom {_MODULE})", 'from "%(url)s"'),
            (rf"(?P<matched>\bimport\({_MODULE}\))", 'import("%(url)s")'),
            (rf"(?P<matched>\bnew URL\({_MODULE}, import\.meta\.url\))", 'new URL("%(url)s", import.meta.url)'),
        )),
    )

    def stored_name(self, name: str) -> str:
        return str(self.hashed_files.get(self.hash_key(self.clean_name(name)), name))


def collect() -> bool:
    """Fill ``STATIC_ROOT`` unless it is of these files; True if it was filled.

    The stamp is deleted first and written last, so that the next process repeats the work of one that was killed.
    """
    stamp = Path(settings.STATIC_ROOT) / _STAMP
    digest = _digest_of_sources()
    if stamp.is_file() and stamp.read_text() == digest:
        return False
    stamp.unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=_NOT_SERVED)
    new = stamp.with_suffix(".new")
    new.write_text(digest)
    new.replace(stamp)
    return True


def _digest_of_sources() -> str:
    """The digest of all files that are collected, and of what collects them."""
    digest = hashlib.sha256(f"{version('django')} {version('whitenoise')}\0".encode() + Path(__file__).read_bytes())
    for finder in get_finders():
        for name, storage in sorted(finder.list(_NOT_SERVED), key=itemgetter(0)):
            with storage.open(name) as file:
                content = file.read()
            digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
