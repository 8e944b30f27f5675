"""Development certificates and keys: a certificate authority, the server's, one pair a site.

    python make_keys.py --sites 4 --hosts localhost,127.0.0.1,fl.example.org

For production let your hospital's certificate authority sign the server's certificate, and let each
site make its own pair and send you only the public half (`ssh-keygen -t ecdsa -b 384`).
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 365


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=4, help="how many sites (default: 4)")
    parser.add_argument(
        "--hosts",
        default="localhost,127.0.0.1,superlink,gate",
        help="names and addresses under which sites reach the server",
    )
    parser.add_argument("--out", type=Path, default=Path("keys"), help="default: keys")
    chosen = parser.parse_args()
    if chosen.out.exists():
        sys.exit(f"{chosen.out} exists; keys are never overwritten: remove it, or choose another")
    chosen.out.mkdir(mode=0o700, parents=True)
    authority = ec.generate_private_key(ec.SECP384R1())
    root = certificate("fairapp development CA", authority.public_key(), authority, None, [])
    server = ec.generate_private_key(ec.SECP384R1())
    hosts = [host.strip() for host in chosen.hosts.split(",") if host.strip()]
    signed = certificate("fairapp server", server.public_key(), authority, root, hosts)
    write(chosen.out / "ca.key", private(authority))
    write(chosen.out / "ca.crt", root.public_bytes(Encoding.PEM), public=True)
    write(chosen.out / "server.key", private(server))
    write(chosen.out / "server.crt", signed.public_bytes(Encoding.PEM), public=True)
    for number in range(chosen.sites):
        key = ec.generate_private_key(ec.SECP384R1())
        openssh = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        write(chosen.out / f"site-{number}.key", openssh)
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        write(chosen.out / f"site-{number}.pub", public + b"\n", public=True)
    print(f"wrote {chosen.out}: for development, valid {DAYS} days; keep *.key to yourself")


def certificate(
    name: str,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    hosts: list[str],
) -> x509.Certificate:
    """One for `name`, signed by the issuer; without an issuer it is an authority's own."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    is_authority = issuer is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(usage(is_authority), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([alternative(host) for host in hosts])
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(names, False).add_extension(purpose, False)
    return builder.sign(signer, hashes.SHA384())


def usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write(path: Path, content: bytes, *, public: bool = False) -> None:
    path.touch(mode=0o644 if public else 0o600)
    path.write_bytes(content)


if __name__ == "__main__":
    main()
