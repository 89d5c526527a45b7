"""The pool of tests in a real API server: it is deployed there, with the CPU device,
and its operator has the rights of deploy/kubernetes/components/operator-roles."""
import json
import subprocess
import sys

import cluster_case
import harness
import manifests

OPERATOR = "operator"


class PoolCase(cluster_case.ClusterCase):
    """A pool whose programs, path in the installation -> path under bazel-bin, and components the class names."""

    programs = {}
    components = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.installation = harness.installation_with(cls.programs)
        cls.addClassCleanup(cls.installation.close)
        cls.installation.root.chmod(0o755)
        cls.node = cls.add_node("node-a", {
            # The longer one is looked for first.
            "/usr/lib/warpline-injector": manifests.SOURCES / "injector",
            "/usr/lib/warpline": cls.installation.root,
            "/opt/examples": cls.installation.root / "bin/examples"})
        cls.cluster.authority.issue(OPERATOR, OPERATOR)
        cls.provide_volumes()
        cls.deploy()
        cls.bind("ClusterRoleBinding", "ClusterRole", "warpline-enroll")
        cls.bind("RoleBinding", "Role", "warpline-enroll", "warpline")

    @classmethod
    def deploy(cls):
        """Applies the components, with the kind of injection that this API server has."""
        components = [one for one in cls.components if one != "injector"]
        components.append("admission-policy" if cls.has("MutatingAdmissionPolicy") else "webhook")
        objects = manifests.render_components(components)
        cls.cluster.kubectl("apply", "--validate=strict", "--filename=-", given=json.dumps(
            {"apiVersion": "v1", "kind": "List", "items": objects}))

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
