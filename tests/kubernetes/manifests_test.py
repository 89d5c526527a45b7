#!/usr/bin/python3
"""The manifests of deploy/kubernetes: every overlay is valid for every version of Kubernetes that they
are for, and agrees with the programs that it starts. And the rules themselves: what breaks one is
found."""
import copy
import itertools
import re
import subprocess
import tomllib
import unittest

import manifests

# In the order in which they are listed, and what each needs besides.
COMPONENTS = {"etcd": (), "cert-manager": (), "prometheus-operator": (), "dra": (), "ucx": (),
              "rdma": ("ucx",), "jail-strict": (), "migrate": (), "dev": (), "operator-roles": (), "injection": (),
              "service-account-tenants": (),
              "admission-policy": ("injection",), "webhook": ("cert-manager", "injection"),
              "model-server": ("cert-manager",)}
# Those of which one is enough.
EXCLUSIVE = ({"dra", "dev"}, {"admission-policy", "webhook"})
PROGRAMS = {"warpline-server": "server/gpu_server/warpline-server",
            "warpline-scheduler": "scheduler/warpline-scheduler",
            "model_server": "examples/model_server/model_server"}


def version():
    text = (manifests.ROOT / "common/version.h").read_text(encoding="utf-8")
    return re.search(r'kVersion\[\] = "([^"]+)"', text)[1]


