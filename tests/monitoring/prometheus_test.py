#!/usr/bin/python3
"""A Prometheus scrapes a scheduler and a server with the CPU device, and evaluates the alerts: a server
that ends makes the ones fire that are about it. Every metric that an alert or the dashboard asks for is there."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "deploy/monitoring")]
import harness  # noqa: E402  (found by the paths above)
import rules  # noqa: E402

RULES = ROOT / "deploy/kubernetes/components/prometheus-operator/rules.yaml"
DASHBOARD = ROOT / "deploy/monitoring/dashboard.json"
# How often each is scraped, and how long an answer may take: on a busy machine some seconds.
SCRAPE = "10s"


def metrics_asked_for(expression):
    return set(re.findall(r"\bwarpline_\w+", expression))


class PrometheusTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-prometheus-"))
        self.stack.callback(shutil.rmtree, self.folder)
        self.installation = harness.installation_with({"bin/slice_limits": "tests/cuda/slice_limits"})
        self.stack.callback(self.installation.close)
        self.ports = {name: harness.local_server.free_port() for name in ("scheduler", "server", "prometheus")}
        self.scheduler = harness.Scheduler(self.installation, "--tenant_metrics",
                                           "--admin_listen=127.0.0.1:%d" % self.ports["scheduler"])
        self.stack.callback(self.scheduler.close)
        self.credential = self.warpline("tenant", "add", "vision").strip()

    def warpline(self, *arguments):
        env = self.installation.client_environment("")
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(self.scheduler.folder / "state/operator.credential")
        done = subprocess.run([str(self.installation.root / "bin/warpline"), *arguments,
                               "--endpoint=" + self.scheduler.endpoint], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=harness.GIVE_UP_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def start_server(self):
        credential = self.scheduler.folder / "server"
        credential.write_text(self.warpline("servers", "add", "a"))
        server = self.stack.enter_context(harness.server(
            self.installation, "--scheduler=" + self.scheduler.endpoint, "--name=a", "--tenant_metrics",
            "--scheduler_credential_file=%s" % credential, "--admin_listen=127.0.0.1:%d" % self.ports["server"]))
        harness.wait_until(lambda: "up server=a" in self.scheduler.log(), "the server is known")
        return server

    def start_prometheus(self):
        """The rules are those of deploy/, but nothing has to last."""
        alerts = yaml.safe_load(rules.plain(RULES.read_text(encoding="utf-8")))
        for group in alerts["groups"]:
            for rule in group["rules"]:
                rule["for"] = "0s"
        (self.folder / "rules.yml").write_text(yaml.safe_dump(alerts), encoding="utf-8")
        jobs = [{"job_name": name, "static_configs": [
            {"targets": ["127.0.0.1:%d" % self.ports[name]], "labels": {"service": "warpline-" + name}}]}
                for name in ("scheduler", "server")]
        config = {"global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": "200ms"},
                  "rule_files": [str(self.folder / "rules.yml")], "scrape_configs": jobs}
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        with open(self.folder / "log", "wb") as log:
            process = subprocess.Popen(
                ["prometheus", "--config.file=%s" % (self.folder / "prometheus.yml"),
                 "--storage.tsdb.path=%s" % (self.folder / "data"),
                 "--web.listen-address=127.0.0.1:%d" % self.ports["prometheus"]],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        harness.wait_until(lambda: self.ask("status/runtimeinfo") is not None,
                           lambda: (self.folder / "log").read_text())

    def ask(self, what, **query):
        url = "http://127.0.0.1:%d/api/v1/%s?%s" % (self.ports["prometheus"], what, urllib.parse.urlencode(query))
        try:
            with urllib.request.urlopen(url, timeout=harness.GIVE_UP_S) as reply:
                return json.load(reply)["data"]
        except OSError:
            return None

    def series(self, query):
        return (self.ask("query", query=query) or {"result": []})["result"]

    def firing(self):
        """Nothing where Prometheus is too busy to say."""
        alerts = (self.ask("alerts") or {"alerts": []})["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def test_alerts_fire_on_what_happens(self):
        server = self.start_server()
        self.start_prometheus()
        harness.wait_until(lambda: self.series('up{service="warpline-server"} == 1')
                           and self.series("warpline_scheduler_leads == 1")
                           and self.series("warpline_scheduler_servers_up == 1"), "both are scraped")
        states = [(rule["name"], rule.get("lastError", "")) for group in self.ask("rules")["groups"]
                  for rule in group["rules"] if rule["health"] == "err"]
        self.assertEqual(states, [])
        harness.wait_until(lambda: not self.firing(), lambda: "nothing fires: %s" % self.firing())
        os.kill(server.pid, signal.SIGKILL)
        harness.wait_until(lambda: {"WarplineServersLost", "WarplineServerUnreachable"} <= self.firing(),
                           lambda: "a lost server is told of: %s" % self.firing())
        self.assertNotIn("WarplineNobodyLeads", self.firing())

    def test_tenants_have_series_that_join_with_their_gpus(self):
        self.start_server()
        self.start_prometheus()
        env = dict(self.installation.client_environment(""), WARPLINE_CREDENTIAL=self.credential)
        said = self.folder / "holds"
        with open(said, "wb") as output:
            holds = subprocess.Popen([str(self.installation.root / "bin/warpline"), "run",
                                      "--endpoint=" + self.scheduler.endpoint, "--",
                                      str(self.installation.root / "bin/slice_limits"), "hold", "--piece=8"],
                                     env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.stack.callback(holds.wait)
        self.stack.callback(holds.kill)
        joined = ('warpline_tenant_memory_bytes{tenant="vision"} * on (UUID) group_left (modelName) '
                  "warpline_device_info >= %d" % (8 << 20))
        harness.wait_until(lambda: self.series(joined), lambda: "the tenant's memory, with the name of its GPU; "
                           "of what is scraped %s is up, the program said %s" % (
                               self.series("up"), said.read_text(encoding="utf-8")))
        harness.wait_until(lambda: self.series('warpline_scheduler_tenant_leases{tenant="vision"} == 1'),
                           "the tenant's lease")

    def test_everything_that_is_asked_for_is_there(self):
        self.start_server()
        env = dict(self.installation.client_environment(""), WARPLINE_CREDENTIAL=self.credential)
        subprocess.run([str(self.installation.root / "bin/warpline"), "run", "--endpoint=" + self.scheduler.endpoint,
                        "--", str(self.installation.root / "bin/slice_limits"), "memory", "--piece=64"],
                       env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.GIVE_UP_S, check=False)
        asked = set()
        for group in yaml.safe_load(rules.plain(RULES.read_text(encoding="utf-8")))["groups"]:
            for rule in group["rules"]:
                asked |= metrics_asked_for(rule["expr"])
        for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                asked |= metrics_asked_for(target["expr"])
        # Sessions of a tenant are a gauge, which is there while it has some.
        asked -= {"warpline_tenant_sessions", "warpline_tenant_memory_bytes"}
        harness.wait_until(lambda: asked <= self.metrics(), lambda: "not there: %s" % (asked - self.metrics()))

    def metrics(self):
        there = set()
        for name in ("scheduler", "server"):
            with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.ports[name]) as page:
                there |= set(re.findall(r"^(warpline_\w+)", page.read().decode(), re.MULTILINE))
        return there


if __name__ == "__main__":
    unittest.main()
