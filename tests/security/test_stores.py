"""Stores that Java's keytool and others have made, and what is wrong with some."""

from __future__ import annotations

import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from harness.certificates import Authority, pkcs12_file
from harness.requirements import found_program
from oncelog.security.stores import identity_pem, trusted_pem
from oncelog.security.values import Certificate, Secret, Store, StoreKind

PASSWORD = "march-hare-8e21"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def issued(authority):
    return authority.issue("alice")


def keytool(*arguments):
    subprocess.run([found_program("keytool", "Java's keytool"), *map(str, arguments)], check=True, capture_output=True)


def trust_store(authority, path, kind):
    keytool(
        *("-importcert", "-noprompt", "-alias", "authority", "-file", authority.file),
        *("-keystore", path, "-storepass", PASSWORD, "-storetype", kind),
    )
    return path


def store(path, kind, password=PASSWORD, option="ssl.truststore.location"):
    return Store(option, kind, content=path.read_bytes(), password=None if password is None else Secret(password))


@pytest.mark.jvm
@pytest.mark.parametrize("made", ["JKS", "PKCS12"])
def test_trust_store_of_keytool_is_read_whatever_type_it_is_said_to_have(authority, tmp_path, made):
    path = trust_store(authority, tmp_path / "trust", made)
    for said in (StoreKind.JKS, StoreKind.PKCS12):
        pem = trusted_pem(store(path, said))
        assert x509.load_pem_x509_certificates(pem) == [authority.certificate]


@pytest.mark.jvm
def test_java_trust_store_is_read_without_a_password_and_not_with_a_wrong_one(authority, tmp_path):
    path = trust_store(authority, tmp_path / "trust", "JKS")
    assert x509.load_pem_x509_certificates(trusted_pem(store(path, StoreKind.JKS, None))) == [authority.certificate]
    with pytest.raises(ValueError, match=r"^ssl\.truststore\.location: the password is wrong"):
        trusted_pem(store(path, StoreKind.JKS, "wrong-password"))


@pytest.mark.jvm
def test_java_store_that_was_cut_anywhere_is_refused(authority, tmp_path):
    content = trust_store(authority, tmp_path / "trust", "JKS").read_bytes()
    for size_bytes in range(4, len(content), 7):
        with pytest.raises(ValueError, match=r"^ssl\.truststore\.location: "):
            trusted_pem(Store("ssl.truststore.location", StoreKind.JKS, content=content[:size_bytes]))


@pytest.mark.jvm
@pytest.mark.parametrize("key_password", [None, "dormouse-0f0f"])
def test_key_of_a_java_store_is_read(authority, issued, tmp_path, key_password):
    source = pkcs12_file(tmp_path / "own.p12", PASSWORD, issued, authority)
    path = tmp_path / "own.jks"
    destination = ("-destkeypass", key_password) if key_password else ()
    keytool(
        *("-importkeystore", "-noprompt", "-srckeystore", source, "-srcstorepass", PASSWORD, "-srcalias", "own"),
        *("-destkeystore", path, "-deststorepass", PASSWORD, "-deststoretype", "JKS", *destination),
    )
    own = Certificate(
        store(path, StoreKind.JKS, option="ssl.keystore.location"),
        key_password=None if key_password is None else Secret(key_password),
    )
    check(own, issued, authority)
    wrong = Certificate(own.chain, key_password=Secret("wrong-password"))
    with pytest.raises(ValueError, match=r"^ssl\.keystore\.location: the password of its key is wrong"):
        identity_pem(wrong)


def test_key_of_a_pkcs12_store_is_read(authority, issued, tmp_path):
    path = pkcs12_file(tmp_path / "own.p12", PASSWORD, issued, authority)
    check(Certificate(store(path, StoreKind.PKCS12, option="ssl.keystore.location")), issued, authority)
    with pytest.raises(ValueError, match="the password is wrong, or the file is no PKCS12 store"):
        identity_pem(Certificate(store(path, StoreKind.PKCS12, "wrong-password")))


def check(own, issued, authority):
    pem, password = identity_pem(own)
    assert password is None
    assert x509.load_pem_x509_certificates(pem)[:1] == [issued.certificate]
    assert load_pem_private_key(pem[pem.index(b"-----BEGIN PRIVATE KEY") :], None).private_numbers() == (
        issued.key.private_numbers()
    )
    assert all(
        certificate in (issued.certificate, authority.certificate)
        for certificate in x509.load_pem_x509_certificates(pem)
    )
