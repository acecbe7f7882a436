"""TLS as a transport: any bytes in any pieces, ends of every kind, and what is said when the sides do not accept each other."""

from __future__ import annotations

import datetime
import select
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from levada.errors import ConfigError
from levada.net.tls.context import TlsSettings, server_context
from levada.net.tls.errors import TlsError
from levada.net.tls.transport import TlsAcceptor, TlsConnector, TlsTransport
from levada.testing import Authority, Tls

AUTHORITY = Authority()
LISTENER = AUTHORITY.listener("kafka.example", "127.0.0.1")
TRUSTING = TlsSettings(truststore_certificates=AUTHORITY.certificate)


class Ends:
    """Both sides of one connection over sockets that take little at a time."""

    def __init__(self, client: TlsSettings, server: TlsSettings, *, name: str = "kafka.example", client_auth: str = "none") -> None:
        self.sockets = socket.socketpair()
        for end in self.sockets:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.client = TlsConnector(client).connect(self.sockets[0], name)
        self.server = TlsAcceptor(server_context(server, client_auth=client_auth)).accept(self.sockets[1])

    def shake_hands(self) -> None:
        for _ in range(50):
            self.client.handshake()
            self.server.handshake()
            if self.client.ready and self.server.ready:
                return
        raise AssertionError("the handshake does not end")

    def close(self) -> None:
        for end in self.sockets:
            end.close()


def settings_of(listener: Tls, **more: object) -> TlsSettings:
    return TlsSettings(
        keystore_certificate_chain=listener.certificate_chain,
        keystore_key=listener.key,
        truststore_certificates=listener.trusted,
        **more,  # type: ignore[arg-type]
    )


SERVER = settings_of(LISTENER)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(closing: ExitStack, client: TlsSettings = TRUSTING, server: TlsSettings = SERVER, name: str = "kafka.example") -> Ends:
    ends = Ends(client, server, name=name)
    closing.callback(ends.close)
    ends.shake_hands()
    return ends


def read_all(transport: TlsTransport, most: int = 1 << 16) -> bytes:
    """What there is now, in as many reads as has_buffered asks for."""
    got, buffer = b"", bytearray(most)
    count = transport.read_into(memoryview(buffer))
    while count:
        got += buffer[:count]
        if not transport.has_buffered:
            break
        count = transport.read_into(memoryview(buffer))
    return got


@settings(max_examples=40, deadline=None)
@given(
    pieces=st.lists(st.integers(1, 300_000), min_size=1, max_size=6),
    most=st.sampled_from([1, 7, 4096, 16384, 1 << 18]),
    version=st.sampled_from(["TLSv1.2", "TLSv1.3"]),
)
def test_L13_any_pieces_arrive_as_they_were_sent(pieces: list[int], most: int, version: str) -> None:
    if most < 4096:
        pieces = [min(size, 3000) for size in pieces]
    with ExitStack() as closing:
        ends = connected(closing, TlsSettings(truststore_certificates=AUTHORITY.certificate, enabled_protocols=(version,)))
        data = b"".join(bytes([number + 65]) * size for number, size in enumerate(pieces))
        left, cut = [], 0
        for size in pieces:
            left.append(memoryview(data)[cut : cut + size])
            cut += size
        got = b""
        while left or len(got) < len(data):
            taken = ends.client.write_pieces(left) if left else 0
            while taken:
                step = min(taken, len(left[0]))
                left[0] = left[0][step:]
                taken -= step
                if not left[0]:
                    left.pop(0)
            got += read_all(ends.server, most)
        assert got == data
        assert not ends.server.has_buffered


def test_TR23_has_buffered_tells_of_bytes_that_no_selector_sees(closing: ExitStack) -> None:
    ends = connected(closing)
    assert ends.client.write(memoryview(b"abcdef")) == 6
    buffer = memoryview(bytearray(4))
    assert (ends.server.read_into(buffer), ends.server.has_buffered) == (4, True)
    with pytest.raises(BlockingIOError):
        ends.sockets[1].recv(1)
    assert (ends.server.read_into(buffer), ends.server.has_buffered) == (2, False)
    assert ends.server.read_into(buffer) is None


