"""Certificates of connectors: they are secrets, and on disk only for the moment in which a library reads them."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .contract import SourceRefused


def tls_context(*, ca: str | None, certificate: str | None, private_key: str | None) -> ssl.SSLContext:
    """The TLS context of a client: servers' names are held to their certificates.

    Parameters
    ----------
    ca : str or None
        Authorities to trust (PEM), instead of the machine's.
    certificate, private_key : str or None
        The client's own (PEM).

    Raises
    ------
    SourceRefused
        One of them is no PEM, or they do not belong together.
    """
    try:
        context = ssl.create_default_context(cadata=ca or None)
        if certificate:
            with as_file(certificate) as chain, as_file(private_key or "") as key:
                context.load_cert_chain(chain, key, password=lambda: b"")  # never asks at a terminal
    except (ssl.SSLError, ValueError, OSError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise SourceRefused(
            f"A certificate of the config cannot be used: {reason}.",
            remedy="Keep ca, certificate and private_key as PEM, from BEGIN to END, the key without a passphrase."
        ) from None
    return context


@contextmanager
def as_file(text: str) -> Iterator[Path]:
    """A file with that text that nobody else can read, for as long as it is needed."""
    handle, name = tempfile.mkstemp(prefix="weir-")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
