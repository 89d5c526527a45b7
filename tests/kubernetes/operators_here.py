"""Stands in for cert-manager, the Prometheus operator, NVIDIA's driver and a provisioner of volumes: the
kinds that they define or fill, as far as the manifests of deploy/kubernetes need them."""
import base64
import pathlib
import threading
import traceback

import control_plane
import manifests

import yaml

LOOK_S = 0.2
_TYPES = {bool: "boolean", int: "integer", str: "string"}
_USAGES = {"server auth": "serverAuth", "client auth": "clientAuth"}
_CERT_MANAGER = "/apis/cert-manager.io/v1"


def _structural(schema):
    """The schema in the form that a CustomResourceDefinition takes: unknown fields are refused there
    by the request's field validation."""
    made = {key: value for key, value in schema.items() if key != "additionalProperties"}
    if "enum" in made and "type" not in made:
        made["type"] = _TYPES[type(made["enum"][0])]
    if "properties" in made:
        made["properties"] = {name: _structural(inner) for name, inner in made["properties"].items()}
        if isinstance(schema.get("additionalProperties"), dict):
            made["x-kubernetes-preserve-unknown-fields"] = True
        if "additionalProperties" not in schema and made["type"] == "object":
            made["x-kubernetes-preserve-unknown-fields"] = True
    elif made.get("type") == "object":
        made["x-kubernetes-preserve-unknown-fields"] = True
    if made.get("type") == "array":
        made["items"] = _structural(made.get("items", {"type": "string"}))
    return made


def custom_resource_definitions():
    path = manifests.ROOT / "tests/kubernetes/custom_resources.yaml"
    for name, spec in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        api_version, kind = name.split(" ")
        group, version = api_version.split("/")
        plural = kind.lower() + "s"
        yield {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
               "metadata": {"name": "%s.%s" % (plural, group)},
               "spec": {"group": group, "scope": "Namespaced",
                        "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
                        "versions": [{"name": version, "served": True, "storage": True,
                                      "subresources": {"status": {}},
                                      "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                                          "spec": _structural(spec),
                                          "status": {"type": "object",
                                                     "x-kubernetes-preserve-unknown-fields": True}}}}}]}}


def _condition(name, found):
    return any(one["type"] == name and one["status"] == "True"
               for one in found.get("status", {}).get("conditions", []))


class CertManager(threading.Thread):
    """Signs what Certificates ask for and fills authorities into webhooks, until close()."""

    def __init__(self, cluster):
        super().__init__(daemon=True, name="cert-manager")
        self.authority = control_plane.Authority(cluster.folder / "certificates")
        self._cluster_authority = cluster.authority
        self.api = control_plane.Api(cluster.authority, "admin")
        self.faults = []
        self._closing = threading.Event()
        self._number = 0
        self.start()

    def run(self):
        while not self._closing.wait(LOOK_S):
            try:
                for found in self.api.get(_CERT_MANAGER + "/certificates")["items"]:
                    if not _condition("Ready", found):
                        self._issue(found)
                self._fill_webhooks()
            except Exception as error:  # A test looks at what failed.
                gone = isinstance(error, control_plane.ApiError) and error.code in (403, 404, 409)
                if not gone and not control_plane.is_away(error):
                    self.faults.append(traceback.format_exc())
        self.api.close()

    def _issue(self, found):
        spec, metadata = found["spec"], found["metadata"]
        self._number += 1
        name = "certificate-%d" % self._number
        self.authority.issue(name, spec["commonName"], names=spec.get("dnsNames", ()),
                             usages=[_USAGES[usage] for usage in spec.get("usages", ()) if usage in _USAGES])
        files = {"ca.crt": "ca.crt", "tls.crt": name + ".crt", "tls.key": name + ".key"}
        data = {key: base64.b64encode(pathlib.Path(self.authority.path(file)).read_bytes()).decode()
                for key, file in files.items()}
        path = "/api/v1/namespaces/%s/secrets" % metadata["namespace"]
        body = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                "metadata": {"name": spec["secretName"]}, "data": data}
        if self.api.get_or_none("%s/%s" % (path, spec["secretName"])) is None:
            self.api.post(path, body)
        else:
            self.api.patch("%s/%s" % (path, spec["secretName"]), {"data": data})
        self.api.patch("%s/namespaces/%s/certificates/%s/status" % (
            _CERT_MANAGER, metadata["namespace"], metadata["name"]),
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    def renew(self, namespace, name):
        """Has a certificate signed again."""
        # The thread's own connection is for it alone.
        api = control_plane.Api(self._cluster_authority, "admin")
        api.patch("%s/namespaces/%s/certificates/%s/status" % (_CERT_MANAGER, namespace, name),
                  {"status": {"conditions": []}})
        api.close()

    def _fill_webhooks(self):
        bundle = base64.b64encode(pathlib.Path(self.authority.path("ca.crt")).read_bytes()).decode()
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        for found in self.api.get(path)["items"]:
            if "cert-manager.io/inject-ca-from" not in found["metadata"].get("annotations", {}):
                continue
            operations = [{"op": "add", "path": "/webhooks/%d/clientConfig/caBundle" % i, "value": bundle}
                          for i, hook in enumerate(found["webhooks"])
                          if hook["clientConfig"].get("caBundle") != bundle]
            if operations:
                self.api.patch("%s/%s" % (path, found["metadata"]["name"]), operations,
                               "application/json-patch+json")

    def close(self):
        self._closing.set()
        self.join()


def define(cluster):
    """Makes the custom kinds, and waits until they are served."""
    for item in custom_resource_definitions():
        cluster.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", item)
    cluster.kubectl("wait", "--for=condition=Established", "--all", "--timeout=300s", "crd")


def provide_volume(cluster, name):
    """A volume for a claim without a class."""
    cluster.api.post("/api/v1/persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteOnce"],
                 "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/tmp/" + name}}})


def provide_gpus(cluster, nodes):
    """A GPU on each node, as NVIDIA's driver for dynamic resource allocation says it."""
    path = "/apis/resource.k8s.io/v1"
    cluster.api.post(path + "/deviceclasses", {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]}})
    for node in nodes:
        cluster.api.post(path + "/resourceslices", {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node},
            "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "devices": [{"name": "gpu-0"}],
                     "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
