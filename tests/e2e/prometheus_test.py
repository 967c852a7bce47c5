#!/usr/bin/env python3
"""A real Prometheus scrapes the daemon, promtool finds nothing to say about the metrics, every
metric of docs/metrics.md is in a scrape, and a scrape waits for neither a load nor an inference.

Usage: prometheus_test.py BUILD_DIR
"""
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from daemon import MIB, ROOT, Daemon, free_port, skip

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


def families(page):
    """Name to type, from the table of docs/metrics.md."""
    return dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", page, flags=re.M))


def all_are_there(text):
    documented = families((ROOT / "docs" / "metrics.md").read_text())
    scraped = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, flags=re.M))
    assert scraped == documented, set(scraped.items()) ^ set(documented.items())
    for name, kind in documented.items():
        sample = name + ("_count" if kind == "histogram" else "")
        assert re.search(rf"^{sample}(\{{.*\}})? \S+$", text, flags=re.M), f"{name}: no sample"
    return len(documented)


def value(text, series):
    return float(re.search(rf"^{re.escape(series)} (\S+)$", text, flags=re.M)[1])


def scrapes_while_it_works(daemon, binaries, config, model):
    """Scrapes while one network is packed and another one answers; how often it saw that."""
    daemon.write_config(config + f"  - name: large\n    path: {model}\n    max_resident: 0\n")
    daemon.process.send_signal(signal.SIGHUP)
    callers = [subprocess.Popen([binaries / "client" / "sluicectl", "--address", daemon.address,
                                 "infer", "net", "--random", "1"], stdout=subprocess.DEVNULL)
               for _ in range(8)]
    loading = 'sluice_model_state{model="large",version="1",state="LOADING"}'
    ready = 'sluice_model_state{model="large",version="1",state="READY"}'
    seen = 0
    until = time.monotonic() + 120
    while True:
        text = daemon.metrics()
        if loading in text:
            seen += value(text, loading) == 1
            if value(text, ready) == 1:
                break
        assert time.monotonic() < until, daemon.log_text()
    assert all(caller.wait(120) == 0 for caller in callers)
    # A scrape that waits for the load sees none of it.
    assert seen >= 3, seen
    return seen


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
        for architecture, file in (("mobilenet_v2", model), ("resnet50", scratch / "large.onnx")):
            subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", architecture,
                            "--out", file], check=True)
        config = (f"memory: {{ budget: {96 * MIB} }}\nmodels:\n  - name: net\n    path: {model}\n")
        with Daemon(binaries, config, work=scratch / "work") as daemon:
            daemon.wait_ready()
            for _ in range(3):
                daemon.ctl("infer", "net", "--random", "1")
            seen = scrapes_while_it_works(daemon, binaries, config, scratch / "large.onnx")
            daemon.ctl("infer", "large", "--random", "1")
            text = daemon.metrics()
            count = all_are_there(text)
            assert value(text, 'sluice_residency_misses_total{model="large",version="1"}') > 0
            assert value(text, 'sluice_residency_hits_total{model="net",version="1"}') > 0
            assert value(text, "sluice_storage_read_bytes_total") > 100 * 1000 * 1000
            assert value(text, 'sluice_request_size_bytes_sum{model="net",version="1"}') == (
                11 * 4 * 3 * 224 * 224)
            assert value(text, 'sluice_reloads_total{result="ok"}') == 1
            daemon.config_path.write_text("this: is no configuration\n")
            daemon.process.send_signal(signal.SIGHUP)
            until = time.monotonic() + 30
            while value(daemon.metrics(), "sluice_config_last_reload_success") != 0:
                assert time.monotonic() < until, daemon.log_text()
            print(f"{count} metrics documented and scraped; {seen} scrapes during a load")
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
