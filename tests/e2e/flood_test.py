#!/usr/bin/env python3
"""Floods: a daemon of 96 MiB under clients that send more than it can hold.

One network that streams its weights; half of the clients send requests under the limit, the other
half does harm: messages of 64 MiB, messages near the limit, thousands of tiny calls, connections
that begin and stop, bytes that are no protocol. The budget is kept, unconfined and in a memory
cgroup of that size; nothing is killed, and every valid request is answered, or refused with a code
that docs/protocol.md names. How much of the unloaded throughput is left is printed.

Usage: flood_test.py BUILD_DIR [--seconds N] [--clients N]
       The run of docs/benchmarks.md: --seconds 60 --clients 32
"""
import argparse
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from daemon import MIB, Cgroup, Daemon, skip

BUDGET = 96 * MIB
# RESOURCE_EXHAUSTED: no room now. UNAVAILABLE: too many wait, or the connection made room.
DOCUMENTED = {"OK", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
METHOD = "/inference.GRPCInferenceService/ModelInfer"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, contents):
    return varint(number << 3 | 2) + varint(len(contents)) + contents


def request(model, size):
    """A ModelInferRequest for an image, or one of the given size that is none."""
    raw = struct.pack("<f", 0.5) * (3 * 224 * 224) if size is None else bytes(size)
    shape = b"".join(varint(d) for d in (1, 3, 224, 224))
    tensor = field(1, b"input") + field(2, b"FP32") + field(3, shape)
    return field(1, model.encode()) + field(5, tensor) + field(7, raw)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def headers(stream, path=METHOD, end=False):
    """Headers of a call, each a literal that is not indexed."""
    pairs = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()),
             (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc"))
    block = b"".join(b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v for k, v in pairs)
    return frame(1, 4 | (1 if end else 0), stream, block)


class Clients:
    """Threads that do one thing again and again until they are told to stop."""

    def __init__(self, count, act):
        self.stop, self.results, self.lock = threading.Event(), Counter(), threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(act, i)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, act, index):
        while not self.stop.is_set():
            result = act(index)
            with self.lock:
                self.results[result] += 1
            if result != "OK":
                self.stop.wait(0.005)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        return self.results


def call_again_and_again(address, size, count, seconds):
    """Run by `main --send` in a process of its own: prints how often each code was the answer."""
    import grpc
    message = request("net", size)
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    calls = [grpc.insecure_channel(address, options=options).unary_unary(METHOD)
             for _ in range(count)]

    def call(index):
        try:
            calls[index](message, timeout=60)
            return "OK"
        except grpc.RpcError as error:
            return error.code().name

    clients = Clients(count, call)
    time.sleep(seconds)
    for code, times in clients.end().items():
        print(code, times)


