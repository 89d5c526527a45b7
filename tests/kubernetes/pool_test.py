#!/usr/bin/python3
"""A pool with the CPU device, from its rendered manifests: schedulers and server start with their flags,
files, users and environment, servers and a tenant are enrolled, and an injected pod's containers run an
unmodified program there."""
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

import cluster_tokens  # noqa: E402  (found by the path above)
import harness  # noqa: E402
import injection  # noqa: E402

NODE = "node-a"


class PoolCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with({
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
        self.objects = self.render()
        self.machine = pods_here.Machine(self.folder, self.installation.root, self.objects)
        self.make_certificates()
        self.cluster = self.folder / "cluster.json"
        self.cluster.write_text(json.dumps({"calls": [], "certificate": base64.b64encode(b"PEM").decode(),
                                            "objects": {
            "node:" + NODE: {"metadata": {"name": NODE}},
            "namespace:team": {"metadata": {"name": "team"}},
            "daemonset:warpline/warpline-server":
                manifests.find(self.objects, "DaemonSet", "warpline-server")}}))

    def render(self):
        return manifests.render("overlays/dev")

    def make_certificates(self):
        names = manifests.find(manifests.render("overlays/cert-manager"), "Certificate", "warpline-tls")[
            "spec"]["dnsNames"]
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
                    process.wait(harness.GIVE_UP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def start_workload(self, kind, name, fields, number=0):
        workload = manifests.find(self.objects, kind, name)
        spec = manifests.pod_spec(workload)
        address = "127.0.0.%d" % (number + 1)
        claims = [c["metadata"]["name"] for c in workload["spec"].get("volumeClaimTemplates", [])]
        volumes = self.machine.volumes_of({"name": "%s-%d" % (name, number), "spec": spec}, claims)
        for container in spec.get("initContainers", []):
            first = self.end_at_last(self.machine.start(container, volumes, fields,
                                                        pod_security=spec["securityContext"]))
            out, _ = first.communicate(timeout=harness.GIVE_UP_S)
            self.assertEqual(first.returncode, 0, out)
        container = manifests.containers(workload)[0]
        process = self.end_at_last(self.machine.start(
            container, volumes, fields, pod_security=spec["securityContext"], address=address))
        port = int(self.machine.ports[str(container["startupProbe"]["grpc"]["port"])])

        def ready():
            if process.poll() is not None:
                raise AssertionError("%s ended: %s" % (name, process.stdout.read()))
            try:
                return pods_here.check_health(port, "readiness", address) == "SERVING"
            except (OSError, AssertionError):
                return False

        harness.wait_until(ready, name + " is ready")
        self.assertEqual(pods_here.check_health(port, "liveness", address), "SERVING")
        return process, volumes

    def start_scheduler(self, number=0):
        process, volumes = self.start_workload(
            "StatefulSet", "warpline-scheduler", {"metadata.name": "warpline-scheduler-%d" % number}, number)
        if number == 0:
            self.write_exec(volumes)
        return process

    def write_exec(self, volumes):
        """What the scheduler's container has, for what is executed in it."""
        script = self.folder / "in-the-pod"
        script.write_text("#!/bin/sh\nexec env WARPLINE_ENDPOINT=127.0.0.1:%s "
                          "WARPLINE_OPERATOR_CREDENTIAL_FILE=%s WARPLINE_TLS_CA=%s/ca.crt "
                          "WARPLINE_TLS_CERT=%s/tls.crt WARPLINE_TLS_KEY=%s/tls.key "
                          "WARPLINE_TLS_SERVER_NAME=warpline.warpline.svc %s/bin/warpline \"$@\"\n"
                          % (self.machine.ports["14100"], volumes["state"] / "state/operator.credential",
                             *[volumes["tls"]] * 3, self.installation.root))
        script.chmod(0o755)

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
        process, _ = self.start_workload("DaemonSet", "warpline-server", {
            "spec.nodeName": NODE, "status.podIP": "127.0.0.1"})
        harness.wait_until(lambda: NODE in self.warpline("servers", "list"), "the server has joined")
        return process

    def scrape(self, port):
        url = "http://127.0.0.1:%s/metrics" % self.machine.ports[port]
        with urllib.request.urlopen(url, timeout=240) as answer:
            return set(re.findall(r"^(warpline_\w+)", answer.read().decode(), re.M))

    def run_pod(self, annotations, program):
        """Injects a pod, runs its containers as a kubelet would, and returns (output, lease)."""
        settings = manifests.find(self.objects, "ConfigMap", "warpline-injection")["data"]
        pod = pods.pod(annotations)
        patch = injection.patch_for(pod, injection.Settings(
            settings["image"], settings["endpoint"], settings["tls_server_name"],
            {name[6:]: text.split(" ") for name, text in settings.items() if name.startswith("slice.")},
            settings.get("service_account_tokens") == "true"))
        import jsonpatch
        pod = jsonpatch.apply_patch(pod, patch)
        name = "pod-%d" % time.monotonic_ns()
        volumes = self.machine.volumes_of({"name": name, "spec": pod["spec"]}, namespace="team")
        copy, hold = pod["spec"]["initContainers"]
        copied = self.end_at_last(self.machine.start(copy, volumes))
        out, _ = copied.communicate(timeout=harness.GIVE_UP_S)
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
        out, _ = main.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(main.returncode, 0, out)
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(holder.wait(harness.GIVE_UP_S), 0)
        return out, leases


class OneSchedulerTest(PoolCase):
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
        self.assertEqual(server.wait(harness.GIVE_UP_S), 0)
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


class ServiceAccountsTest(PoolCase):
    """The component service-account-tenants: no Secret holds a tenant's credential."""

    def render(self):
        return manifests.render_components(["dev", "injection", "service-account-tenants"])

    def serve_keys(self, *keys):
        """What the API server says; it comes to the scheduler's volume when the ConfigMap changes."""
        cluster = json.loads(self.cluster.read_text())
        cluster["raw"] = {"/openid/v1/jwks": cluster_tokens.jwks(*keys),
                          "/.well-known/openid-configuration": {"issuer": cluster_tokens.ISSUER}}
        self.cluster.write_text(json.dumps(cluster))
        said = self.enroll("keys")
        self.assertIn("--cluster_issuer must be " + cluster_tokens.ISSUER, said)
        data = json.loads(self.cluster.read_text())["objects"]["configmap:warpline/warpline-cluster-keys"]["data"]
        for name, text in data.items():
            cluster_tokens.put(self.keys_volume / name, text)
        time.sleep(1.1)  # Longer than the scheduler goes by what it has looked at.
        return said

    def test_pods_are_tenants_by_their_service_accounts(self):
        process, volumes = self.start_workload(
            "StatefulSet", "warpline-scheduler", {"metadata.name": "warpline-scheduler-0"})
        self.write_exec(volumes)
        self.keys_volume = volumes["cluster-keys"]
        self.start_server()
        certs = self.folder / "certs"
        tls = ["--tls_ca=%s" % (certs / "ca.crt"), "--tls_cert=%s" % (certs / "team.crt"),
               "--tls_key=%s" % (certs / "team.key")]
        self.enroll("tenant", "team", "--service_accounts", "--memory=8GiB", *tls)
        self.enroll("tenant", "team", "--service_accounts", *tls)
        objects = json.loads(self.cluster.read_text())["objects"]
        self.assertNotIn("secret:team/warpline-tenant", objects)
        self.secret("team", "warpline-client-tls")

        first, second = (cluster_tokens.ClusterKey(self.folder, name) for name in ("first", "second"))
        self.machine.sign = lambda audience, namespace: first.token(namespace, audience)
        self.assertIn("keys: 1, changed", self.serve_keys(first))
        self.assertIn("as they were", self.serve_keys(first))
        program = [str(self.installation.root / "bin/examples/vector_add")]
        out, leases = self.run_pod({"memory": "1Gi"}, program)
        self.assertIn("vector_add: ok", out)
        self.assertEqual([lease["tenant"] for lease in leases], ["team"])
        # The cluster's next key: first it is served, then it signs.
        self.serve_keys(first, second)
        self.machine.sign = lambda audience, namespace: second.token(namespace, audience)
        out, _ = self.run_pod({"memory": "1Gi"}, program)
        self.assertIn("vector_add: ok", out)
        self.machine.sign = lambda audience, namespace: first.token("other", audience)
        with self.assertRaisesRegex(AssertionError, "has the namespace other"):
            self.run_pod({"memory": "1Gi"}, program)


class SeveralSchedulersTest(PoolCase):
    """The component etcd, with an etcd of one member at three addresses."""

    def render(self):
        return manifests.render_components(["etcd", "dev"])

    def start_etcd(self):
        addresses = ["127.0.0.%d" % n for n in (1, 2, 3)]
        certs = self.folder / "etcd-certs"
        subprocess.run([str(manifests.ROOT / "deploy/local/make_certs.sh"), str(certs), ",".join(addresses),
                        "scheduler"], check=True, capture_output=True)
        self.machine.secrets[("warpline", "warpline-etcd-client-tls")] = {
            "ca.crt": (certs / "ca.crt").read_text(), "tls.crt": (certs / "scheduler.crt").read_text(),
            "tls.key": (certs / "scheduler.key").read_text()}
        self.machine.secrets[("warpline", "warpline-operator")] = {"credential": "a-long-random-word\n"}
        clients = ",".join("https://%s:%s" % (one, self.machine.ports["2379"]) for one in addresses)
        peer = "http://127.0.0.1:%d" % harness.local_server.free_port()
        with open(self.folder / "etcd.log", "wb") as log:
            etcd = subprocess.Popen(
                ["etcd", "--data-dir=%s" % (self.folder / "etcd"), "--listen-client-urls=" + clients,
                 "--advertise-client-urls=" + clients, "--cert-file=%s" % (certs / "server.crt"),
                 "--key-file=%s" % (certs / "server.key"), "--trusted-ca-file=%s" % (certs / "ca.crt"),
                 "--client-cert-auth", "--listen-peer-urls=" + peer,
                 "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def end():
            etcd.terminate()
            etcd.wait(harness.GIVE_UP_S)

        self.addCleanup(end)

    def leaders(self):
        found = []
        for number in range(3):
            url = "http://127.0.0.%d:%s/metrics" % (number + 1, self.machine.ports["14102"])
            try:
                with urllib.request.urlopen(url, timeout=240) as answer:
                    if re.search(r"^warpline_scheduler_leads 1", answer.read().decode(), re.M):
                        found.append(number)
            except OSError:
                pass
        return found

    def test_another_one_leads_when_the_leader_is_gone(self):
        self.assertEqual(manifests.find(self.objects, "StatefulSet", "warpline-scheduler")["spec"]["replicas"], 3)
        self.start_etcd()
        schedulers = [self.start_scheduler(number) for number in range(3)]
        harness.wait_until(lambda: len(self.leaders()) == 1, "one leads")
        self.start_server()
        leader = self.leaders()[0]
        schedulers[leader].kill()
        schedulers[leader].wait()
        harness.wait_until(lambda: len(self.leaders()) == 1 and self.leaders() != [leader],
                           "another one leads")
        everybody = ",".join("127.0.0.%d:%s" % (n, self.machine.ports["14100"]) for n in (1, 2, 3))
        self.assertIn(NODE, self.warpline("servers", "list", "--endpoint=" + everybody))


if __name__ == "__main__":
    manifests.need_tools()
    unittest.main()