def documented_secrets():
    """Those that docs/kubernetes.md has people make: in its table, each in the first column."""
    text = (manifests.ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(warpline-[a-z-]+)` \|", text, re.M)


def faults_of(objects):
    return list(manifests.all_faults(objects, version(), documented_secrets()))


class OverlaysTest(unittest.TestCase):
    def test_every_overlay_is_valid(self):
        names = manifests.overlays()
        self.assertGreaterEqual(len(names), 12)
        for name in ["base", *names]:
            with self.subTest(name):
                objects = manifests.render(name)
                self.assertGreater(len(objects), 10)
                self.assertEqual(faults_of(objects), [])

    def test_components_go_together(self):
        self.assertEqual(sorted(COMPONENTS), sorted(
            path.parent.name for path in manifests.SOURCES.glob("components/*/kustomization.yaml")))
        order = list(COMPONENTS)
        for pair in itertools.combinations(order, 2):
            wanted = set(pair).union(*(COMPONENTS[name] for name in pair))
            if any(group <= wanted for group in EXCLUSIVE):
                continue
            with self.subTest("+".join(pair)):
                objects = manifests.render_components([name for name in order if name in wanted])
                self.assertEqual(faults_of(objects), [])

    def test_only_jail_strict_is_privileged(self):
        for name in ["base", *manifests.overlays()]:
            objects = manifests.render(name)
            privileged = [container["name"] for workload in manifests.workloads(objects)
                          for container in manifests.all_containers(workload)
                          if container.get("securityContext", {}).get("privileged")]
            self.assertEqual(privileged, ["server"] if name == "overlays/jail-strict" else [], name)
            profile = manifests.find(objects, "Namespace", "warpline")["metadata"]["labels"][
                "pod-security.kubernetes.io/enforce"]
            expected = "privileged" if name in ("overlays/jail-strict", "overlays/rdma") else "restricted"
            self.assertEqual(profile, expected, name)

    def test_only_policies_are_too_new_for_older_clusters(self):
        for name in ["base", *manifests.overlays()]:
            kinds = {item["kind"] for item in manifests.render(name)}
            lacking = kinds & manifests.LACKING["1.35"]
            self.assertEqual(bool(lacking), name in (
                "overlays/admission-policy", "overlays/production", "overlays/service-account-tenants"))


class ProgramsTest(unittest.TestCase):
    """Flags, checked by the programs themselves."""

    @classmethod
    def setUpClass(cls):
        cls.known = {}
        for program, path in PROGRAMS.items():
            done = subprocess.run([str(manifests.ROOT / path), "--helpfull"], capture_output=True,
                                  text=True, check=False)
            cls.known[program] = set(re.findall(r"^ +--(\w+) \(", done.stdout, re.M))
            assert len(cls.known[program]) > 10, done.stdout

    def test_every_flag_exists(self):
        for name in ["base", *manifests.overlays()]:
            for program, flag in manifests.program_flags(manifests.render(name)):
                if program == "python3":
                    source = (manifests.SOURCES / "injector/webhook.py").read_text(encoding="utf-8")
                    self.assertIn('add_argument("%s"' % flag, source, name)
                    continue
                known = re.sub("^no", "", flag.lstrip("-")) if flag.startswith("--no") else flag.lstrip("-")
                self.assertIn(known, self.known[program], "%s of %s" % (flag, name))

    def test_containers_start_what_their_images_have(self):
        images = tomllib.loads((manifests.ROOT / "deploy/image/images.toml").read_text(encoding="utf-8"))["image"]
        known = {"/usr/lib/warpline/" + program for image in images for program in image["programs"]}
        known |= {"/" + file["to"] for image in images for file in image.get("files", ())}
        for name in ["base", *manifests.overlays()]:
            for workload in manifests.workloads(manifests.render(name)):
                for container in manifests.containers(workload):
                    self.assertIn(container["command"][-1], known, name)

    def test_slices_are_options_of_hold(self):
        data = manifests.find(manifests.render("overlays/admission-policy"), "ConfigMap",
                              "warpline-injection")["data"]
        slices = [value.split(" ") for name, value in data.items() if name.startswith("slice.")]
        self.assertGreater(len(slices), 2)
        for options in slices:
            # --help comes last: what is before it has been taken.
            done = subprocess.run([str(manifests.ROOT / "tools/cli/warpline"), "hold", "--folder=/x",
                                   *options, "--help"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([str(manifests.ROOT / "tools/cli/warpline"), "hold", "--folder=/x",
                               "--size=1", "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)


class RulesTest(unittest.TestCase):
    """That each rule finds what it is for."""

    def setUp(self):
        self.objects = manifests.render("overlays/production")

    def workload(self, kind):
        return next(item for item in self.objects if item["kind"] == kind)

    def server(self):
        return manifests.containers(self.workload("DaemonSet"))[0]

    def assert_found(self, pattern):
        faults = faults_of(self.objects)
        self.assertTrue(any(re.search(pattern, fault) for fault in faults), faults)

    def test_nothing_is_found_where_nothing_is_wrong(self):
        self.assertEqual(faults_of(copy.deepcopy(self.objects)), [])

    def test_a_misspelt_field(self):
        self.workload("StatefulSet")["spec"]["replicaz"] = 3
        self.assert_found(r"'replicaz' was unexpected.*1\.34")

    def test_a_value_of_the_wrong_type(self):
        self.workload("StatefulSet")["spec"]["replicas"] = "three"
        self.assert_found("'three' is not of type")

    def test_a_misspelt_field_of_a_custom_resource(self):
        self.workload("Certificate")["spec"]["dnsnames"] = []
        self.assert_found("'dnsnames' was unexpected")

    def test_a_kind_that_does_not_exist(self):
        self.objects.append({"apiVersion": "apps/v1", "kind": "DaemonSets", "metadata": {"name": "x"}})
        self.assert_found("has no apps/v1 DaemonSets")

    def test_a_null(self):
        self.workload("DaemonSet")["spec"]["template"]["spec"]["tolerations"] = None
        self.assert_found("tolerations is null")

    def test_a_missing_probe(self):
        del self.server()["readinessProbe"]
        self.assert_found("has no readinessProbe")

    def test_a_probe_at_another_port(self):
        self.server()["livenessProbe"]["grpc"]["port"] = 14000
        self.assert_found("a probe asks at port 14000")

    def test_missing_resources(self):
        del self.server()["resources"]["limits"]["memory"]
        self.assert_found("has no limits of memory")

    def test_an_image_that_is_not_pinned(self):
        for image in ("warpline", "registry.example.org/warpline:latest"):
            self.server()["image"] = image
            self.assert_found("is not pinned")

    def test_a_privileged_container(self):
        self.server()["securityContext"]["privileged"] = True
        self.assert_found("is not restricted: privileged container server")

    def test_capabilities_that_are_kept(self):
        self.server()["securityContext"]["capabilities"] = {}
        self.assert_found("is not restricted: capabilities")

    def test_a_root_that_can_be_written(self):
        del self.server()["securityContext"]["readOnlyRootFilesystem"]
        self.assert_found("may write its root")

    def test_a_role(self):
        self.objects.append({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                             "metadata": {"name": "all"}, "rules": []})
        self.assert_found("needs a right at the API")

    def test_a_binding(self):
        self.objects.append({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                             "metadata": {"name": "warpline-enroll"}})
        self.assert_found("needs a right at the API")

    def test_selectors_that_select_nothing(self):
        self.workload("Service")["spec"]["selector"] = {"app.kubernetes.io/name": "other"}
        self.workload("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] = {"a": "b"}
        self.workload("ServiceMonitor")["spec"]["selector"]["matchLabels"] = {"a": "b"}
        for what in ("Service/", "PodDisruptionBudget/", "ServiceMonitor/"):
            self.assert_found("%s.* selects (0|nothing)" % what)

    def test_a_named_port_that_is_not_there(self):
        self.workload("Service")["spec"]["ports"][0]["targetPort"] = "http"
        self.assert_found("no port is called http")

    def test_a_container_port_that_is_not_listened_on(self):
        self.server()["ports"][2]["containerPort"] = 9090
        self.assert_found("port metrics is 9090")

    def test_a_secret_that_nobody_knows(self):
        self.workload("DaemonSet")["spec"]["template"]["spec"]["volumes"][1]["secret"]["secretName"] = "x"
        self.assert_found("nobody makes or documents the Secret x")

    def test_a_variable_that_is_not_set(self):
        self.server()["args"].append("--name=$(NODE)")
        self.assert_found("no variable NODE")

    def test_a_grace_period_that_ends_the_drain(self):
        self.workload("DaemonSet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
        self.assert_found("is killed before")

    def test_more_host_memory_than_the_pod_has(self):
        self.server()["resources"]["limits"]["memory"] = "32Gi"
        self.assert_found("--host_memory=24GiB, and the pod has")

    def test_pods_that_are_sent_elsewhere(self):
        manifests.find(self.objects, "ConfigMap", "warpline-injection")["data"]["endpoint"] = "other:1"
        self.assert_found("injected pods get other:1")


if __name__ == "__main__":
    manifests.need_tools()
    unittest.main()