def test_TR23_bytes_that_came_with_the_end_of_the_handshake_are_told_of(closing: ExitStack) -> None:
    ends = Ends(TRUSTING, SERVER)
    closing.callback(ends.close)
    while not ends.client.ready:
        ends.client.handshake()
        if not ends.client.ready:
            ends.server.handshake()
    ends.client.write(memoryview(b"first"))
    while not ends.server.ready:
        ends.server.handshake()
    assert ends.server.has_buffered
    assert read_all(ends.server) == b"first"


@pytest.mark.parametrize("farewell", [True, False])
def test_L13_the_end_comes_after_what_was_sent_before_it(closing: ExitStack, farewell: bool) -> None:
    ends = connected(closing)
    ends.client.write(memoryview(b"last"))
    if farewell:
        ends.client.close()
    else:
        assert ends.client.read_into(memoryview(bytearray(1))) is None, "what the server sent after the handshake is not left behind"
        ends.sockets[0].close()
    buffer = memoryview(bytearray(100))
    assert (ends.server.read_into(buffer), ends.server.has_buffered) == (4, True)
    assert ends.server.read_into(buffer) == 0
    assert ends.server.read_into(buffer) == 0


def test_L10_what_came_before_a_reset_is_read_first(closing: ExitStack) -> None:
    ends = connected(closing)
    ends.client.write(memoryview(b"last"))
    reset = ConnectionResetError("reset by peer")
    resets(ends.server, reset)
    buffer = memoryview(bytearray(100))
    assert (ends.server.read_into(buffer), ends.server.has_buffered, bytes(buffer[:4])) == (4, True, b"last")
    for _ in range(2):
        with pytest.raises(ConnectionResetError) as told:
            ends.server.read_into(buffer)
        assert told.value is reset


def test_L10_what_came_before_bytes_that_are_no_tls_is_read_first(closing: ExitStack) -> None:
    ends = connected(closing)
    ends.client.write(memoryview(b"last"))
    ends.sockets[0].send(b"\x17\x03\x03\x00\x20" + bytes(32))
    buffer = memoryview(bytearray(100))
    assert (ends.server.read_into(buffer), ends.server.has_buffered, bytes(buffer[:4])) == (4, True, b"last")
    with pytest.raises(TlsError, match="TLS failed: "):
        ends.server.read_into(buffer)


def resets(transport: TlsTransport, error: OSError) -> None:
    """Have the socket below fail as soon as everything that arrived was read."""
    below = transport._raw

    class Resets:
        def __getattr__(self, name: str) -> object:
            return getattr(below, name)

        def read_into(self, buffer: memoryview) -> int:
            count = below.read_into(buffer)
            if count is None:
                raise error
            return count

    transport._raw = Resets()  # type: ignore[assignment]


def test_L13_bytes_count_as_written_once_all_that_they_became_is_out(closing: ExitStack) -> None:
    ends = connected(closing)
    data = memoryview(bytes(100_000))
    assert ends.client.write(data) == 0, "a socket of 4 KiB cannot have taken it"
    got = b""
    while not (taken := ends.client.write(data)):
        got += read_all(ends.server)
    assert len(got) < taken == len(data)
    assert len(got + read_all(ends.server)) == len(data)


