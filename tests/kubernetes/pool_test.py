#!/usr/bin/python3
"""A pool as the overlay dev makes it, from its rendered manifests: scheduler and server start with their
flags, files, users and environment, servers and a tenant are enrolled, and an injected pod's containers
run an unmodified program there."""
import base64
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import manifests
import pods
import pods_here

sys.path.insert(0, str(manifests.ROOT / "tests"))
sys.path.insert(0, str(manifests.SOURCES / "injector"))

import harness  # noqa: E402  (found by the path above)
import injection  # noqa: E402
import local_server  # noqa: E402

NODE = "node-a"


class PoolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = local_server.Installation.from_bazel_bin(harness.RUNFILES, {
            "bin/examples/vector_add": "examples/vector_add",
            "bin/examples/lease_tree": "tests/cuda/lease_tree"})
        cls.installation.root.chmod(0o755)

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="warpline-pool-", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        self.objects = manifests.render("overlays/dev")
        self.machine = pods_here.Machine(self.folder, self.installation.root, self.objects)
        self.make_certificates()
        self.cluster = self.folder / "cluster.json"
        self.cluster.write_text(json.dumps({"calls": [], "certificate": base64.b64encode(b"PEM").decode(),
                                            "objects": {
            "node:" + NODE: {"metadata": {"name": NODE}},
            "namespace:team": {"metadata": {"name": "team"}},
            "daemonset:warpline/warpline-server":
                manifests.find(self.objects, "DaemonSet", "warpline-server")}}))

    def make_certificates(self):
        names = manifests.find(self.objects, "Certificate", "warpline-tls")["spec"]["dnsNames"]
        subprocess.run([str(manifests.ROOT / "deploy/local/make_certs.sh"), "--server_is_client",
                        str(self.folder / "certs"), ",".join(names), "team"], check=True, capture_output=True)
        self.machine.secrets[("warpline", "warpline-tls")] = self.certificate("server")

    def certificate(self, name):
        certs = self.folder / "certs"
        return {"ca.crt": (certs / "ca.crt").read_text(), "tls.crt": (certs / (name + ".crt")).read_text(),
                "tls.key": (certs / (name + ".key")).read_text()}

    def end_at_last(self, process):
        def end():
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def start_workload(self, kind, name, fields):
        workload = manifests.find(self.objects, kind, name)
        claims = [c["metadata"]["name"] for c in workload["spec"].get("volumeClaimTemplates", [])]
        volumes = self.machine.volumes_of({"name": name, "spec": manifests.pod_spec(workload)}, claims)
        container = manifests.containers(workload)[0]
        process = self.end_at_last(self.machine.start(
            container, volumes, fields, pod_security=manifests.pod_spec(workload)["securityContext"]))
        port = int(self.machine.ports[str(container["startupProbe"]["grpc"]["port"])])

        def ready():
            if process.poll() is not None:
                raise AssertionError("%s ended: %s" % (name, process.stdout.read()))
            try:
                return pods_here.check_health(port, "readiness") == "SERVING"
            except (OSError, AssertionError):
                return False

        harness.wait_until(ready, name + " is ready")
        self.assertEqual(pods_here.check_health(port, "liveness"), "SERVING")
        return process, volumes, container

    def start_scheduler(self):
        process, volumes, container = self.start_workload("StatefulSet", "warpline-scheduler", {})
        self.operator = volumes["state"] / "state/operator.credential"
        # What the container has, for what is executed in it.
        script = self.folder / "in-the-pod"
        script.write_text("#!/bin/sh\nexec env WARPLINE_ENDPOINT=127.0.0.1:%s "
                          "WARPLINE_OPERATOR_CREDENTIAL_FILE=%s WARPLINE_TLS_CA=%s/ca.crt "
                          "WARPLINE_TLS_CERT=%s/tls.crt WARPLINE_TLS_KEY=%s/tls.key "
                          "WARPLINE_TLS_SERVER_NAME=warpline.warpline.svc %s/bin/warpline \"$@\"\n"
                          % (self.machine.ports["14100"], self.operator, *[volumes["tls"]] * 3,
                             self.installation.root))
        script.chmod(0o755)
        return process

    def warpline(self, *arguments):
        done = subprocess.run([str(self.folder / "in-the-pod"), *arguments], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def enroll(self, *arguments, status=0):
        done = subprocess.run(
            [sys.executable, str(manifests.SOURCES / "enroll.py"), *arguments,
             "--kubectl=%s" % (manifests.ROOT / "tests/kubernetes/fake_kubectl.py")],
            capture_output=True, text=True, check=False,
            env={"FAKE_CLUSTER": str(self.cluster), "FAKE_EXEC": str(self.folder / "in-the-pod"),
                 "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for secrets in self.machine.secrets.values():
            self.assertFalse(any(text.strip() in done.stdout for text in secrets.values() if text.strip()))
        return done.stdout if status == 0 else done.stderr

    def secret(self, namespace, name):
        data = json.loads(self.cluster.read_text())["objects"]["secret:%s/%s" % (namespace, name)]["data"]
        values = {key: base64.b64decode(value).decode() for key, value in data.items()}
        self.machine.secrets[(namespace, name)] = values
        return values

    def start_server(self):
        self.enroll("servers")
        self.assertIn(NODE, self.secret("warpline", "warpline-server-credentials"))
        process, *_ = self.start_workload("DaemonSet", "warpline-server", {
            "spec.nodeName": NODE, "status.podIP": "127.0.0.1"})
        harness.wait_until(lambda: NODE in self.warpline("servers", "list"), "the server has joined")
        return process

    def scrape(self, port):
        url = "http://127.0.0.1:%s/metrics" % self.machine.ports[port]
        with urllib.request.urlopen(url, timeout=20) as answer:
            return set(re.findall(r"^(warpline_\w+)", answer.read().decode(), re.M))

    def run_pod(self, annotations, program):
        """Injects a pod, runs its containers as a kubelet would, and returns (output, lease)."""
        settings = manifests.find(self.objects, "ConfigMap", "warpline-injection")["data"]
        pod = pods.pod(annotations)
        patch = injection.patch_for(pod, injection.Settings(
            settings["image"], settings["endpoint"], settings["tls_server_name"],
            {name[6:]: text.split(" ") for name, text in settings.items() if name.startswith("slice.")}))
        import jsonpatch
        pod = jsonpatch.apply_patch(pod, patch)
        name = "pod-%d" % time.monotonic_ns()
        volumes = self.machine.volumes_of({"name": name, "spec": pod["spec"]}, namespace="team")
        copy, hold = pod["spec"]["initContainers"]
        copied = self.end_at_last(self.machine.start(copy, volumes))
        out, _ = copied.communicate(timeout=60)
        self.assertEqual(copied.returncode, 0, out)
        holder = self.end_at_last(self.machine.start(hold, volumes))
        probe = [word.replace("/warpline/lease", str(volumes["warpline-lease"]))
                 for word in hold["startupProbe"]["exec"]["command"]]

        def started():
            self.assertIsNone(holder.poll(), holder.poll() is not None and holder.stdout.read())
            return subprocess.run(probe, check=False).returncode == 0

        harness.wait_until(started, "the pod has its lease")
        leases = [lease for lease in json.loads(self.warpline("lease", "list", "--json"))["leases"]
                  if lease["state"] == "active"]
        # Of yet another user.
        main = self.end_at_last(self.machine.start(
            pod["spec"]["containers"][0], volumes, program=program,
            pod_security={"runAsUser": 12345, "runAsGroup": 12345}))
        out, _ = main.communicate(timeout=120)
        self.assertEqual(main.returncode, 0, out)
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(holder.wait(20), 0)
        return out, leases

    def test_from_nothing_to_a_pod_that_computes(self):
        self.start_scheduler()
        server = self.start_server()
        self.assertEqual(self.enroll("servers"), "all servers are enrolled\n")
        certs = self.folder / "certs"
        tls = ["--tls_ca=%s" % (certs / "ca.crt"), "--tls_cert=%s" % (certs / "team.crt"),
               "--tls_key=%s" % (certs / "team.key")]
        self.assertEqual(self.enroll("tenant", "team", "--memory=8GiB", *tls), "tenant team: enrolled\n")
        self.assertTrue(self.secret("team", "warpline-tenant")["credential"])
        self.assertEqual(self.secret("team", "warpline-client-tls"), self.certificate("team"))
        labels = json.loads(self.cluster.read_text())["objects"]["namespace:team"]["metadata"]["labels"]
        self.assertEqual(labels, {"warpline.dev/client": "true"})

        examples = self.installation.root / "bin/examples"
        out, leases = self.run_pod({"memory": "4Gi"}, [str(examples / "vector_add")])
        self.assertIn("vector_add: ok", out)
        self.assertEqual([(lease["tenant"], int(lease["memory_bytes"])) for lease in leases],
                         [("team", 4 << 30)])
        out, _ = self.run_pod({"memory": "4Gi"}, [str(examples / "lease_tree")])
        self.assertIn("lease_tree: ok", out)
        out, leases = self.run_pod({"gpus": "2", "memory": "1Gi"}, [str(examples / "vector_add")])
        self.assertEqual(leases[0]["device"].count("GPU-"), 2)
        active = [lease for lease in json.loads(self.warpline("lease", "list", "--json"))["leases"]
                  if lease["state"] == "active"]
        self.assertEqual(active, [])

        # What alerts ask for is there, and what monitors scrape.
        wanted = manifests.metrics_in(manifests.render("overlays/prometheus-operator"))
        self.assertGreater(len(wanted), 5)
        self.assertEqual(wanted - self.scrape("14002") - self.scrape("14102"), set())

        # A drained server says so, and ends.
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(30), 0)
        log = server.stdout.read()
        self.assertRegex(log, r"jail profile=worker holds=\S*limits\S*system_calls")

    def test_enrolling_again_renews_what_was_lost_and_says_what_is_wrong(self):
        self.start_scheduler()
        self.enroll("servers")
        first = self.secret("warpline", "warpline-server-credentials")[NODE]
        cluster = json.loads(self.cluster.read_text())
        del cluster["objects"]["secret:warpline/warpline-server-credentials"]
        cluster["objects"]["node:node-b"] = {"metadata": {"name": "node-b"}}
        self.cluster.write_text(json.dumps(cluster))
        self.enroll("servers")
        again = self.secret("warpline", "warpline-server-credentials")
        self.assertEqual(sorted(again), [NODE, "node-b"])
        self.assertNotEqual(again[NODE], first)

        self.assertEqual(self.enroll("tenant", "team"), "tenant team: enrolled\n")
        credential = self.secret("team", "warpline-tenant")
        self.assertEqual(self.enroll("tenant", "team", "--memory=1GiB"), "tenant team: brought up to date\n")
        self.assertEqual(self.secret("team", "warpline-tenant"), credential)
        self.assertEqual(self.secret("team", "warpline-client-tls")["tls.key"], "PEM")
        cluster = json.loads(self.cluster.read_text())
        renewed = base64.b64encode(b"NEW").decode()
        cluster["objects"]["secret:warpline/warpline-tenant-team"]["data"] = {
            part: renewed for part in ("ca.crt", "tls.crt", "tls.key")}
        self.cluster.write_text(json.dumps(cluster))
        self.assertEqual(self.enroll("certificates"), "tenant team: the certificate was renewed\n")
        self.assertEqual(self.secret("team", "warpline-client-tls")["tls.key"], "NEW")
        self.assertEqual(self.enroll("certificates"), "")

        self.assertIn("there is no namespace nobody", self.enroll("tenant", "nobody", status=1))
        self.assertIn("unknown option", self.enroll("tenant", "team", "--memory=$(reboot)", status=2))
        self.assertIn("unknown option", self.enroll("servers", "--memory=1GiB", status=2))
        self.assertIn("no name", self.enroll("tenant", "Team", status=2))
        self.assertIn("enroll: ", self.enroll("tenant", "team", "--nonsense=1", status=1))


if __name__ == "__main__":
    manifests.need_tools()
    unittest.main()
