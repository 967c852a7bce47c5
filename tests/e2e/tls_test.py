#!/usr/bin/env python3
"""Who may connect: TLS, mutual TLS, certificates that change while the daemon runs, and the mode
and group of Unix sockets. A real daemon, certificates of the openssl command, real clients.

Usage: tls_test.py BUILD_DIR
"""
import grp
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from daemon import ROOT, Daemon, free_port, skip

LIVE = "/inference.GRPCInferenceService/ServerLive"
EMPTY = "memory: { budget: 64MiB }\n"


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """Signs certificates for 127.0.0.1 and the name edge.example; files in a folder of its own."""

    def __init__(self, folder, name):
        self.folder = Path(folder) / name
        self.folder.mkdir()
        self.certificate, self.key = self.folder / "ca.pem", self.folder / "ca.key"
        self._request(name, self.key, self.certificate, "-x509", "-days", "30")

    def _request(self, name, key, out, *more):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                f"/CN={name}", "-keyout", key, "-out", out, *more)
        key.chmod(0o600)

    def sign(self, name, days=30):
        """(certificate, key) of a name."""
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        certificate, extensions = self.folder / f"{name}.pem", self.folder / "extensions"
        self._request(name, key, request)
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:edge.example\n")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
                "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", certificate)
        return certificate, key


def install(pair, tls):
    """Copies a certificate and its key to where the configuration says."""
    for source, name in zip(pair, ("server.pem", "server.key")):
        shutil.copy(source, tls / name)
        (tls / name).chmod(0o600)


def call(port, ca=None, pair=None):
    """ServerLive by gRPC's own Python client: None when it answers, else the error's text."""
    import grpc
    target = f"127.0.0.1:{port}"
    if ca is None:
        channel = grpc.insecure_channel(target)
    else:
        key, chain = (pair[1].read_bytes(), pair[0].read_bytes()) if pair else (None, None)
        channel = grpc.secure_channel(
            target, grpc.ssl_channel_credentials(Path(ca).read_bytes(), key, chain))
    try:
        answer = channel.unary_unary(LIVE)(b"", timeout=10)
        assert answer == b"\x08\x01", answer
        return None
    except grpc.RpcError as error:
        return error.details() or str(error.code())
    finally:
        channel.close()