def test_changed_bytes_are_an_error_and_no_data(closing: ExitStack) -> None:
    ends = connected(closing)
    ends.sockets[0].send(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(TlsError, match="TLS failed: ") as told:
        ends.server.read_into(memoryview(bytearray(100)))
    assert not told.value.is_refusal


def test_L13_a_broker_that_begins_another_handshake_is_refused(closing: ExitStack, tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_text(LISTENER.certificate_chain)
    key.write_text(LISTENER.key)
    command = ["openssl", "s_server", "-tls1_2", "-accept", "127.0.0.1:0", "-cert", str(chain), "-key", str(key)]
    server = closing.enter_context(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    )
    closing.callback(server.kill)
    assert server.stdin is not None and server.stdout is not None
    port = next(int(line.rpartition(":")[2]) for line in server.stdout if line.startswith("ACCEPT"))
    sock = closing.enter_context(socket.create_connection(("127.0.0.1", port)))
    sock.setblocking(False)
    client = TlsConnector(TRUSTING).connect(sock, "kafka.example")
    client.handshake()
    while not client.ready:
        select.select([sock], [], [], 10)
        client.handshake()
    server.stdin.write("R\n")
    server.stdin.flush()
    with pytest.raises(TlsError):
        while client.read_into(memoryview(bytearray(100))) is None:
            assert select.select([sock], [], [], 10)[0], "the broker ends a connection on which it is refused"


# Who does not accept whom


def refused(client: TlsSettings = TRUSTING, server: TlsSettings = SERVER, *, name: str = "kafka.example", client_auth: str = "none") -> str:
    """Shake hands, and return what the client is told at last; with TLS 1.3 that may be with the first read."""
    ends = Ends(client, server, name=name, client_auth=client_auth)
    try:
        with pytest.raises(TlsError) as told:
            for _ in range(50):
                ends.client.handshake()
                if ends.client.ready:
                    ends.client.read_into(memoryview(bytearray(10)))
                try:
                    ends.server.handshake()
                except TlsError:
                    continue
        assert told.value.is_refusal
        return str(told.value)
    finally:
        ends.close()


def server_with(**issued: object) -> TlsSettings:
    ca = trustme.CA()
    cert = ca.issue_cert("kafka.example", **issued)  # type: ignore[arg-type]
    chain = cert.cert_chain_pems[0].bytes().decode()
    return TlsSettings(
        keystore_certificate_chain=chain,
        keystore_key=cert.private_key_pem.bytes().decode(),
        truststore_certificates=ca.cert_pem.bytes().decode(),
    )


def test_M_D2_a_certificate_for_another_name_tells_which_it_has() -> None:
    told = refused(name="broker-7.internal")
    assert "its certificate is not accepted: it is for kafka.example, 127.0.0.1, and not for 'broker-7.internal'" in told
    assert "advertised.listeners" in told


def test_M_D2_a_certificate_for_another_address() -> None:
    assert "and not for '10.1.2.3'" in refused(name="10.1.2.3")


def test_M_D2_another_authority() -> None:
    told = refused(TlsSettings(truststore_certificates=Authority().certificate))
    assert told.endswith("set ssl.truststore.location to the PEM file of the one that did")


def test_M_D1_the_system_decides_where_no_truststore_is_given() -> None:
    assert "no authority that is trusted here has signed it" in refused(TlsSettings())


def test_M_D2_expired() -> None:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    server = server_with(not_before=past, not_after=past + datetime.timedelta(days=1))
    assert "it has expired" in refused(TlsSettings(truststore_certificates=server.truststore_certificates), server)


def test_M_D2_not_yet_valid() -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=5)
    server = server_with(not_before=later, not_after=later + datetime.timedelta(days=5))
    assert "is the clock of this machine right?" in refused(TlsSettings(truststore_certificates=server.truststore_certificates), server)


def test_M_D3_one_option_accepts_any_name_of_a_trusted_authority(closing: ExitStack) -> None:
    lax = TlsSettings(truststore_certificates=AUTHORITY.certificate, dangerously_accept_any_host_name=True)
    connected(closing, lax, name="another.example")
    untrusted = TlsSettings(truststore_certificates=Authority().certificate, dangerously_accept_any_host_name=True)
    assert "no authority that is trusted here" in refused(untrusted)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_M_D5_a_client_without_the_certificate_that_is_required(version: str) -> None:
    client = TlsSettings(truststore_certificates=AUTHORITY.certificate, enabled_protocols=(version,))
    told = refused(client, client_auth="required")
    assert "ssl.keystore.location" in told


def test_M_D5_a_client_with_a_certificate_of_another_authority() -> None:
    other = Authority().client()
    client = TlsSettings(
        truststore_certificates=AUTHORITY.certificate,
        keystore_certificate_chain=other["ssl_keystore_certificate_chain"],
        keystore_key=other["ssl_keystore_key"],
    )
    assert "it does not trust who signed the certificate that was shown to it" in refused(client, client_auth="required")


def test_M_D5_a_client_with_the_right_certificate(closing: ExitStack) -> None:
    ours = AUTHORITY.client("reader")
    client = TlsSettings(
        truststore_certificates=AUTHORITY.certificate,
        keystore_certificate_chain=ours["ssl_keystore_certificate_chain"],
        keystore_key=ours["ssl_keystore_key"],
    )
    ends = Ends(client, SERVER, client_auth="required")
    closing.callback(ends.close)
    ends.shake_hands()


def test_versions_that_do_not_meet() -> None:
    client = TlsSettings(truststore_certificates=AUTHORITY.certificate, enabled_protocols=("TLSv1.3",))
    assert "see ssl.enabled.protocols" in refused(client, settings_of(LISTENER, enabled_protocols=("TLSv1.2",)))


def test_cipher_suites_that_do_not_meet() -> None:
    client = TlsSettings(
        truststore_certificates=AUTHORITY.certificate,
        enabled_protocols=("TLSv1.2",),
        cipher_suites=("ECDHE-ECDSA-AES128-GCM-SHA256",),
    )
    server = settings_of(LISTENER, enabled_protocols=("TLSv1.2",), cipher_suites=("ECDHE-ECDSA-AES256-GCM-SHA384",))
    assert "see ssl.cipher.suites" in refused(client, server)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "it closed the connection during the TLS handshake: is this a listener for PLAINTEXT or SASL_PLAINTEXT?"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it answers with something that is not TLS"),
        (b"\x00\x00\x00\x1a\x00\x00\x00\x01" + bytes(22), "it answers with something that is not TLS"),
    ],
)
def test_what_is_no_tls(closing: ExitStack, answer: bytes, text: str) -> None:
    ours, theirs = socket.socketpair()
    closing.enter_context(ours)
    ours.setblocking(False)
    transport = TlsConnector(TRUSTING).connect(ours, "kafka.example")
    transport.handshake()
    theirs.sendall(answer)
    theirs.close()
    with pytest.raises(TlsError, match=text.replace("?", r"\?")):
        transport.handshake()


