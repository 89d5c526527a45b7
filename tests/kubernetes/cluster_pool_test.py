#!/usr/bin/python3
"""A pool with the CPU device whose pods a real API server has: servers and tenants are enrolled with the
rights of deploy/kubernetes/components/operator-roles, and injected pods of two tenants compute there."""
import pathlib
import re
import subprocess
import unittest

import cluster_case
import control_plane
import harness
import manifests
import pool_case

VECTOR_ADD = ["/usr/lib/warpline/bin/examples/vector_add"]
WAIT = ["/usr/bin/sleep", "3600"]


def allowed(role):
    """What a role allows: the set of (verb, resource)."""
    return {(verb, "/".join(filter(None, (group, resource)))) for rule in role["rules"]
            for group in rule.get("apiGroups", []) for resource in rule.get("resources", [])
            for verb in rule["verbs"]}


class SecretsTest(pool_case.PoolCase):
    """Tenants whose credentials are Secrets."""

    programs = {"bin/examples/" + name: "examples/" + name for name in ("vector_add", "training")}
    components = ("cert-manager", "dev", "operator-roles", "injection", "injector")

    def test_two_tenants_compute_and_the_pool_changes_meanwhile(self):
        self.await_scheduler()
        self.enroll_all()
        self.tenants_share_the_pool()
        self.the_example_trains()
        self.a_server_comes_back_as_it_was()
        self.a_scheduler_comes_back_as_it_was()
        self.certificates_are_renewed()
        self.rights_are_those_that_are_used()

    def compute(self, namespace, name="train", **annotations):
        """Runs a pod to its end."""
        self.start_pod(namespace, name, VECTOR_ADD, **annotations)
        self.await_phase(namespace, name, "Succeeded", "Failed")
        self.assertIn("vector_add: ok", self.log(namespace, name, "main"), self.logs(namespace, name))
        self.delete_pod(namespace, name)

    def enroll_all(self):
        self.enroll("servers")
        self.await_server()
        self.assertEqual(self.enroll("servers"), "all servers are enrolled\n")
        for team, memory in (("team-a", "4GiB"), ("team-b", "1GiB")):
            self.make_namespace(team)
            self.assertEqual(self.enroll("tenant", team, "--memory=" + memory), "tenant %s: enrolled\n" % team)
        self.await_injection("team-a")

    def await_injection(self, namespace):
        """Policies and webhooks count some time after they were made."""
        pod = {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "probe", "labels": {"warpline.dev/inject": "true"}},
               "spec": {"containers": [{"name": "main", "image": "app:1"}]}}

        refusals = []

        def injects():
            try:
                made = self.cluster.api.post("/api/v1/namespaces/%s/pods" % namespace, pod, dryRun="All")
                return "initContainers" in made["spec"]
            except control_plane.ApiError as error:
                refusals.append(str(error))
                return False

        harness.wait_until(injects, lambda: "pods are injected: %s" % refusals[-1:])

    def tenants_share_the_pool(self):
        for team in ("team-a", "team-b"):
            self.compute(team, memory="512Mi")
            self.start_pod(team, "first", WAIT, memory="1Gi")
            self.await_phase(team, "first", "Running")
        self.assertEqual(self.leases(), ["team-a", "team-b"])
        # One tenant's limit is not the other's.
        self.start_pod("team-b", "second", WAIT, memory="1Gi")
        harness.wait_until(lambda: self.log("team-b", "second", "warpline-hold"), "the pod asks for a lease")
        self.compute("team-a", memory="1Gi")
        self.assertEqual(self.pod("team-b", "second")["status"]["phase"], "Pending")
        self.delete_pod("team-b", "first")
        self.await_phase("team-b", "second", "Running")
        for team, name in (("team-a", "first"), ("team-b", "second")):
            self.delete_pod(team, name)
        harness.wait_until(lambda: self.leases() == [], "leases are given back")

    def the_example_trains(self):
        """The pod of deploy/kubernetes/examples, as it is, in the namespace of a tenant."""
        self.kubectl("--namespace=team-a", "apply", "--validate=strict",
                     "--filename=%s" % (manifests.SOURCES / "examples/train.yaml"))
        self.await_phase("team-a", "train", "Succeeded", "Failed")
        said = self.log("team-a", "train", "main")
        losses = [float(loss) for loss in re.findall(r"^training: step \d+ loss ([0-9.]+)$", said, re.MULTILINE)]
        self.assertEqual(len(losses), 9, said)
        # Gradient descent with a small rate goes down at each of these.
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertLess(losses[-1], losses[0] / 20)
        self.assertRegex(said, r"training: ok \(loss .* in 400 steps, device: .*CPU.*\)")
        self.delete_pod("team-a", "train")

    def a_server_comes_back_as_it_was(self):
        (before,) = self.pods("app.kubernetes.io/name=warpline-server").values()
        self.warpline("servers", "cordon", "node-a")
        self.delete_pod("warpline", before["metadata"]["name"])
        self.await_server()
        self.assertEqual(self.node.ended[before["metadata"]["name"]], {"server": 0})
        self.assertIn("cordoned", self.warpline("servers", "list"))
        self.start_pod("team-a", "waits", VECTOR_ADD)
        harness.wait_until(lambda: self.log("team-a", "waits", "warpline-hold"), "the pod asks for a lease")
        self.assertEqual(self.pod("team-a", "waits")["status"]["phase"], "Pending")
        self.warpline("servers", "uncordon", "node-a")
        self.await_phase("team-a", "waits", "Succeeded")
        self.delete_pod("team-a", "waits")

    def a_scheduler_comes_back_as_it_was(self):
        self.start_pod("team-a", "goes-on", WAIT, memory="1Gi")
        self.await_phase("team-a", "goes-on", "Running")
        self.kubectl("--namespace=warpline", "rollout", "restart", "statefulset/warpline-scheduler")
        self.await_scheduler()
        self.await_server()
        harness.wait_until(lambda: self.leases() == ["team-a"], "the scheduler knows the lease")
        self.compute("team-b", memory="512Mi")
        self.assertEqual(self.pod("team-a", "goes-on")["status"]["phase"], "Running")
        self.delete_pod("team-a", "goes-on")

    def certificates_are_renewed(self):
        self.assertEqual(self.enroll("certificates"), "")
        path = "/api/v1/namespaces/warpline/secrets/warpline-tenant-team-a"
        before = self.cluster.api.get(path)["data"]
        self.cert_manager.renew("warpline", "warpline-tenant-team-a")
        harness.wait_until(lambda: self.cluster.api.get(path)["data"] != before, "the certificate is another one")
        self.assertEqual(self.enroll("certificates"), "tenant team-a: the certificate was renewed\n")
        self.compute("team-a", memory="512Mi")

    def rights_are_those_that_are_used(self):
        self.assertIn("keys: 1", self.enroll("keys"))
        self.assertIn("as they were", self.enroll("keys"))
        # A ConfigMap is patched when keys have changed.
        self.kubectl("--namespace=warpline", "patch", "configmap", "warpline-cluster-keys", "--type=merge",
                     '--patch={"data": {"jwks.json": "{}"}}')
        self.assertIn("changed", self.enroll("keys"))
        rbac = "/apis/rbac.authorization.k8s.io/v1/"
        roles = [self.cluster.api.get(rbac + path) for path in (
            "clusterroles/warpline-enroll", "clusterroles/warpline-enroll-tenant",
            "namespaces/warpline/roles/warpline-enroll")]
        used = {pair for pair in self.cluster.audited(pool_case.OPERATOR) if not pair[1].startswith("authorization.k8s.io")}
        # The server asks for the right to create beside the request that it audits.
        self.assertEqual(used | {("create", "pods/exec")}, set().union(*[allowed(role) for role in roles]))
        self.to_get_is_not_enough_to_execute()
        # The pool's own programs have no token, and no right that not everybody has.
        for account in ("warpline-server", "warpline-scheduler"):
            name = "system:serviceaccount:warpline:" + account
            self.assertEqual(self.cluster.audited(name), set())
            said = self.kubectl("auth", "can-i", "--list", "--as=" + name, "--namespace=warpline")
            resources = {line.split()[0] for line in said.splitlines()[1:] if not line.startswith(" ")}
            self.assertEqual({one for one in resources if not one.startswith("selfsubject")}, set(), said)


    def to_get_is_not_enough_to_execute(self):
        self.cluster.authority.issue("reader", "reader")
        for what in (["role", "reader", "--verb=get", "--resource=pods,pods/exec"],
                     ["rolebinding", "reader", "--role=reader", "--user=reader"]):
            self.kubectl("--namespace=warpline", "create", *what)
        said = self.kubectl("--namespace=warpline", "exec", "warpline-scheduler-0", "--", "true", user="reader",
                            status=1)
        self.assertIn("cannot create resource", said)


