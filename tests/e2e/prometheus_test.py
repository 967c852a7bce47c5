#!/usr/bin/env python3
"""A real Prometheus scrapes the daemon, and promtool finds nothing to say about the metrics.

Usage: prometheus_test.py BUILD_DIR
"""
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from daemon import MIB, Daemon, free_port, skip

# Each must return data once the model has answered.
EXPRESSIONS = (
    'up{job="sluice"} == 1',
    "sluice_memory_budget_bytes > 0",
    "sum(sluice_memory_reserved_bytes) <= sum(sluice_memory_budget_bytes)",
    'sluice_requests_total{model="net",code="OK"} >= 3',
    'histogram_quantile(0.9, sum by (le) (sluice_request_duration_seconds_bucket{model="net"}))',
    'sluice_model_weight_bytes{model="net"} > 0',
    'sluice_model_state{model="net",state="READY"} == 1',
    "sum(process_resident_memory_bytes) < sum(sluice_memory_budget_bytes)",
)


def query(port, expression):
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())["data"]["result"]


def main():
    binaries = Path(sys.argv[1])
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        skip("Debian's prometheus is not installed")
    with tempfile.TemporaryDirectory(prefix="sluice-prom-") as scratch:
        scratch = Path(scratch)
        model = scratch / "net.onnx"
        subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", "mobilenet_v2",
                        "--out", model], check=True)
        config = (f"memory: {{ budget: {96 * MIB} }}\nmodels:\n  - name: net\n    path: {model}\n")
        with Daemon(binaries, config, work=scratch / "work") as daemon:
            daemon.wait_ready()
            for _ in range(3):
                daemon.ctl("infer", "net", "--random", "1")
            lint = subprocess.run(["promtool", "check", "metrics"], input=daemon.metrics(),
                                  capture_output=True, text=True)
            assert lint.returncode == 0, lint.stdout + lint.stderr
            port = free_port()
            (scratch / "prometheus.yml").write_text(
                "global: { scrape_interval: 1s }\nscrape_configs:\n  - job_name: sluice\n"
                f"    static_configs: [ {{ targets: ['127.0.0.1:{daemon.metrics_port}'] }} ]\n")
            with open(scratch / "prometheus.log", "wb") as log:
                prometheus = subprocess.Popen(
                    ["prometheus", f"--config.file={scratch / 'prometheus.yml'}",
                     f"--storage.tsdb.path={scratch / 'tsdb'}",
                     f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
            try:
                missing = EXPRESSIONS
                until = time.monotonic() + 60
                while missing and time.monotonic() < until:
                    time.sleep(1)
                    try:
                        missing = [e for e in EXPRESSIONS if not query(port, e)]
                    except OSError:
                        continue
                assert not missing, f"no data for {missing}\n{daemon.metrics()}"
            finally:
                prometheus.terminate()
                prometheus.wait(30)
    print(f"Prometheus answers {len(EXPRESSIONS)} expressions; promtool check metrics passes")


if __name__ == "__main__":
    main()