# Files


def write(folder: Path, name: str, *texts: str) -> str:
    path = folder / name
    path.write_text("".join(texts))
    return str(path)


def client_pem() -> tuple[str, str]:
    ours = AUTHORITY.client("reader")
    return ours["ssl_keystore_certificate_chain"], ours["ssl_keystore_key"]


def test_M_D5_files_of_every_kind(closing: ExitStack, tmp_path: Path) -> None:
    chain, key = client_pem()
    trust = {"truststore_location": write(tmp_path, "ca.pem", AUTHORITY.certificate)}
    both = {"keystore_location": write(tmp_path, "both.pem", chain, key)}
    apart = {"certificate_location": write(tmp_path, "chain.pem", chain), "key_location": write(tmp_path, "key.pem", key)}
    for given_files in (both, apart):
        ends = Ends(TlsSettings(**trust, **given_files), SERVER, client_auth="required")  # type: ignore[arg-type]
        closing.callback(ends.close)
        ends.shake_hands()


def test_M_D5_an_encrypted_key(closing: ExitStack) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, load_pem_private_key

    chain, key = client_pem()
    sealed = load_pem_private_key(key.encode(), None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    settings = {"truststore_certificates": AUTHORITY.certificate, "keystore_certificate_chain": chain, "keystore_key": sealed.decode()}
    ends = Ends(TlsSettings(**settings, key_password="secret"), SERVER, client_auth="required")  # type: ignore[arg-type]
    closing.callback(ends.close)
    ends.shake_hands()
    for password in (None, "wrong"):
        with pytest.raises(ConfigError, match=r"an encrypted key needs ssl\.key\.password") as told:
            TlsConnector(TlsSettings(**settings, key_password=password))  # type: ignore[arg-type]
        assert "wrong" not in str(told.value)


def test_pkcs12(closing: ExitStack, tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

    chain, key = client_pem()
    certificate = x509.load_pem_x509_certificate(chain.encode())
    sealed = BestAvailableEncryption(b"secret")
    (tmp_path / "me.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"me", load_pem_private_key(key.encode(), None), certificate, None, sealed)  # type: ignore[arg-type]
    )
    authority = x509.load_pem_x509_certificate(AUTHORITY.certificate.encode())
    (tmp_path / "ca.p12").write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [authority], sealed))
    files = {
        "truststore_location": str(tmp_path / "ca.p12"),
        "truststore_type": "PKCS12",
        "truststore_password": "secret",
        "keystore_location": str(tmp_path / "me.p12"),
        "keystore_type": "PKCS12",
        "keystore_password": "secret",
    }
    ends = Ends(TlsSettings(**files), SERVER, client_auth="required")  # type: ignore[arg-type]
    closing.callback(ends.close)
    ends.shake_hands()
    with pytest.raises(ConfigError, match=r"is ssl\.keystore\.password right\?"):
        TlsConnector(TlsSettings(**{**files, "keystore_password": "other"}))  # type: ignore[arg-type]


