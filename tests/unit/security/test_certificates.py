"""Certificates: their expiry, with another library as the oracle, and subjects, with Java as it."""

import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidInputError
from lakelog.security import expiry_ms, subject_name
from tests.certificates import Authority

AUTHORITY = Authority()


@pytest.mark.parametrize("days", [1, 365, 40_000], ids=["soon", "later", "after 2050"])
def test_when_a_certificate_expires(days: int) -> None:
    signed = AUTHORITY.sign(lasts=timedelta(days=days))
    expected = signed.certificate.not_valid_after_utc.timestamp()
    assert expiry_ms(signed.der) == int(expected * 1000)


@given(data=st.binary(max_size=200))
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError):
        expiry_ms(data)


@given(cut=st.integers(0, 150))
def test_what_is_cut_short_is_refused(cut: int) -> None:
    whole = AUTHORITY.der
    with pytest.raises(InvalidInputError):
        expiry_ms(whole[:cut])


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ((), ""),
        (
            (
                (("countryName", "DE"),),
                (("organizationName", "Lake, Inc."),),
                (("commonName", "a"),),
            ),
            "CN=a,O=Lake\\, Inc.,C=DE",
        ),
        ((((("commonName", "a")), ("userId", "7")),), "CN=a+UID=7"),
        (((("commonName", " #x "),),), "CN=\\ #x\\ "),
        (((("commonName", "#x"),),), "CN=\\#x"),
        (((("emailAddress", "a@b"),),), "1.2.840.113549.1.9.1=#1603614062"),
        (((("1.2.3.4", "x" * 200),),), "1.2.3.4=#0c81c8" + "78" * 200),
    ],
)
def test_a_subject_is_written_as_java_does(
    subject: tuple[tuple[tuple[str, str], ...], ...], name: str
) -> None:
    assert subject_name(subject) == name


_JAVA = """
import java.io.*; import java.nio.file.*; import java.security.cert.*;
public class Subject {
    public static void main(String[] files) throws Exception {
        for (String file : files)
            System.out.println(((X509Certificate) CertificateFactory.getInstance("X.509")
                .generateCertificate(new FileInputStream(file)))
                .getSubjectX500Principal().getName());
    }
}
"""


def test_java_itself_writes_subjects_so(tmp_path: Path) -> None:
    import ssl

    if shutil.which("java") is None:
        pytest.fail("Java 17 is needed: apt-get install openjdk-17-jdk-headless")
    subjects = [
        "CN=alice,OU=ops,O=Lake\\, Inc.,L=Kiel,ST=SH,C=DE",
        'CN=\\#a\\+b\\"c\\;d\\<e\\>,UID=7',
        "CN=\\ blanks\\ ,DC=example,DC=com",
        "1.2.840.113549.1.9.1=a@example.com,CN=mail",
    ]
    (tmp_path / "Subject.java").write_text(_JAVA)
    ours, files = [], []
    for number, subject in enumerate(subjects):
        path = tmp_path / f"{number}.pem"
        path.write_text(AUTHORITY.sign(subject).certificate_pem)
        files.append(str(path))
        ours.append(subject_name(ssl._ssl._test_decode_cert(str(path))["subject"]))  # type: ignore[attr-defined]
    told = subprocess.run(
        ["java", str(tmp_path / "Subject.java"), *files], capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == ours
