#!/usr/bin/python3
"""A pool with the CPU device whose pods a real API server has: servers and tenants are enrolled with the
rights of deploy/kubernetes/components/operator-roles, and injected pods of two tenants compute there."""
import json
import pathlib
import subprocess
import sys
import unittest

import cluster_case
import control_plane
import harness
import manifests

OPERATOR = "operator"
VECTOR_ADD = ["/usr/lib/warpline/bin/examples/vector_add"]
WAIT = ["/usr/bin/sleep", "3600"]


class PoolCase(cluster_case.ClusterCase):
    components = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.installation = harness.installation_with({"bin/examples/vector_add": "examples/vector_add"})
        cls.addClassCleanup(cls.installation.close)
        cls.installation.root.chmod(0o755)
        cls.node = cls.add_node("node-a", {
            # The longer one is looked for first.
            "/usr/lib/warpline-injector": manifests.SOURCES / "injector",
            "/usr/lib/warpline": cls.installation.root})
        cls.cluster.authority.issue(OPERATOR, OPERATOR)
        cls.provide_volumes()
        components = [one for one in cls.components if one != "injector"]
        components.append("admission-policy" if cls.has("MutatingAdmissionPolicy") else "webhook")
        objects = manifests.render_components(components)
        cls.cluster.kubectl("apply", "--validate=strict", "--filename=-", given=json.dumps(
            {"apiVersion": "v1", "kind": "List", "items": objects}))
        cls.bind("ClusterRoleBinding", "ClusterRole", "warpline-enroll")
        cls.bind("RoleBinding", "Role", "warpline-enroll", "warpline")

    @classmethod
    def bind(cls, kind, role_kind, role, namespace=None):
        """Gives the operator a role."""
        made = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR}]}
        where = "namespaces/%s/" % namespace if namespace else ""
        cls.cluster.api.post("/apis/rbac.authorization.k8s.io/v1/%s%ss" % (where, kind.lower()), made)

    def environment(self):
        return {"KUBECTL": str(manifests.TOOLS / "bin/kubectl"), "KUBECTL_NODES": str(self.folder),
                "KUBECTL_USER": self.cluster.kubeconfig(OPERATOR), "PATH": "/usr/bin:/bin",
                "HOME": str(self.folder)}

    def enroll(self, *arguments):
        done = subprocess.run(
            [sys.executable, str(manifests.SOURCES / "enroll.py"), *arguments,
             "--kubectl=%s" % (manifests.ROOT / "tests/kubernetes/kubectl_here.py")],
            capture_output=True, text=True, check=False, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def warpline(self, *arguments):
        """What an operator is told in the scheduler's pod."""
        done = subprocess.run(
            [str(manifests.ROOT / "tests/kubernetes/kubectl_here.py"), "--namespace=warpline", "exec",
             "warpline-scheduler-0", "--container=scheduler", "--", "/usr/lib/warpline/bin/warpline", *arguments],
            capture_output=True, text=True, check=False, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def leases(self):
        """Names of the tenants that have one, sorted."""
        found = json.loads(self.warpline("lease", "list", "--json"))["leases"]
        return sorted(lease["tenant"] for lease in found if lease["state"] == "active")

    def make_namespace(self, name):
        self.cluster.api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace",
                                                     "metadata": {"name": name}})
        self.bind("RoleBinding", "ClusterRole", "warpline-enroll-tenant", name)
        path = "/api/v1/namespaces/%s/serviceaccounts/default" % name
        harness.wait_until(lambda: self.cluster.api.get_or_none(path), "the ServiceAccount is there")

    def await_scheduler(self):
        self.await_workloads(["StatefulSet"])

    def await_server(self):
        self.await_workloads(["DaemonSet"])
        harness.wait_until(lambda: "node-a" in self.warpline("servers", "list"), "the server has joined")

    def start_pod(self, namespace, name, command, **annotations):
        self.cluster.api.post("/api/v1/namespaces/%s/pods" % namespace, {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"warpline.dev/inject": "true"},
                         "annotations": {"warpline.dev/" + key: value for key, value in annotations.items()}},
            "spec": {"restartPolicy": "Never",
                     "containers": [{"name": "main", "image": "app:1", "command": command}]}})

    def pod(self, namespace, name):
        return self.cluster.api.get_or_none("/api/v1/namespaces/%s/pods/%s" % (namespace, name))

    def log(self, namespace, name, container):
        found = self.node.pod(namespace, name)
        return found.log(container) if found else ""

    def logs(self, namespace, name):
        return "%s\n%s\n%s" % (self.pod(namespace, name), *[
            "%s: %s" % (container, self.log(namespace, name, container)[-2000:]) for container in ("warpline-hold", "main")])

    def await_phase(self, namespace, name, *phases):
        harness.wait_until(lambda: self.pod(namespace, name)["status"].get("phase") in phases,
                           lambda: "the pod is %s: %s" % ("or".join(phases), self.logs(namespace, name)))

    def delete_pod(self, namespace, name):
        self.kubectl("--namespace=" + namespace, "delete", "pod", name, "--wait=false")
        harness.wait_until(lambda: self.pod(namespace, name) is None, "the pod is gone")

    def compute(self, namespace, name="train", **annotations):
        """Runs a pod to its end."""
        self.start_pod(namespace, name, VECTOR_ADD, **annotations)
        self.await_phase(namespace, name, "Succeeded", "Failed")
        self.assertIn("vector_add: ok", self.log(namespace, name, "main"), self.logs(namespace, name))
        self.delete_pod(namespace, name)


def allowed(role):
    """What a role allows: the set of (verb, resource)."""
    return {(verb, "/".join(filter(None, (group, resource)))) for rule in role["rules"]
            for group in rule.get("apiGroups", []) for resource in rule.get("resources", [])
            for verb in rule["verbs"]}


class SecretsTest(PoolCase):
    """Tenants whose credentials are Secrets."""

    components = ("cert-manager", "dev", "operator-roles", "injection", "injector")

    def test_two_tenants_compute_and_the_pool_changes_meanwhile(self):
        self.await_scheduler()
        self.enroll_all()
        self.tenants_share_the_pool()
        self.a_server_comes_back_as_it_was()
        self.a_scheduler_comes_back_as_it_was()
        self.certificates_are_renewed()
        self.rights_are_those_that_are_used()

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
        used = {pair for pair in self.cluster.audited(OPERATOR) if not pair[1].startswith("authorization.k8s.io")}
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
