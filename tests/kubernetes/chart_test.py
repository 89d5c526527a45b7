#!/usr/bin/python3
"""The Helm chart of deploy/kubernetes and Kustomize give the same objects, with each pair of components.

The folder that WARPLINE_KUBERNETES_BINARIES names has helm; without it the test skips itself."""
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import manifests
import manifests_test
import yaml

sys.path.insert(0, str(manifests.ROOT / "tests"))

import harness  # noqa: E402  (found by the path above)

HELM = pathlib.Path(os.environ.get("WARPLINE_KUBERNETES_BINARIES", "/nonexistent")) / "helm"
CHART = manifests.SOURCES


def helm(*arguments, values=None, status=0):
    """What `helm template` prints, or its refusal."""
    done = subprocess.run(
        [str(HELM), "template", "warpline", str(manifests.copied_chart()), *arguments, "--values=-"],
        input=json.dumps(values or {}), capture_output=True, text=True, check=False,
        env={"HOME": os.environ.get("TEST_TMPDIR", "/tmp"), "PATH": ""})
    if (done.returncode == 0) != (status == 0):
        raise AssertionError(done.stderr)
    return done.stdout if status == 0 else done.stderr


def objects(components=None, **values):
    if components is not None:
        values["components"] = {name: name in components for name in manifests_test.COMPONENTS}
    text = helm("--namespace=warpline", values=values)
    return [item for item in yaml.safe_load_all(text) if item is not None]


def comparable(found):
    """(kind, name) -> object, without hashes in names: Helm's are others than Kustomize's."""
    text = re.sub(r'"(warpline-[a-z-]+?)-[0-9a-z]{10}"', r'"\1"', json.dumps(found))
    made = {}
    for item in json.loads(text):
        if item["kind"] == "ServiceMonitor":
            item["spec"].pop("podTargetLabels", None)  # A value of the chart's.
        made[(item["kind"], item["metadata"]["name"])] = item
    return made


class ChartTest(unittest.TestCase):
    maxDiff = None

    def assert_same(self, components):
        rendered = manifests.render_components(components) if components else manifests.render("base")
        self.assertEqual(comparable(objects(components, namespace=True)), comparable(rendered))

    def test_every_pair_of_components_is_as_with_kustomize(self):
        order = list(manifests_test.COMPONENTS)
        self.assert_same([])
        for pair in itertools.combinations(order, 2):
            wanted = set(pair).union(*(manifests_test.COMPONENTS[name] for name in pair))
            if {"admission-policy", "webhook"} <= wanted or {"dra", "dev"} <= wanted:
                continue
            with self.subTest("+".join(pair)):
                self.assert_same([name for name in order if name in wanted])

    def test_values_change_what_they_say(self):
        found = objects(
            slices={"tiny": "--memory=1GiB"}, images={"warpline": "my.registry/warpline@sha256:00",
                                                      "client": "my.registry/client:1"},
            server={"args": ["--drain_seconds=60"], "nodeSelector": {"gpu": "h100"}, "podLabels": {"team": "infra"}},
            scheduler={"storageClassName": "fast", "podAnnotations": {"example.org/note": "x"}},
            patches=[{"target": {"kind": "DaemonSet", "name": "warpline-server"}, "patch": [
                {"op": "add", "path": "/spec/template/spec/priorityClassName", "value": "gpu-servers"}]}])
        server = manifests.find(found, "DaemonSet", "warpline-server")
        self.assertEqual(manifests.pod_spec(server)["nodeSelector"], {"gpu": "h100"})
        self.assertEqual(manifests.pod_spec(server)["priorityClassName"], "gpu-servers")
        self.assertEqual(manifests.pod_labels(server)["team"], "infra")
        self.assertEqual(manifests.containers(server)[0]["args"][-1], "--drain_seconds=60")
        self.assertEqual(manifests.containers(server)[0]["image"], "my.registry/warpline@sha256:00")
        scheduler = manifests.find(found, "StatefulSet", "warpline-scheduler")
        self.assertEqual(scheduler["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"], "fast")
        self.assertEqual(scheduler["spec"]["template"]["metadata"]["annotations"]["example.org/note"], "x")
        settings = manifests.find(found, "ConfigMap", "warpline-injection")["data"]
        self.assertEqual(settings["slice.tiny"], "--memory=1GiB")
        self.assertEqual(settings["image"], "my.registry/client:1")
        self.assertIsNone(manifests.find(found, "Namespace", "warpline"))

    def test_metrics_carry_labels_of_pods(self):
        found = objects(["prometheus-operator"], metricsPodLabels=["team"])
        self.assertEqual(manifests.find(found, "ServiceMonitor", "warpline-server")["spec"]["podTargetLabels"],
                         ["team"])

    def test_another_flag_is_another_config_map(self):
        names = [{item["metadata"]["name"] for item in manifests.of_kind(found, "ConfigMap")} for found in (
            objects(["etcd"]), objects(["etcd"], etcdMembers="etcd.example.org:2379"))]
        (before,), (after,) = (first - second for first, second in (names, reversed(names)))
        self.assertTrue(before.startswith("warpline-etcd-") and after.startswith("warpline-etcd-"))

    def test_mistakes_are_refused(self):
        both = {"components": {"admission-policy": True, "webhook": True}}
        self.assertIn("'not' failed", helm("--namespace=warpline", values=both, status=1))
        self.assertIn("additional properties", helm("--namespace=warpline", values={"servers": {}}, status=1))
        self.assertIn("the pool's namespace is warpline", helm("--namespace=default", status=1))
        patch = {"patches": [{"target": {"kind": "DaemonSet", "name": "nothing"}, "patch": []}]}
        self.assertIn("which is not there", helm("--namespace=warpline", values=patch, status=1))

    def test_components_and_values_are_all_there(self):
        values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
        schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
        self.assertEqual(list(values["components"]), list(manifests_test.COMPONENTS))
        self.assertEqual(list(schema["components"]["properties"]), list(manifests_test.COMPONENTS))
        self.assertEqual(set(schema), set(values) | {"global"})
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        self.assertEqual({chart["version"], chart["appVersion"]}, {manifests_test.version()})


if __name__ == "__main__":
    manifests.need_tools()
    if not os.access(HELM, os.X_OK):
        harness.skip("WARPLINE_KUBERNETES_BINARIES names no folder with helm")
    sys.exit(unittest.main())
