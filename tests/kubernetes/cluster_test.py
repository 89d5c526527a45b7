#!/usr/bin/python3
"""The manifests of deploy/kubernetes and a real API server: it takes every overlay, and its controllers
make the pods. Its admission answers for pods of every odd shape, and schedulers are upgraded and
drained. Nothing of Warpline but the webhook runs here."""
import subprocess
import unittest

import cluster_case
import control_plane
import harness
import manifests
import operators_here
import pods

SCHEDULERS = "app.kubernetes.io/name=warpline-scheduler"
SERVERS = "app.kubernetes.io/name=warpline-server"
NEW = "registry.example.org/warpline/warpline:0.2.0"


def images(found):
    return {pod["spec"]["containers"][0]["image"] for pod in found.values()}


class HollowCase(cluster_case.ClusterCase):
    """Three nodes with GPUs, which only say that their pods run."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("node-a", "node-b", "node-c"):
            cls.add_node(name, labels=cluster_case.GPU_NODE)
        operators_here.provide_gpus(cls.cluster, cls.nodes)

    def apply(self, folder, *arguments):
        return self.kubectl("apply", "--validate=strict", "-k", str(folder), *arguments)


class OverlaysTest(HollowCase):
    def test_every_overlay_is_taken_and_its_pods_come_to_be(self):
        for name in ["base", *manifests.overlays()]:
            with self.subTest(name):
                self.overlay(name)

    def overlay(self, name):
        folder = manifests.copied_sources() / name
        kinds = {item["kind"] for item in manifests.render(name)}
        lacking = sorted(kind for kind in kinds if not self.has(kind))
        if lacking:
            said = self.kubectl("apply", "--validate=strict", "-k", str(folder), status=1)
            for kind in lacking:
                self.assertIn('no matches for kind "%s"' % kind, said)
            self.delete_rendered(name, lacking)
            return
        self.provide_volumes()
        try:
            self.apply(folder)
            self.await_workloads()
            # These manifests, applied again, change nothing.
            self.assertEqual(self.kubectl("diff", "-k", str(folder)), "")
            self.assertEqual(self.events("FailedCreate"), [])
        finally:
            self.delete(folder)

    def delete_rendered(self, name, lacking):
        for item in manifests.render(name):
            if item["kind"] not in lacking and "namespace" not in item["metadata"]:
                self.kubectl("delete", "--wait=false", item["kind"].lower(), item["metadata"]["name"])
        self.await_gone("/api/v1/namespaces/warpline", "the namespace")


class ChartTest(HollowCase):
    """The Helm chart, installed, changed, taken back and removed."""

    def helm(self, *arguments):
        done = subprocess.run(
            [str(self.cluster.binaries / "helm"), "--kubeconfig=" + self.cluster.kubeconfig("admin"),
             "--namespace=warpline", *arguments], capture_output=True, text=True, check=False,
            env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def servers_have(self, argument):
        found = self.cluster.api.get("/apis/apps/v1/namespaces/warpline/daemonsets/warpline-server")
        return argument in manifests.containers(found)[0]["args"]

    def test_the_chart_is_installed_changed_and_taken_back(self):
        if not (self.cluster.binaries / "helm").exists():
            self.skipTest("there is no helm")
        chart = str(manifests.copied_chart())
        policies = str(self.has("MutatingAdmissionPolicy")).lower()
        self.kubectl("apply", "--filename=%s/base/namespace.yaml" % chart)
        settings = ["--set=components.etcd=true", "--set=components.prometheus-operator=true",
                    "--set=components.admission-policy=" + policies]
        self.helm("install", "warpline", chart, *settings)
        self.await_workloads()
        self.helm("upgrade", "warpline", chart, *settings, "--set=server.args={--drain_seconds=60}")
        self.assertTrue(self.servers_have("--drain_seconds=60"))
        self.await_workloads()
        self.helm("rollback", "warpline", "1")
        self.assertFalse(self.servers_have("--drain_seconds=60"))
        self.assertEqual(self.events("FailedCreate"), [])
        self.helm("uninstall", "warpline")
        self.assertEqual(self.workloads(), [])
        self.kubectl("delete", "namespace", "warpline", "--wait=false")
        self.await_gone("/api/v1/namespaces/warpline", "the namespace")


class UpgradeTest(HollowCase):
    def setUp(self):
        self.overlay = manifests.copied_sources() / "overlays/etcd"
        self.apply(self.overlay)
        self.await_workloads()
        self.addCleanup(self.delete, self.overlay)

    def set_image(self, what, container):
        self.kubectl("--namespace=warpline", "set", "image", what, "%s=%s" % (container, NEW))

    def test_schedulers_are_upgraded_and_rolled_back_one_after_the_other(self):
        (old,) = images(self.pods(SCHEDULERS))
        self.set_image("statefulset/warpline-scheduler", "scheduler")
        self.roll(NEW)
        self.kubectl("--namespace=warpline", "rollout", "undo", "statefulset/warpline-scheduler")
        self.roll(old)
        self.kubectl("--namespace=warpline", "rollout", "status", "statefulset/warpline-scheduler")

    def roll(self, image):
        def is_done():
            found = self.pods(SCHEDULERS)
            # One at most is away at any time.
            self.assertGreaterEqual(len([pod for pod in found.values()
                                         if "deletionTimestamp" not in pod["metadata"]]), 2)
            return images(found) == {image}

        harness.wait_until(is_done, "all schedulers have " + image)
        self.await_workloads()

    def test_servers_change_when_their_pods_are_deleted(self):
        before = self.pods(SERVERS)
        self.set_image("daemonset/warpline-server", "server")
        self.await_workloads()
        self.assertEqual({name: pod["metadata"]["uid"] for name, pod in self.pods(SERVERS).items()},
                         {name: pod["metadata"]["uid"] for name, pod in before.items()})
        for name in before:
            self.kubectl("--namespace=warpline", "delete", "pod", name, "--wait=false")
        harness.wait_until(lambda: images(self.pods(SERVERS)) == {NEW}, "servers are new")
        self.await_workloads()

    def test_a_drain_evicts_one_scheduler_and_leaves_servers_alone(self):
        node = self.pods(SCHEDULERS)["warpline-scheduler-0"]["spec"]["nodeName"]
        other = self.pods(SCHEDULERS)["warpline-scheduler-1"]["spec"]["nodeName"]
        self.addCleanup(self.kubectl, "uncordon", node, other)
        said = self.kubectl("drain", node, "--ignore-daemonsets", status=1)
        self.assertIn("local storage", said)  # The schedulers' emptyDir, which nobody misses.
        self.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
        self.assertEqual([pod["spec"]["nodeName"] for pod in self.pods(SERVERS).values()].count(node), 1)
        # The next one stays until the first has a place again.
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "warpline-scheduler-1"}}
        path = "/api/v1/namespaces/warpline/pods/warpline-scheduler-1/eviction"
        with self.assertRaises(control_plane.ApiError) as refused:
            self.cluster.api.post(path, eviction)
        self.assertEqual(refused.exception.code, 429)
        self.kubectl("uncordon", node)
        self.await_workloads()
        self.kubectl("drain", other, "--ignore-daemonsets", "--delete-emptydir-data")

    def test_servers_come_back_on_a_cordoned_node_and_not_without_its_label(self):
        self.kubectl("cordon", "node-a")
        self.addCleanup(self.kubectl, "uncordon", "node-a")
        (name,) = [name for name, pod in self.pods(SERVERS).items() if pod["spec"]["nodeName"] == "node-a"]
        self.kubectl("--namespace=warpline", "delete", "pod", name)
        self.await_workloads()
        self.assertEqual(len(self.pods(SERVERS)), 3)
        self.kubectl("label", "node", "node-a", "nvidia.com/gpu.present-")
        self.addCleanup(self.kubectl, "label", "--overwrite", "node", "node-a", "nvidia.com/gpu.present=true")
        harness.wait_until(lambda: len(self.pods(SERVERS)) == 2, "the node has no server")


# Pods that the API server refuses for reasons of its own, before or after ours: name -> its words.
REFUSED_BY_KUBERNETES = {"names in other alphabets": "name part must consist of"}


class AdmissionTest(cluster_case.ClusterCase):
    """Injection by policies and by the webhook, asked of the API server."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.node = cls.add_node("node-a", {
            "/usr/lib/warpline-injector": manifests.SOURCES / "injector", "/usr/lib/warpline": "/nonexistent"})
        for name, label in (("team", "true"), ("other", None)):
            cls.cluster.api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": name, "labels": {"warpline.dev/client": label} if label else {}}})
            cls.cluster.kubectl("create", "serviceaccount", "default-is-there", "--namespace=" + name)
        cls.cluster.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1})
        path = "/api/v1/namespaces/team/serviceaccounts/default"
        harness.wait_until(lambda: cls.cluster.api.get_or_none(path), "the ServiceAccount is there")

    def create(self, pod, namespace="team"):
        """(the pod that would be made, None) or (None, the refusal)."""
        pod = {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
        try:
            made = self.cluster.api.post("/api/v1/namespaces/%s/pods" % namespace, pod, dryRun="All",
                                         fieldValidation="Strict")
        except control_plane.ApiError as error:
            return None, error.status.get("message", "")
        made["metadata"] = {key: value for key, value in made["metadata"].items()
                            if key in ("labels", "annotations")}
        made["spec"]["volumes"] = [volume for volume in made["spec"].get("volumes", [])
                                   if not volume["name"].startswith("kube-api-access")]
        for container in made["spec"]["containers"] + made["spec"].get("initContainers", []):
            container["volumeMounts"] = [mount for mount in container.get("volumeMounts", [])
                                         if not mount["name"].startswith("kube-api-access")]
        del made["status"]
        return pods.canonical(made), None

    def answers(self):
        """What becomes of every pod; each has the fate that pods.py says."""
        found = {}
        for name, (pod, fate) in pods.PODS.items():
            with self.subTest(name):
                after, refusal = found[name] = self.create(pod)
                if name in REFUSED_BY_KUBERNETES:
                    self.assertIn(REFUSED_BY_KUBERNETES[name], refusal or "no refusal")
                elif fate == pods.UNTOUCHED:
                    self.assertIsNone(refusal)
                    self.assertNotIn("warpline-client", str(after))
                elif fate == pods.INJECTED:
                    self.assertIsNone(refusal)
                    self.assertEqual([one["name"] for one in after["spec"]["initContainers"][:2]],
                                     ["warpline-client", "warpline-hold"])
                else:
                    self.assertIn(fate, refusal or "no refusal")
        return found

    def with_policies(self):
        folder = manifests.copied_sources() / "overlays/admission-policy"
        self.kubectl("apply", "-k", str(folder))
        # A policy counts some time after it was made.
        harness.wait_until(lambda: self.create(pods.pod({"gpus": "0"}))[1], "the policies answer")
        harness.wait_until(lambda: "warpline-hold" in str(self.create(pods.pod())), "the policies inject")
        try:
            for kind in ("mutating", "validating"):
                path = "/apis/admissionregistration.k8s.io/v1/%sadmissionpolicies/warpline-injection" % kind
                policy = self.cluster.api.get(path)
                warnings = policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings", [])
                self.assertEqual(warnings, [])
            self.assertIsNone(self.create(pods.pod({"gpus": "0"}), "other")[1])
            return self.answers()
        finally:
            self.delete(folder)
            harness.wait_until(lambda: not self.create(pods.pod({"gpus": "0"}))[1], "the policies are gone")

    def with_webhook(self):
        folder = manifests.copied_sources() / "overlays/webhook"
        self.kubectl("apply", "-k", str(folder))
        self.addCleanup(self.delete, folder)
        self.await_workloads(["Deployment"])
        harness.wait_until(lambda: self.create(pods.pod())[0], lambda: "the webhook answers: %s\n%s" % (
            self.create(pods.pod()), [pod.log("injector") for pod in self.node.pods.values()]))
        self.assertIsNone(self.create(pods.pod({"gpus": "0"}), "other")[1])
        return self.answers()

    def test_policies_and_webhook_give_the_same_pods(self):
        by_webhook = self.with_webhook()
        self.webhook_down()
        self.doCleanups()
        if not self.has("MutatingAdmissionPolicy"):
            return
        by_policies = self.with_policies()
        for name, (pod, refusal) in by_policies.items():
            with self.subTest(name):
                self.assertEqual(by_webhook[name][0], pod)
                self.assertEqual(refusal is None, by_webhook[name][1] is None)

    def webhook_down(self):
        """A webhook that is away keeps out the pods that ask for it, and no others."""
        self.kubectl("--namespace=warpline", "scale", "deployment/warpline-injector", "--replicas=0")
        harness.wait_until(lambda: not self.pods("app.kubernetes.io/name=warpline-injector"), "it is away")
        harness.wait_until(lambda: self.create(pods.pod())[1], "pods that ask for it wait")
        self.assertIn("inject.warpline.dev", self.create(pods.pod())[1])
        self.assertIsNone(self.create(pods.pod(labels={}))[1])
        self.assertIsNone(self.create(pods.pod(), "other")[1])
        self.kubectl("--namespace=warpline", "scale", "deployment/warpline-injector", "--replicas=2")
        self.await_workloads(["Deployment"])
        harness.wait_until(lambda: self.create(pods.pod())[0], "the webhook is back")


if __name__ == "__main__":
    cluster_case.begin()
    unittest.main()
