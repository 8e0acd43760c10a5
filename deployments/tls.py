"""Makes the certificates of one installation: an authority of its own, and one pair per part.

    python deployments/tls.py FOLDER [--name HOST_OR_ADDRESS]... [--days 825] [--renew]

Writes `ca.pem`, `ca.key` and, for each part, `PART.pem` and `PART.key` into FOLDER. A part's
certificate holds its own name (which is its host name in compose.yaml), `localhost`, 127.0.0.1 and
every further --name. What is there already stays, unless --renew is given, which makes new pairs
under the same authority. Keep `ca.key` off the machines that run the parts.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import ipaddress
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PARTS = ("server", "postgres", "scheduler", "dask-worker", "client")
DAYS = 825
AUTHORITY_DAYS = 3650


def make_certificates(
    folder: Path, names: Sequence[str] = (), *, days: int = DAYS, renew: bool = False
) -> list[Path]:
    """Make what is missing; return the files that were written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, key, written = _authority(folder)
    for part in PARTS:
        certificate = folder / f"{part}.pem"
        if certificate.exists() and not renew:
            continue
        own = ec.generate_private_key(ec.SECP256R1())
        signed = (
            _builder(part, authority.subject, own, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName(
                    [
                        _general(name)
                        for name in dict.fromkeys((part, "localhost", "127.0.0.1", *names))
                    ]
                ),
                critical=False,
            )
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        _write_key(folder / f"{part}.key", own)
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        written += [folder / f"{part}.key", certificate]
    return written


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey, list[Path]]:
    certificate, secret = folder / "ca.pem", folder / "ca.key"
    if certificate.exists():
        if not secret.exists():
            sys.exit(f"{secret} is not here: bring it, or make all certificates anew elsewhere.")
        key = serialization.load_pem_private_key(secret.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return x509.load_pem_x509_certificate(certificate.read_bytes()), key, []
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dp-release authority")])
    signed = (
        _builder("dp-release authority", name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                key_cert_sign=True,
                crl_sign=True,
                digital_signature=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(secret, key)
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return signed, key, [secret, certificate]


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of machines differ a little.
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _general(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    return x509.DNSName(name)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


def main() -> None:
    """Read the command line, and say what was written."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", action="append", default=[], metavar="HOST_OR_ADDRESS")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--renew", action="store_true")
    given = parser.parse_args()
    written = make_certificates(given.folder, given.name, days=given.days, renew=given.renew)
    sys.stdout.write("".join(f"{path}\n" for path in written) or "Everything is there already.\n")


if __name__ == "__main__":
    main()
