"""A real `sluiced` in a process of its own, for tests and benchmarks.

    with Daemon(binaries, config_text) as daemon:
        daemon.wait_ready()
        daemon.ctl("infer", "detector", "--inputs", folder, "--raw", out)
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def shared():
    """The folder of real models and tools beside the checkout, or None."""
    folder = Path(os.environ.get("SLUICE_SHARED", ROOT / ".." / "shared")).resolve()
    return folder if (folder / "models").is_dir() else None


def skip(reason):
    """Ends the test program; ctest shows it as skipped (SKIP_RETURN_CODE 77)."""
    print(f"SKIPPED: {reason}", flush=True)
    sys.exit(77)


class Cgroup:
    """A memory cgroup of its own, version 1 or 2. `Cgroup.make` is None where that is not allowed."""

    def __init__(self, path, version):
        self.path, self.version = path, version

    @staticmethod
    def make(limit):
        name = f"sluice-test-{os.getpid()}"
        for base, version in ((Path("/sys/fs/cgroup/memory"), 1), (Path("/sys/fs/cgroup"), 2)):
            if version == 2 and not (base / "cgroup.controllers").exists():
                continue
            group = Cgroup(base / name, version)
            try:
                group.path.mkdir()
                limit_file = "memory.limit_in_bytes" if version == 1 else "memory.max"
                (group.path / limit_file).write_text(str(limit))
                for swap in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
                    if (group.path / swap).exists():
                        (group.path / swap).write_text(str(limit) if version == 1 else "0")
                return group
            except OSError:
                group.remove()
        return None

    def nested(self):
        """A group inside this one, without a limit of its own."""
        group = Cgroup(self.path / "inner", self.version)
        group.path.mkdir()
        return group

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self):
        text = ""
        for name in ("memory.oom_control", "memory.events"):
            if (self.path / name).exists():
                text += (self.path / name).read_text()
        return sum(int(n) for n in re.findall(r"oom_kill (\d+)", text))

    def peak(self):
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            if (self.path / name).exists():
                return int((self.path / name).read_text())
        return 0

    def remove(self):
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)


class Daemon:
    """`config` is YAML without listen, metrics and cache_dir, which are supplied."""

    def __init__(self, binaries, config, work=None, cgroup=None, env=None, prefix=()):
        self.binaries = Path(binaries)
        self.work = Path(work) if work else Path(tempfile.mkdtemp(prefix="sluice-e2e-"))
        self.remove_work = work is None
        self.work.mkdir(parents=True, exist_ok=True)
        self.socket = Path(tempfile.mkdtemp(prefix="sluice-s-")) / "s"
        self.address = f"unix:{self.socket}"
        self.config_path = self.work / "sluice.yaml"
        self.metrics_port = free_port()
        self.write_config(config)
        self.log_path = self.work / "sluiced.log"
        self.cgroup = cgroup
        self.env = dict(os.environ, **(env or {}))
        self.prefix = list(prefix)
        self.process = None

    def write_config(self, config):
        self.config_path.write_text(
            f'listen: ["{self.address}"]\n'
            f'metrics: {{ listen: "127.0.0.1:{self.metrics_port}" }}\n'
            f"cache_dir: {self.work / 'cache'}\n" + config)

    def start(self):
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            self.prefix + [self.binaries / "server" / "sluiced", "--config", self.config_path],
            stdout=self.log, stderr=self.log, env=self.env,
            preexec_fn=self.cgroup.enter if self.cgroup else None)
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.socket.parent, ignore_errors=True)
        if self.remove_work:
            shutil.rmtree(self.work, ignore_errors=True)

    def stop(self, how=signal.SIGTERM, seconds=60):
        """Exit status of the daemon; it must be gone within `seconds`."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"sluiced did not stop within {seconds} s\n{self.log_text()}")
        self.log.close()
        return self.process.returncode

    def log_text(self):
        return self.log_path.read_text(errors="replace")[-6000:]

    def ctl(self, *arguments, check=True, timeout=300):
        """Runs sluicectl; its CompletedProcess. With check, a failure raises with both texts."""
        command = [str(self.binaries / "client" / "sluicectl"), "--address", self.address]
        done = subprocess.run(command + [str(a) for a in arguments], capture_output=True, text=True,
                              timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"sluicectl {' '.join(map(str, arguments))}: exit "
                                 f"{done.returncode}\n{done.stdout}{done.stderr}\n{self.log_text()}")
        return done

    def ctl_json(self, *arguments):
        return json.loads(self.ctl("--json", *arguments).stdout)

    def wait_ready(self, seconds=300):
        """Until every model has been loaded or refused."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"sluiced ended: {self.process.returncode}\n{self.log_text()}")
            if self.socket.exists() and self.ctl("ready", check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"not ready after {seconds} s\n{self.log_text()}")

    def status(self):
        return self.ctl_json("status")

    def model(self, name):
        return next(m for m in self.status()["models"] if m["name"] == name)

    def metrics(self):
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()

    def process_kib(self, key):
        """A line of /proc/PID/status in KiB: VmHWM, VmRSS, VmSwap."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{key}:\s+(\d+) kB", text, flags=re.M)[1])

    def peak_bytes(self):
        """VmHWM + VmSwap, as DESIGN's promise 1 counts it."""
        return (self.process_kib("VmHWM") + self.process_kib("VmSwap")) * 1024


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cached_bytes(path):
    """Bytes of a file that lie in the page cache (mincore)."""
    import ctypes
    import mmap
    size = os.path.getsize(path)
    if size == 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    with open(path, "rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        vector = ctypes.create_string_buffer(pages)
        if libc.mincore(address, size, vector) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        libc.munmap(address, size)
    return sum(byte & 1 for byte in vector.raw[:pages]) * mmap.PAGESIZE


def write_random_inputs(model, folder, seed):
    """A tensor set of seeded values for a model as `sluicectl metadata` describes it."""
    import random
    import struct
    draw = random.Random(seed)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = []
    for i, tensor in enumerate(model["inputs"]):
        assert tensor["datatype"] == "FP32", tensor
        count = 1
        for d in tensor["shape"]:
            count *= int(d)
        values = [draw.uniform(-1, 1) for _ in range(min(count, 4096))]
        values = (values * (count // len(values) + 1))[:count]
        (folder / f"{i:02}.bin").write_bytes(struct.pack(f"<{count}f", *values))
        tensors.append({"name": tensor["name"], "dtype": "float32",
                        "shape": [int(d) for d in tensor["shape"]], "file": f"{i:02}.bin"})
    (folder / "tensors.json").write_text(
        json.dumps({"schema": "tensor-set/1", "tensors": tensors}))


def read_outputs(folder):
    """Name to bytes, of a tensor set that `sluicectl infer --raw` wrote."""
    folder = Path(folder)
    listing = json.loads((folder / "tensors.json").read_text())
    return {t["name"]: (folder / t["file"]).read_bytes() for t in listing["tensors"]}
