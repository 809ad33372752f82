"""Static files with a hash in their name, compressed beforehand, so that browsers keep them for years."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage

_MODULE = r"""["'](?P<url>\.{1,2}/[^"']+)["']"""


class HashedFiles(CompressedManifestStaticFilesStorage):
    """What ``collectstatic`` writes below ``STATIC_ROOT``; before it has run, files keep their plain names.

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
