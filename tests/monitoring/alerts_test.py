#!/usr/bin/python3
"""The alerts: that Prometheus takes them, when each fires and when it does not (alerts.test.yaml), that each
has a runbook, and that the dashboard is one."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RULES = ROOT / "deploy/kubernetes/components/prometheus-operator/rules.yaml"
UNIT_TESTS = pathlib.Path(__file__).resolve().parent / "alerts.test.yaml"
OPERATIONS = ROOT / "docs/operations.md"


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


class AlertsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-alerts-"))
        cls.rules = cls.folder / "warpline.rules.yml"
        cls.rules.write_bytes(subprocess.run([str(ROOT / "deploy/monitoring/rules.py"), str(RULES)],
                                             stdout=subprocess.PIPE, check=True).stdout)
        groups = yaml.safe_load(cls.rules.read_text(encoding="utf-8"))["groups"]
        cls.alerts = {rule["alert"]: rule for group in groups for rule in group["rules"]}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_unit_tests(self, rules):
        """Of these rules, beside a copy of the tests."""
        (self.folder / "tests.yaml").write_bytes(UNIT_TESTS.read_bytes())
        self.rules.write_text(rules, encoding="utf-8")
        return promtool("test", "rules", self.folder / "tests.yaml")

    def test_prometheus_takes_the_rules(self):
        status, said = promtool("check", "rules", self.rules)
        self.assertEqual(status, 0, said)
        self.assertIn("%d rules found" % len(self.alerts), said)

    def test_each_alert_fires_when_it_should_and_not_before(self):
        status, said = self.run_unit_tests(self.rules.read_text(encoding="utf-8"))
        self.assertEqual(status, 0, said)
        fires, silent = set(), set()
        for test in yaml.safe_load(UNIT_TESTS.read_text(encoding="utf-8"))["tests"]:
            for case in test["alert_rule_test"]:
                (fires if case["exp_alerts"] else silent).add(case["alertname"])
        self.assertEqual(fires, set(self.alerts))
        self.assertEqual(silent, set(self.alerts))

    def test_the_unit_tests_notice_every_threshold(self):
        """An alert that fires at once, or never, fails them."""
        rules = self.rules.read_text(encoding="utf-8")
        try:
            for name in self.alerts:
                for change in ("never", "always"):
                    with self.subTest(name, change=change):
                        changed = yaml.safe_load(rules)
                        for rule in changed["groups"][0]["rules"]:
                            if rule["alert"] == name:
                                rule["expr"] = "vector(1) < 0" if change == "never" else "vector(1)"
                                rule["for"] = "0s"
                        status, _ = self.run_unit_tests(yaml.safe_dump(changed))
                        self.assertNotEqual(status, 0)
        finally:
            self.rules.write_text(rules, encoding="utf-8")

    def test_each_alert_has_a_runbook(self):
        headings = re.findall(r"^### (\w+)$", OPERATIONS.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(sorted(headings), sorted(self.alerts))
        for name, rule in self.alerts.items():
            self.assertEqual(rule["annotations"]["runbook_url"], "docs/operations.md#" + name.lower())
            self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))

    def test_the_dashboard_is_one(self):
        board = json.loads((ROOT / "deploy/monitoring/dashboard.json").read_text(encoding="utf-8"))
        identities = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(identities), len(set(identities)))
        places = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertLess(x, 24)
                    self.assertNotIn((x, y), places, panel["title"])
                    places.add((x, y))
            # Prometheus reads each expression.
            for target in panel["targets"]:
                rule = {"groups": [{"name": "a", "rules": [{"record": "a", "expr": target["expr"]}]}]}
                path = self.folder / "panel.yml"
                path.write_text(yaml.safe_dump(rule), encoding="utf-8")
                status, said = promtool("check", "rules", path)
                self.assertEqual(status, 0, said)


if __name__ == "__main__":
    unittest.main()