def shown_subject(port, ca, pair=None):
    """The subject of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    if pair:
        context.load_cert_chain(*pair)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            return dict(part[0] for part in tls.getpeercert()["subject"])["commonName"]


def wait_for(what, found, seconds=20):
    until = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class Served:
    """A daemon that speaks TLS on every IPv4 address of the machine, and its files."""

    def __init__(self, binaries, scratch, name, extra=""):
        self.port = free_port()
        self.work = scratch / name
        self.work.mkdir()
        self.daemon = Daemon(binaries, "", work=self.work)
        self.config = (f'listen: ["0.0.0.0:{self.port}", "{self.daemon.address}"]\n'
                       f"cache_dir: {self.work / 'cache'}\n{EMPTY}"
                       f"tls:\n  certificate: server.pem\n  key: server.key\n{extra}")
        self.daemon.config_path.write_text(self.config)

    def reload(self):
        self.daemon.process.send_signal(signal.SIGHUP)

    def log(self):
        return self.daemon.log_path.read_text(errors="replace")


def refused(binaries, scratch, config, want, arguments=()):
    """Exit code 3, with one error that says `want`."""
    path = scratch / "refused.yaml"
    path.write_text(EMPTY + f"cache_dir: {scratch / 'cache'}\n" + config)
    done = subprocess.run([binaries / "server" / "sluiced", "--config", path, *arguments],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, f"exit {done.returncode}, want 3\n{done.stderr}"
    assert re.search(want, done.stderr), f"no {want!r} in\n{done.stderr}"
    errors = [line for line in done.stderr.splitlines() if " got " in line]
    assert len(errors) == 1, done.stderr


def check_server_only(binaries, scratch, authority, other):
    served = Served(binaries, scratch, "server-only")
    install(authority.sign("first"), served.work)
    with served.daemon as daemon:
        daemon.wait_ready()  # Over the Unix socket, which speaks no TLS.
        assert call(served.port, authority.certificate) is None
        assert call(served.port, other.certificate), "a stranger's authority must not do"
        assert call(served.port), "a client without TLS must not get through"
        ctl = [binaries / "client" / "sluicectl", "--address", f"127.0.0.1:{served.port}", "ready"]
        ca = ["--tls-ca", authority.certificate]
        assert subprocess.run(ctl + ca).returncode == 0
        assert subprocess.run(ctl + ca + ["--tls-name", "edge.example"]).returncode == 0
        plain = subprocess.run(ctl, capture_output=True, text=True)
        assert plain.returncode == 3 and "--tls-ca" in plain.stderr, plain
        wrong = subprocess.run(ctl + ca + ["--tls-name", "other.example"], capture_output=True)
        assert wrong.returncode == 3, wrong
        check_reload(served, authority, other)
        assert daemon.stop() == 0


def check_reload(served, authority, other):
    import grpc
    with open(authority.certificate, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    with grpc.secure_channel(f"127.0.0.1:{served.port}", credentials) as channel:
        old = channel.unary_unary(LIVE)
        old(b"", timeout=10)
        install(authority.sign("second"), served.work)
        assert shown_subject(served.port, authority.certificate) == "first"
        served.reload()
        wait_for("the new certificate", lambda: "CN=second" in served.log())
        assert shown_subject(served.port, authority.certificate) == "second"
        # Each of these is told, and changes nothing.
        broken = (("got a key of another certificate",
                   lambda: shutil.copy(other.sign("third")[1], served.work / "server.key")),
                  ("mode 0644", lambda: (served.work / "server.key").chmod(0o644)),
                  ("got no certificate", lambda: (served.work / "server.pem").write_text("")),
                  ("cannot open", lambda: (served.work / "server.pem").unlink()))
        for text, damage in broken:
            install(authority.sign("second"), served.work)
            damage()
            served.reload()
            wait_for(text, lambda text=text: text in served.log())
            assert shown_subject(served.port, authority.certificate) == "second"
        # A connection that was there before all this still serves.
        old(b"", timeout=10)
    install(authority.sign("third", days=1), served.work)
    served.reload()
    wait_for("a warning", lambda: "CN=third expires on" in served.log())
    assert shown_subject(served.port, authority.certificate) == "third"


def check_mutual(binaries, scratch, authority, other):
    served = Served(binaries, scratch, "mutual",
                    f"  client_ca: {authority.certificate}\n  loopback: true\n")
    served.daemon.config_path.write_text(served.config.replace("0.0.0.0", "127.0.0.1"))
    install(authority.sign("mutual"), served.work)
    client, stranger = authority.sign("client"), other.sign("client")
    with served.daemon as daemon:
        daemon.wait_ready()
        assert call(served.port, authority.certificate, client) is None
        assert call(served.port, authority.certificate), "a client without certificate"
        assert call(served.port, authority.certificate, stranger), "a stranger's certificate"
        assert call(served.port), "a client without TLS"
        ctl = [binaries / "client" / "sluicectl", "--address", f"127.0.0.1:{served.port}", "ready",
               "--tls-ca", authority.certificate]
        own = ["--tls-cert", client[0], "--tls-key", client[1]]
        assert subprocess.run(ctl + own).returncode == 0
        assert subprocess.run(ctl, capture_output=True).returncode == 3
        environment = dict(os.environ, SLUICE_TLS_CERT=str(client[0]), SLUICE_TLS_KEY=str(client[1]))
        assert subprocess.run(ctl, env=environment).returncode == 0
        assert subprocess.run(ctl + ["--tls-cert", client[0]], capture_output=True).returncode == 2
        # Another authority of clients takes effect for new connections.
        served.daemon.config_path.write_text(
            daemon.config_path.read_text().replace(str(authority.certificate),
                                                   str(other.certificate)))
        served.reload()
        wait_for("the new authority", lambda: "new connections get" in served.log())
        assert call(served.port, authority.certificate, stranger) is None
        assert call(served.port, authority.certificate, client), "the old authority's client"
        assert daemon.stop() == 0


def check_refusals(binaries, scratch, authority, other):
    (scratch / "cache").mkdir()
    open_to_all = 'listen: ["0.0.0.0:0"]\n'
    for arguments in ((), ("--check",)):
        refused(binaries, scratch, open_to_all, r"listen\[0\]: got .* without TLS, want", arguments)
        refused(binaries, scratch, 'metrics: { listen: "0.0.0.0:0" }\n', r"metrics\.listen: got",
                arguments)
    certificate, key = authority.sign("refused")
    tls = f"{open_to_all}tls: {{ certificate: {certificate}, key: %s }}\n"
    refused(binaries, scratch, tls % other.sign("refused")[1], r"tls\.key: .*another certificate")
    refused(binaries, scratch, tls % certificate, r"tls\.key: .*got no private key", ("--check",))
    locked = scratch / "locked.key"
    openssl("pkey", "-in", key, "-aes128", "-passout", "pass:secret", "-out", locked)
    refused(binaries, scratch, tls % locked, r"tls\.key: .*got an encrypted key", ("--check",))
    refused(binaries, scratch, f"{open_to_all}tls: {{ certificate: {certificate} }}\n",
            r"tls\.key: got nothing")
    refused(binaries, scratch, tls % key + "insecure: true\n", r"insecure: got true beside")
    refused(binaries, scratch, "socket: { group: no-such-group }\n", r"socket\.group: got")
    example = (ROOT / "configs" / "tls.yaml").read_text()
    for path, own in (("/var/cache/sluice", scratch / "cache"), ("/var/lib/sluice/models", scratch / "none")):
        assert path in example
        example = example.replace(path, str(own))
    (scratch / "tls").mkdir()
    for source, name in ((certificate, "server.pem"), (key, "server.key"),
                         (other.certificate, "clients.pem")):
        shutil.copy(source, scratch / "tls" / name)
    (scratch / "none").mkdir()
    (scratch / "tls.yaml").write_text(example)
    ok = scratch / "ok.yaml"
    ok.write_text(EMPTY + f"cache_dir: {scratch / 'cache'}\n" + tls % key)
    for path in (ok, scratch / "tls.yaml"):
        done = subprocess.run([binaries / "server" / "sluiced", "--config", path, "--check"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    # Whoever can write the cache can write weights.
    (scratch / "cache").chmod(0o777)
    refused(binaries, scratch, "", r"cache_dir: got .* with mode 0777, want", ("--check",))
    (scratch / "cache").chmod(0o700)


def check_socket(binaries, scratch):
    group = next((g for g in grp.getgrall() if g.gr_gid not in (0, os.getegid())), None)
    if os.geteuid() != 0 or group is None:
        print("not checked, needs root: the group of a socket")
        return
    for mode in (0o600, 0o660, 0o666):
        extra = f"socket: {{ mode: {mode:04o}, group: {group.gr_name} }}\n"
        with Daemon(binaries, EMPTY + extra, work=scratch / f"socket-{mode:o}") as daemon:
            daemon.wait_ready()
            info = os.stat(daemon.socket)
            assert stat.S_IMODE(info.st_mode) == mode, oct(info.st_mode)
            assert info.st_gid == group.gr_gid, info
            assert daemon.stop() == 0


def main():
    binaries = Path(sys.argv[1])
    try:
        import grpc  # noqa: F401
    except ImportError:
        skip("python3-grpcio is not installed")
    if shutil.which("openssl") is None:
        skip("the openssl command is not installed")
    with tempfile.TemporaryDirectory(prefix="sluice-tls-") as scratch:
        scratch = Path(scratch).resolve()
        authority, other = Authority(scratch, "authority"), Authority(scratch, "other")
        check_refusals(binaries, scratch, authority, other)
        check_server_only(binaries, scratch, authority, other)
        check_mutual(binaries, scratch, authority, other)
        check_socket(binaries, scratch)
    print("TLS, mutual TLS, reload, refusals and sockets are as configured")


if __name__ == "__main__":
    main()
