#!/usr/bin/python3
"""The example of a model server, deployed by the Helm chart to a real API server: two tenants get texts over
TLS, each from a lease of its own on the CPU device."""
import base64
import pathlib
import subprocess
import unittest

import cluster_case
import harness
import manifests
import pool_case

KEYS = {"team-a": "key-of-team-a-0123456789", "team-b": "key-of-team-b-0123456789"}
NAME = "warpline-model-server.warpline.svc"
SELECTOR = "app.kubernetes.io/name=warpline-model-server"
UNAVAILABLE, UNAUTHENTICATED = 14, 16


class ServingTest(pool_case.PoolCase):
    programs = {"bin/" + name: "examples/model_server/" + name
                for name in ("model_server", "model_worker", "model_client")}

    @classmethod
    def helm(cls, *arguments):
        done = subprocess.run(
            [str(cls.cluster.binaries / "helm"), "--kubeconfig=" + cls.cluster.kubeconfig("admin"),
             "--namespace=warpline", *arguments], capture_output=True, text=True, check=False,
            env={"HOME": str(cls.folder), "PATH": "/usr/bin:/bin"})
        assert done.returncode == 0, done.stdout + done.stderr

    @classmethod
    def deploy(cls):
        cls.chart = str(manifests.copied_chart())
        cls.cluster.kubectl("apply", "--filename=%s/base/namespace.yaml" % cls.chart)
        cls.settings = ["--set=components." + one for one in (
            "dev=true", "operator-roles=true", "injection=false", "admission-policy=false")]
        cls.helm("install", "warpline", cls.chart, *cls.settings)

    def make_tenants(self):
        """Enrolls them in the scheduler, and puts their keys and credentials into the Secret."""
        data = {}
        for name, key in KEYS.items():
            data[name + ".key"] = key
            data[name + ".credential"] = self.warpline("tenant", "add", name, "--memory=1GiB")
        self.cluster.api.post("/api/v1/namespaces/warpline/secrets", {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "warpline-model-server-tenants"},
            "data": {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}})

    def authority(self):
        """The file of the authority that has signed the server's certificate."""
        found = self.cluster.api.get("/api/v1/namespaces/warpline/secrets/warpline-model-server-tls")
        path = self.folder / "ca.crt"
        path.write_bytes(base64.b64decode(found["data"]["ca.crt"]))
        return path

    def generate(self, prompt, key, *options):
        """(status, text, what is said of the status) of a client in the network of the pods."""
        path = self.folder / "key"
        path.write_text(key)
        done = subprocess.run(
            [str(self.installation.root / "bin/model_client"), "--server=%s:14200" % NAME, "--key_file=%s" % path,
             "--tls_ca=%s" % self.authority(), "--tokens=16", *options, "--", prompt], capture_output=True, text=True,
            check=False, timeout=harness.GIVE_UP_S)
        return done.returncode, done.stdout, done.stderr

    def expected(self, prompt):
        return subprocess.run([str(self.installation.root / "bin/model_worker"), "--reference=" + prompt],
                              capture_output=True, text=True, check=True).stdout

    def server_log(self):
        return "\n".join(pod.log("model-server") for pod in self.node.pods.values())

    def test_the_chart_serves_a_model_to_two_tenants(self):
        self.await_workloads(["StatefulSet"])
        self.enroll("servers")
        self.await_server()
        # Off, until a value says otherwise.
        self.assertEqual(self.pods(SELECTOR), {})
        self.make_tenants()
        self.helm("upgrade", "warpline", self.chart, *self.settings, "--set=components.model-server=true")
        self.await_workloads()
        (pod,) = self.pods(SELECTOR).values()
        self.cluster.hosts.put(NAME, pod["status"]["podIP"])
        for tenant, prompt in (("team-a", "The lease is"), ("team-b", "A GPU that is elsewhere")):
            self.assertEqual(self.generate(prompt, KEYS[tenant]), (0, self.expected(prompt), ""), self.server_log())
        self.assertEqual(self.leases(), ["team-a", "team-b"])
        status, text, said = self.generate("The lease is", "key-of-nobody-0123456789")
        self.assertEqual((status, text), (UNAUTHENTICATED, ""), said)
        self.in_plain_text_there_is_health_alone(pod["status"]["podIP"])
        self.a_pod_that_goes_gives_its_leases_back(pod["metadata"]["name"])

    def in_plain_text_there_is_health_alone(self, address):
        path = self.folder / "key"
        path.write_text(KEYS["team-a"])
        for port in (14200, 14201):
            done = subprocess.run(
                [str(self.installation.root / "bin/model_client"), "--server=%s:%d" % (address, port),
                 "--key_file=%s" % path, "--tokens=1", "--", "x"], capture_output=True, text=True, check=False,
                timeout=harness.GIVE_UP_S)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "")

    def a_pod_that_goes_gives_its_leases_back(self, name):
        self.helm("upgrade", "warpline", self.chart, *self.settings)
        harness.wait_until(lambda: name in self.node.ended, "the pod has ended")
        self.assertEqual(self.node.ended[name], {"model-server": 0})
        self.assertEqual(self.leases(), [])


if __name__ == "__main__":
    cluster_case.begin()
    if not (pathlib.Path(cluster_case.control_plane.binaries()) / "helm").exists():
        harness.skip("WARPLINE_KUBERNETES_BINARIES names no folder with helm")
    unittest.main()
