"""What tests against a real API server have in common. A test program begins with begin(), which skips
it, by name, where there are no binaries of Kubernetes."""
import pathlib
import tempfile
import unittest

import control_plane
import harness
import manifests
import node_here
import operators_here

# Kinds that say how many of their pods are wanted, and how many of them are ready.
READY = {"DaemonSet": ("desiredNumberScheduled", "numberReady"), "StatefulSet": ("replicas", "readyReplicas"),
         "Deployment": ("replicas", "availableReplicas")}
GPU_NODE = {"nvidia.com/gpu.present": "true"}


def begin():
    """Enters a network of the test's own, or ends the program where it cannot run."""
    manifests.need_tools()
    reason = control_plane.why_not()
    if reason is not None:
        harness.skip(reason)
    control_plane.enter_network()


class ClusterCase(unittest.TestCase):
    """A control plane for all tests of the class."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="warpline-cluster-", dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.folder.chmod(0o755)
        cls.cluster = control_plane.ControlPlane(cls.folder)
        cls.addClassCleanup(cls.cluster.close)
        print("Kubernetes %d.%d" % cls.cluster.version(), flush=True)
        operators_here.define(cls.cluster)
        cls.cert_manager = operators_here.CertManager(cls.cluster)
        cls.addClassCleanup(cls.cert_manager.close)
        cls.nodes = {}
        cls.volumes = 0

    @classmethod
    def add_node(cls, name, installation=None, labels=None):
        node = node_here.Node(cls.cluster, name, len(cls.nodes) + 1, installation, labels)
        cls.nodes[name] = node
        cls.addClassCleanup(node.close)
        return node

    def tearDown(self):
        faults = [fault for one in [self.cert_manager, *self.nodes.values()] for fault in one.faults]
        for one in [self.cert_manager, *self.nodes.values()]:
            one.faults.clear()
        self.assertEqual(faults, [])

    @classmethod
    def has(cls, kind):
        """Whether the API server has this kind."""
        return cls.cluster.version() >= (1, 36) or kind not in manifests.LACKING["1.35"]

    @classmethod
    def provide_volumes(cls, count=1):
        for _ in range(count):
            cls.volumes += 1
            operators_here.provide_volume(cls.cluster, "volume-%d" % cls.volumes)

    def kubectl(self, *arguments, **options):
        return self.cluster.kubectl(*arguments, **options)

    def workloads(self):
        """The workloads of the pool, as the API server has them."""
        found = []
        for kind in READY:
            for item in self.cluster.api.get("/apis/apps/v1/namespaces/warpline/%ss" % kind.lower())["items"]:
                found.append({**item, "kind": kind})
        return found

    def await_workloads(self, kinds=tuple(READY)):
        """Waits until all workloads of these kinds have the pods that they want, of what they say now."""
        def missing():
            for item in self.workloads():
                wanted, ready = READY[item["kind"]]
                status = item.get("status", {})
                if item["kind"] in kinds and not (
                        status.get("currentRevision") == status.get("updateRevision")
                        and status.get("observedGeneration") == item["metadata"]["generation"]
                        and status.get(wanted, 0) == status.get(ready, 0) and status.get(wanted, 0) > 0):
                    yield "%s: %s" % (manifests.called(item), status)

        harness.wait_until(lambda: not list(missing()), lambda: "%s\n%s" % (
            list(missing()), self.kubectl("get", "pods,events", "--namespace=warpline")))

    def await_gone(self, path, what):
        harness.wait_until(lambda: self.cluster.api.get_or_none(path) is None, lambda: "%s is gone: %s\n%s" % (
            what, self.cluster.api.get_or_none(path), self.kubectl("get", "pods,pvc", "--all-namespaces")))

    def delete(self, folder):
        self.kubectl("delete", "--wait=false", "--ignore-not-found", "-k", str(folder))
        self.await_gone("/api/v1/namespaces/warpline", "the namespace")

    def pods(self, selector, namespace="warpline"):
        """Name -> pod."""
        found = self.cluster.api.get("/api/v1/namespaces/%s/pods" % namespace, labelSelector=selector)
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    def events(self, reason, namespace="warpline"):
        found = self.cluster.api.get("/api/v1/namespaces/%s/events" % namespace, fieldSelector="reason=" + reason)
        return [event["message"] for event in found["items"]]
