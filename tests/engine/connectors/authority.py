"""An authority of a test, and certificates of its making."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """``ca`` is its own certificate; all in PEM."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority of a test")
        self._certificate = self._signed(self._name, self._key.public_key(), x509.BasicConstraints(True, None))
        self.ca = _pem(self._certificate)

    def issue(self, name: str) -> tuple[str, str]:
        """A certificate for a name, good for 127.0.0.1 too, and its private key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = self._signed(_name(name), key.public_key(), x509.BasicConstraints(False, None), names)
        return _pem(certificate), key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()

    def _signed(self, subject: x509.Name, public_key: object, *extensions: x509.ExtensionType) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1)))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
