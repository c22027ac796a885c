"""Certificates for the tests in this folder."""

import subprocess


def make(folder, names):
    """A private authority, and a certificate for names like DNS:localhost,IP:10.0.0.1."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=service", "-keyout", "service.key", "-out", "service.csr")
    (folder / "names").write_text(f"subjectAltName={names}")
    openssl(
        "x509",
        "-req",
        "-in",
        "service.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-extfile",
        "names",
        "-out",
        "service.crt",
    )


def flags(folder, is_server):
    """The flags with which a service uses mutual TLS."""
    own = ("--tls_require_client_cert",) if is_server else ()
    return (*own, "--tls_ca", folder / "ca.crt", "--tls_cert", folder / "service.crt", "--tls_key", folder / "service.key")