class TokensTest(SecretsTest):
    """Tenants whose credentials are the tokens of their pods' ServiceAccounts."""

    components = ("cert-manager", "dev", "operator-roles", "injection", "service-account-tenants", "injector")

    def test_two_tenants_compute_and_the_pool_changes_meanwhile(self):
        self.await_scheduler()
        self.enroll("servers")
        self.await_server()
        self.assertIn("keys: 1, changed; the schedulers' --cluster_issuer must be " + control_plane.ISSUER,
                      self.enroll("keys"))
        for team in ("team-a", "team-b"):
            self.make_namespace(team)
            self.enroll("tenant", team, "--service_accounts", "--memory=2GiB")
            self.assertIsNone(self.cluster.api.get_or_none("/api/v1/namespaces/%s/secrets/warpline-tenant" % team))
        self.await_injection("team-a")
        for team in ("team-a", "team-b"):
            self.start_pod(team, "first", WAIT, memory="1Gi")
            self.await_phase(team, "first", "Running")
        self.assertEqual(self.leases(), ["team-a", "team-b"])
        self.delete_pod("team-b", "first")
        self.a_stranger_is_refused()
        self.keys_change()
        self.a_tenant_is_shut_out()

    def refusal(self, namespace):
        """Waits until a pod there is refused its lease."""
        self.start_pod(namespace, "train", VECTOR_ADD)
        harness.wait_until(
            lambda: "no tenant of the scheduler has the namespace " + namespace in self.log(
                namespace, "train", "warpline-hold"), lambda: "it is refused: " + self.logs(namespace, "train"))
        self.assertEqual(self.pod(namespace, "train")["status"]["phase"], "Pending")
        self.delete_pod(namespace, "train")

    def a_stranger_is_refused(self):
        """A namespace that was let in and is no tenant's."""
        self.make_namespace("stranger")
        secret = self.cluster.api.get("/api/v1/namespaces/team-a/secrets/warpline-client-tls")
        self.cluster.api.post("/api/v1/namespaces/stranger/secrets", {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "warpline-client-tls"},
            "data": secret["data"]})
        self.kubectl("label", "namespace", "stranger", "warpline.dev/client=true")
        self.await_injection("stranger")
        self.refusal("stranger")

    def keys_change(self):
        old = self.old_token()
        self.cluster.new_signing_key("following")
        self.sign_by("tokens", "following")
        self.assertIn("keys: 2, changed", self.enroll("keys"))
        self.sign_by("following", "tokens")
        self.compute("team-a", memory="512Mi")
        # A token of before counts until its key goes.
        self.assertEqual(self.hold_with(old), 0)
        self.sign_by("following")
        self.assertIn("keys: 1, changed", self.enroll("keys"))
        harness.wait_until(lambda: self.hold_with(old) != 0, "the old key counts no longer")
        self.compute("team-a", memory="512Mi")

    def sign_by(self, *keys):
        self.cluster.signing_keys = list(keys)
        self.cluster.restart_api_server()

    def old_token(self):
        return self.node.pod("team-a", "first").volumes["warpline-credential"].joinpath("credential").read_text()

    def hold_with(self, token):
        """Asks for a lease with this token, and returns the exit status."""
        pod = self.node.pod("team-a", "first")
        path = pathlib.Path(self.folder) / "token"
        path.write_text(token)
        tls = pod.volumes["warpline-tls"]
        done = subprocess.run(
            [str(self.installation.root / "bin/warpline"), "run", "--memory=64MiB", "--", "/usr/bin/true"],
            env={"WARPLINE_ENDPOINT": "warpline-scheduler-0.warpline-scheduler.warpline.svc:14100",
                 "WARPLINE_CREDENTIAL_FILE": str(path), "WARPLINE_TLS_CA": str(tls / "ca.crt"),
                 "WARPLINE_TLS_CERT": str(tls / "tls.crt"), "WARPLINE_TLS_KEY": str(tls / "tls.key"),
                 "WARPLINE_TLS_SERVER_NAME": "warpline.warpline.svc", "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, check=False)
        self.said = done.stderr
        return done.returncode

    def a_tenant_is_shut_out(self):
        self.delete_pod("team-a", "first")
        self.warpline("tenant", "set", "team-a", "--namespaces=none")
        self.refusal("team-a")
        self.compute("team-b", memory="512Mi")


if __name__ == "__main__":
    cluster_case.begin()
    unittest.main()
