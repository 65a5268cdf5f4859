"""Certificates of an authority that only a test knows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


class Authority:
    """Makes certificates, as NAME.pem and NAME.key in a folder; its own is ca.pem."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._own: x509.Certificate | None = None
        self._own = self.make("ca")

    def make(self, name: str, *san: x509.GeneralName) -> x509.Certificate:
        key = self._key if self._own is None else ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            issuer_name=subject if self._own is None else self._own.subject,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=1),
            not_valid_after=now + timedelta(days=1),
        ).add_extension(x509.BasicConstraints(self._own is None, None), critical=True)
        if san:
            builder = builder.add_extension(x509.SubjectAlternativeName(san), critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / f"{name}.pem").write_bytes(made.public_bytes(Encoding.PEM))
        (self.folder / f"{name}.key").write_bytes(pem)
        return made