def send(daemon, size, count, seconds):
    command = [sys.executable, __file__, "-", "--send", daemon.address, "--size",
               str(-1 if size is None else size), "--clients", str(count), "--seconds", str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def answers(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return Counter({code: int(times) for code, times in map(str.split, out.splitlines())})


def connect(daemon):
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(20)
    raw.connect(str(daemon.socket))
    return raw


def hostile(daemon, draw):
    """One connection that does harm by hand; returns what it tried."""
    act = draw.choice(("garbage", "half a preface", "stalls", "huge length", "small method",
                       "resets"))
    try:
        with connect(daemon) as raw:
            if act == "garbage":
                raw.sendall(draw.randbytes(1000))
            elif act == "half a preface":
                raw.sendall(PREFACE[:draw.randrange(24)])
            else:
                raw.sendall(PREFACE + frame(4, 0, 0))
            if act == "stalls":
                # The turn is taken and nothing is sent.
                raw.sendall(headers(1) + frame(0, 0, 1, b"\0" + struct.pack(">I", 4 * MIB)))
                time.sleep(draw.uniform(0, 1.5))
            elif act == "huge length":
                raw.sendall(headers(1) + frame(0, 0, 1, b"\0\xff\xff\xff\xff" + bytes(16000)))
                for _ in range(200):
                    raw.sendall(frame(0, 0, 1, bytes(16384)))
            elif act == "small method":
                path = "/inference.GRPCInferenceService/ServerLive"
                raw.sendall(headers(1, path) + frame(0, 0, 1, b"\0" + struct.pack(">I", 4 * MIB)))
                for _ in range(200):
                    raw.sendall(frame(0, 0, 1, bytes(16384)))
            elif act == "resets":
                for stream in range(1, 400, 2):
                    raw.sendall(headers(stream) + frame(3, 0, stream, bytes(4)))
            raw.settimeout(0.05)
            raw.recv(4096)
    except OSError:
        pass
    return act


def tiny_calls(daemon, connections, calls):
    """Many calls of no content at once on each of many connections; how many were answered."""
    sockets = []
    for _ in range(connections):
        raw = connect(daemon)
        raw.sendall(PREFACE + frame(4, 0, 0))
        sockets.append(raw)
    ended = 0
    for raw in sockets:
        raw.sendall(b"".join(headers(s) + frame(0, 1, s, b"\0\0\0\0\0")
                             for s in range(1, 2 * calls, 2)))
    for raw in sockets:
        ended += ends_of_streams(raw, calls)
        raw.close()
    return ended


def large_small_calls(daemon, connections, size):
    """Connections that each send all but the last bytes of a large message to a method that has no
    use for one, as fast as its windows allow; how many were closed."""
    sockets = [connect(daemon) for _ in range(connections)]
    path = "/inference.GRPCInferenceService/ServerLive"
    closed = 0
    for raw in sockets:
        raw.sendall(PREFACE + frame(4, 0, 0) + frame(8, 0, 0, struct.pack(">I", 0x7fff0000)) +
                    headers(1, path) + frame(0, 0, 1, b"\0" + struct.pack(">I", size)))
    for raw in sockets:
        try:
            for _ in range(size // 16384 - 1):
                raw.sendall(frame(0, 0, 1, bytes(16384)))
            while raw.recv(65536):
                pass
            closed += 1
        except ConnectionError:
            closed += 1
        except OSError:
            pass
    for raw in sockets:
        raw.close()
    return closed


def ends_of_streams(raw, wanted):
    data, ended = b"", 0
    while ended < wanted:
        try:
            got = raw.recv(65536)
        except OSError:
            break
        if not got:
            break
        data += got
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
            size = int.from_bytes(data[:3], "big")
            ended += data[3] == 3 or (data[3] in (0, 1) and data[4] & 1)
            data = data[9 + size:]
    return ended


def flood(daemon, arguments):
    """The phases against one daemon; prints what it found."""
    daemon.wait_ready()
    seconds, count = arguments.seconds, arguments.clients
    before = answers(send(daemon, None, count, seconds))
    print(f"  alone: {dict(before)}, {before['OK'] / seconds:.1f} answers/s")
    assert before["OK"] > 0 and set(before) <= DOCUMENTED, before
    near = daemon.status_limit() - 4096
    for name, size in (("64 MiB", 64 * MIB), ("24 MiB", 24 * MIB), ("just under the limit", near)):
        harm = send(daemon, size, count, seconds + 1)
        valid = answers(send(daemon, None, count, seconds))
        refused = answers(harm)
        print(f"  beside {count} clients with messages of {name}: {dict(valid)}, "
              f"{valid['OK'] / seconds:.1f} answers/s = "
              f"{100 * valid['OK'] / before['OK']:.0f} % of alone; theirs: {dict(refused)}; "
              f"peak {daemon.peak_bytes() / MIB:.1f} MiB")
        assert valid["OK"] > 0 and set(valid) <= DOCUMENTED, valid
        assert "OK" not in refused and refused["RESOURCE_EXHAUSTED"] > 0, refused
        assert set(refused) <= DOCUMENTED | {"INVALID_ARGUMENT", "DEADLINE_EXCEEDED"}, refused
    draws = [random.Random(index) for index in range(count)]
    harm = Clients(count, lambda index: hostile(daemon, draws[index]))
    valid = answers(send(daemon, None, count, seconds))
    print(f"  beside {count} hostile connections: {dict(valid)}, "
          f"{100 * valid['OK'] / before['OK']:.0f} % of alone; theirs: {dict(harm.end())}; "
          f"peak {daemon.peak_bytes() / MIB:.1f} MiB")
    assert valid["OK"] > 0 and set(valid) <= DOCUMENTED, valid
    closed = large_small_calls(daemon, 32, near)
    print(f"  32 large messages to a method without tensors: {closed} connections closed; "
          f"peak {daemon.peak_bytes() / MIB:.1f} MiB")
    assert closed == 32
    ended = tiny_calls(daemon, 100, 100)
    print(f"  10000 tiny calls at once: {ended} answered; peak {daemon.peak_bytes() / MIB:.1f} MiB")
    assert ended == 10000
    assert daemon.process.poll() is None, daemon.log_text()
    daemon.ctl("infer", "net", "--random", "1")
    peak = daemon.peak_bytes()
    assert daemon.stop() == 0, daemon.log_text()
    return peak


class FloodedDaemon(Daemon):
    def status_limit(self):
        """The default of limits.max_request at this budget."""
        return BUDGET // 16


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--send")
    parser.add_argument("--size", type=int)
    arguments = parser.parse_args()
    if arguments.send:
        size = None if arguments.size < 0 else arguments.size
        return call_again_and_again(arguments.send, size, arguments.clients, arguments.seconds)
    try:
        import grpc  # noqa: F401
    except ImportError:
        skip("python3-grpcio is not installed")
    binaries = Path(arguments.binaries)
    with tempfile.TemporaryDirectory(prefix="sluice-flood-") as scratch:
        model = Path(scratch) / "net.onnx"
        subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", "resnet50",
                        "--out", model], check=True)
        config = (f"memory: {{ budget: {BUDGET} }}\ncompute: {{ threads: 2 }}\n"
                  f"models:\n  - name: net\n    path: {model}\n")
        work = Path(scratch) / "work"
        print(f"unconfined, budget {BUDGET / MIB:.0f} MiB")
        with FloodedDaemon(binaries, config, work=work) as daemon:
            peak = flood(daemon, arguments)
        assert peak <= BUDGET, f"peak {peak} over the budget of {BUDGET}"
        cgroup = Cgroup.make(BUDGET)
        if cgroup is None:
            print("SKIPPED in part: no memory cgroup may be made here", flush=True)
            return
        try:
            print(f"in a cgroup of {BUDGET / MIB:.0f} MiB")
            with FloodedDaemon(binaries, config, work=work, cgroup=cgroup) as daemon:
                peak = flood(daemon, arguments)
            print(f"  group's peak {cgroup.peak() / MIB:.1f} MiB, kills {cgroup.kills()}")
            assert cgroup.kills() == 0
            assert peak <= BUDGET, f"peak {peak} over the budget of {BUDGET}"
        finally:
            cgroup.remove()


if __name__ == "__main__":
    main()