def test_certificates_that_change_are_read_again(closing: ExitStack, tmp_path: Path) -> None:
    file = write(tmp_path, "ca.pem", Authority().certificate)
    connector = TlsConnector(TlsSettings(truststore_location=file))

    def outcome() -> str:
        sockets = socket.socketpair()
        for end in sockets:
            closing.enter_context(end)
            end.setblocking(False)
        client = connector.connect(sockets[0], "kafka.example")
        server = TlsAcceptor(server_context(SERVER)).accept(sockets[1])
        try:
            while not client.ready:
                client.handshake()
                server.handshake()
        except TlsError:
            return "refused"
        return "accepted"

    assert outcome() == "refused"
    Path(file).write_text("half of it")
    assert outcome() == "refused", "a file that cannot be read leaves what there was"
    Path(file).write_text(AUTHORITY.certificate)
    assert outcome() == "accepted"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"truststore_location": "/nowhere/ca.pem"}, r"'ssl.truststore.location': /nowhere/ca.pem cannot be read: No such file"),
        (
            {"truststore_certificates": "-----BEGIN CERTIFICATE-----\nx"},
            r"'ssl.truststore.certificates': .* cannot be read as certificates",
        ),
        ({"keystore_location": "/nowhere/me.pem"}, r"'ssl.keystore.location': /nowhere/me.pem cannot be read"),
        ({"certificate_location": "/nowhere/me.pem"}, r"'ssl.certificate.location' cannot be read as a certificate"),
        ({"cipher_suites": ("TLS_RSA_WITH_NOTHING",)}, r"'ssl.cipher.suites': OpenSSL has no TLS_RSA_WITH_NOTHING; its names"),
        (
            {"cipher_suites": ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA")},
            r"OpenSSL has no TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        ),
    ],
)
def test_settings_that_cannot_be_used_fail_when_the_client_is_made(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        TlsConnector(TlsSettings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["truststore", "keystore"])
def test_a_java_keystore_is_refused_with_the_line_that_converts_it(tmp_path: Path, option: str) -> None:
    file = tmp_path / "store.jks"
    file.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(ConfigError, match=rf"set ssl\.{option}\.type=PKCS12: keytool -importkeystore -srckeystore .*store\.jks"):
        TlsConnector(TlsSettings(**{f"{option}_location": str(file)}))  # type: ignore[arg-type]


def test_a_context_of_the_users_own_is_taken_as_it_is(closing: ExitStack) -> None:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate)
    connected(closing, TlsSettings(context=context))
