"""Renders deploy/kubernetes with kubectl, and says what is wrong with what comes out.

A check is a function that takes the objects of one rendering and yields faults as texts. The schemas
are those of the API server, with unknown fields refused.
"""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import jsonschema
import yaml

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"])
ROOT = RUNFILES / "warpline"
TOOLS = RUNFILES / "kubernetes_tools/tools"
SOURCES = ROOT / "deploy/kubernetes"
VERSIONS = ("1.34", "1.35", "1.36", "1.37")
# What a version of Kubernetes lacks, of what overlays use; the docs say so.
LACKING = {"1.34": {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
           "1.35": {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}}
WORKLOADS = ("DaemonSet", "StatefulSet", "Deployment")
NAMESPACE = "warpline"


def need_tools():
    if not (TOOLS / "bin/kubectl").exists():
        raise SystemExit("kubectl and the schemas are not there: run ./dev setup, and ./dev test or "
                         "`bazel sync --configure`")


@functools.lru_cache(maxsize=None)
def copied_chart():
    """The chart's files without links, as helm wants them."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    for path in SOURCES.rglob("*"):
        target = folder / path.relative_to(SOURCES)
        if path.is_file() and "injector" not in target.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return folder


@functools.lru_cache(maxsize=None)
def copied_sources():
    """Kustomize takes no links that lead elsewhere, and Bazel's files are such."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    for path in SOURCES.rglob("*"):
        if path.is_file() and path.suffix in (".yaml", ".flags"):
            target = folder / path.relative_to(SOURCES)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return folder


def kustomize(folder):
    done = subprocess.run([str(TOOLS / "bin/kubectl"), "kustomize", str(folder)], text=True,
                          capture_output=True, env={"HOME": "/nonexistent", "PATH": ""}, check=False)
    if done.returncode != 0 or done.stderr.strip():
        raise AssertionError("%s: %s" % (folder, done.stderr))
    return [document for document in yaml.safe_load_all(done.stdout) if document is not None]


@functools.lru_cache(maxsize=None)
def _render(name):
    return json.dumps(kustomize(copied_sources() / name))


def render(name):
    """The objects of "base" or of "overlays/NAME"; the caller's own."""
    return json.loads(_render(name))


def render_components(names):
    """The base with these components, in this order."""
    folder = copied_sources() / "overlays" / ("made-of-" + "-".join(names))
    folder.mkdir(exist_ok=True)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": ["../../base"], "components": ["../../components/" + name for name in names]}))
    return kustomize(folder)


def overlays():
    return sorted("overlays/" + path.parent.name for path in SOURCES.glob("overlays/*/kustomization.yaml"))


def called(item):
    return "%s/%s" % (item.get("kind"), item.get("metadata", {}).get("name"))


def of_kind(objects, *kinds):
    return [item for item in objects if item.get("kind") in kinds]


def find(objects, kind, name):
    return next((item for item in objects
                 if item["kind"] == kind and item["metadata"]["name"] == name), None)


# --- Schemas.

@functools.lru_cache(maxsize=None)
def _definitions(version):
    definitions = json.loads((TOOLS / "schemas" / (version + ".json")).read_text())["$defs"]
    kinds = {}
    for name, schema in definitions.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            kinds[(kind["group"], kind["version"], kind["kind"])] = name
    return definitions, kinds


@functools.lru_cache(maxsize=None)
def _custom():
    path = ROOT / "tests/kubernetes/custom_resources.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=None)
def _validator(version, api_version, kind):
    custom = _custom().get("%s %s" % (api_version, kind))
    if custom is not None:
        return jsonschema.Draft202012Validator(
            {"type": "object", "additionalProperties": False,
             "required": ["apiVersion", "kind", "metadata", "spec"],
             "properties": {"apiVersion": {}, "kind": {}, "spec": custom,
                            "metadata": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}},
             "$defs": _definitions(version)[0]})
    group, _, number = api_version.rpartition("/")
    definitions, kinds = _definitions(version)
    name = kinds.get((group, number, kind))
    if name is None:
        return None
    return jsonschema.Draft202012Validator({"$ref": "#/$defs/" + name, "$defs": definitions})


def schema_faults(item, version):
    """What the schema of that version of Kubernetes says of an object."""
    validator = _validator(version, item.get("apiVersion", ""), item.get("kind", ""))
    if validator is None:
        if item.get("kind") not in LACKING.get(version, ()):
            yield "%s: Kubernetes %s has no %s %s" % (called(item), version, item.get("apiVersion"),
                                                      item.get("kind"))
        return
    for error in validator.iter_errors(item):
        yield "%s at %s: %s (Kubernetes %s)" % (
            called(item), "/".join(str(part) for part in error.absolute_path), error.message[:300], version)
    yield from _nulls(item, called(item))


def _nulls(value, where):
    if value is None:
        yield "%s is null" % where
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _nulls(inner, "%s.%s" % (where, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _nulls(inner, "%s[%d]" % (where, i))


# --- What workloads are made of.

def workloads(objects):
    return of_kind(objects, *WORKLOADS)


def pod_spec(workload):
    return workload["spec"]["template"]["spec"]


def pod_labels(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def containers(workload):
    return pod_spec(workload)["containers"]


def all_containers(workload):
    return containers(workload) + pod_spec(workload).get("initContainers", [])


def matches(selector, labels):
    wanted = (selector or {}).get("matchLabels", {})
    return all(labels.get(key) == value for key, value in wanted.items())


def flags_of(objects, container):
    """The container's flags as (name, value), in the order in which they count; those of the files
    that --flagfile names in their places. Variables of the pod stay as they are."""
    found = []
    for argument in container.get("args", []):
        name, _, value = argument.partition("=")
        if name != "--flagfile":
            found.append((name, value))
            continue
        file_name = pathlib.PurePath(value).name
        for item in of_kind(objects, "ConfigMap"):
            for line in item.get("data", {}).get(file_name, "").splitlines():
                if line.strip() and not line.startswith("#"):
                    name, _, value = line.strip().partition("=")
                    found.append((name, value))
    return found


def last_flags(objects, container):
    return dict(flags_of(objects, container))


def port_of(address):
    return int(address.rpartition(":")[2])


# --- Our own rules.

def probe_faults(objects):
    for workload in workloads(objects):
        for container in containers(workload):
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe not in container:
                    yield "%s: container %s has no %s" % (called(workload), container["name"], probe)
                    continue
                yield from _probe_port_faults(objects, workload, container, container[probe])


def _probe_port_faults(objects, workload, container, probe):
    if "grpc" in probe:
        address = last_flags(objects, container).get("--health_listen", "")
        if not address or port_of(address) != probe["grpc"]["port"]:
            yield "%s: a probe asks at port %s, and --health_listen=%s" % (
                called(workload), probe["grpc"]["port"], address)
        if probe["grpc"].get("service") not in ("liveness", "readiness"):
            yield "%s: nobody answers for service %s" % (called(workload), probe["grpc"].get("service"))
    elif "httpGet" in probe:
        names = [port["name"] for port in container.get("ports", [])]
        if probe["httpGet"]["port"] not in names:
            yield "%s: a probe names port %s" % (called(workload), probe["httpGet"]["port"])


def resource_faults(objects):
    for workload in workloads(objects):
        for container in all_containers(workload):
            resources = container.get("resources", {})
            for kind, names in (("requests", ("cpu", "memory")), ("limits", ("memory",))):
                for name in names:
                    if name not in resources.get(kind, {}):
                        yield "%s: container %s has no %s of %s" % (
                            called(workload), container["name"], kind, name)


def image_faults(objects, version):
    images = [(called(workload), container["image"]) for workload in workloads(objects)
              for container in all_containers(workload)]
    images += [(called(item), item["data"]["image"]) for item in of_kind(objects, "ConfigMap")
               if "image" in item.get("data", {})]
    for where, image in images:
        if not re.fullmatch(r"[a-z0-9.-]+\.[a-z]+/[a-z0-9./-]+:%s" % re.escape(version), image):
            yield "%s: image %s is not pinned to %s" % (where, image, version)


# PodSecurity's profiles, as far as these manifests go near them.
BASELINE_CAPABILITIES = {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
                         "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
RESTRICTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
                      "projected", "secret"}


def baseline_faults(spec):
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    for volume in spec.get("volumes", []):
        if "hostPath" in volume:
            yield "hostPath of volume %s" % volume["name"]
    for container in spec["containers"] + spec.get("initContainers", []):
        security = container.get("securityContext", {})
        if security.get("privileged"):
            yield "privileged container %s" % container["name"]
        for capability in security.get("capabilities", {}).get("add", []):
            if capability not in BASELINE_CAPABILITIES:
                yield "capability %s of container %s" % (capability, container["name"])
        profile = security.get("seccompProfile", spec.get("securityContext", {}).get("seccompProfile", {}))
        if profile.get("type") == "Unconfined":
            yield "no seccomp profile of container %s" % container["name"]
        if any("hostPort" in port for port in container.get("ports", [])):
            yield "hostPort of container %s" % container["name"]


def restricted_faults(spec):
    yield from baseline_faults(spec)
    pod = spec.get("securityContext", {})
    for volume in spec.get("volumes", []):
        if not RESTRICTED_VOLUMES.intersection(volume):
            yield "kind of volume %s" % volume["name"]
    for container in spec["containers"] + spec.get("initContainers", []):
        security = container.get("securityContext", {})
        name = container["name"]
        if security.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation of container %s" % name
        if security.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield "runAsNonRoot of container %s" % name
        if security.get("runAsUser", pod.get("runAsUser")) == 0:
            yield "user 0 of container %s" % name
        if "ALL" not in security.get("capabilities", {}).get("drop", []):
            yield "capabilities of container %s" % name
        if set(security.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
            yield "added capabilities of container %s" % name
        profile = security.get("seccompProfile", pod.get("seccompProfile", {}))
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccomp profile of container %s" % name


def security_faults(objects):
    """What workloads do beyond the profile that the namespace enforces, and what nobody may do."""
    profile = find(objects, "Namespace", NAMESPACE)["metadata"]["labels"].get(
        "pod-security.kubernetes.io/enforce")
    faults = {"restricted": restricted_faults, "baseline": baseline_faults,
              "privileged": lambda spec: ()}.get(profile)
    if faults is None:
        yield "the namespace enforces no profile: %s" % profile
        return
    for workload in workloads(objects):
        for fault in faults(pod_spec(workload)):
            yield "%s is not %s: %s" % (called(workload), profile, fault)
        if pod_spec(workload).get("automountServiceAccountToken") is not False:
            yield "%s mounts a token" % called(workload)
        for container in all_containers(workload):
            if container.get("securityContext", {}).get("readOnlyRootFilesystem") is not True:
                yield "%s: container %s may write its root" % (called(workload), container["name"])
    if profile == "privileged" and not any(
            list(baseline_faults(pod_spec(workload))) for workload in workloads(objects)):
        yield "the namespace is privileged, and nothing in it needs that"
    for item in of_kind(objects, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
        # Roles for enroll.py are bound to nobody.
        if item["kind"].endswith("Binding") or not item["metadata"]["name"].startswith("warpline-enroll"):
            yield "%s: nothing here needs a right at the API" % called(item)
    for account in of_kind(objects, "ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield "%s hands out a token" % called(account)


def selector_faults(objects):
    named_ports = {called(workload): {port["name"]: port["containerPort"]
                                      for container in containers(workload)
                                      for port in container.get("ports", [])}
                   for workload in workloads(objects)}
    for workload in workloads(objects):
        if not matches(workload["spec"]["selector"], pod_labels(workload)):
            yield "%s does not select its own pods" % called(workload)
    for service in of_kind(objects, "Service"):
        chosen = [w for w in workloads(objects) if matches({"matchLabels": service["spec"]["selector"]},
                                                           pod_labels(w))]
        if len(chosen) != 1:
            yield "%s selects %d workloads" % (called(service), len(chosen))
            continue
        for port in service["spec"]["ports"]:
            if port["targetPort"] not in named_ports[called(chosen[0])]:
                yield "%s: no port is called %s" % (called(service), port["targetPort"])
    for budget in of_kind(objects, "PodDisruptionBudget"):
        if not any(matches(budget["spec"]["selector"], pod_labels(w)) for w in workloads(objects)):
            yield "%s selects nothing" % called(budget)
    for policy in of_kind(objects, "NetworkPolicy"):
        chosen = [w for w in workloads(objects) if matches(policy["spec"]["podSelector"], pod_labels(w))]
        if not chosen:
            yield "%s selects nothing" % called(policy)
        for rule in policy["spec"].get("ingress", []):
            for port in rule.get("ports", []):
                if isinstance(port["port"], str) and not any(
                        port["port"] in named_ports[called(w)] for w in chosen):
                    yield "%s: no port is called %s" % (called(policy), port["port"])
            for peer in rule.get("from", []):
                if "podSelector" in peer and "namespaceSelector" not in peer and not any(
                        matches(peer["podSelector"], pod_labels(w)) for w in workloads(objects)):
                    yield "%s lets nobody in: %s" % (called(policy), peer)
    for monitor in of_kind(objects, "ServiceMonitor"):
        chosen = [s for s in of_kind(objects, "Service")
                  if matches(monitor["spec"]["selector"], s["metadata"].get("labels", {}))]
        if len(chosen) != 1:
            yield "%s selects %d services" % (called(monitor), len(chosen))
        for endpoint in monitor["spec"]["endpoints"]:
            for service in chosen:
                if endpoint["port"] not in [port["name"] for port in service["spec"]["ports"]]:
                    yield "%s: the service has no port %s" % (called(monitor), endpoint["port"])
    for hook in of_kind(objects, "MutatingWebhookConfiguration"):
        for one in hook["webhooks"]:
            target = one["clientConfig"]["service"]
            service = find(objects, "Service", target["name"])
            if service is None or target["port"] not in [p["port"] for p in service["spec"]["ports"]]:
                yield "%s: no service answers %s" % (called(hook), target)


def port_faults(objects):
    """Ports of containers, services and policies against the flags that the programs listen by."""
    for workload in workloads(objects):
        for container in containers(workload):
            flags = last_flags(objects, container)
            named = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
            for name, flag in (("grpc", "--listen"), ("health", "--health_listen"),
                               ("metrics", "--admin_listen")):
                if flag in flags and named.get(name) != port_of(flags[flag]):
                    yield "%s: port %s is %s, and %s=%s" % (called(workload), name, named.get(name), flag,
                                                           flags[flag])
            for service in of_kind(objects, "Service"):
                if not matches({"matchLabels": service["spec"]["selector"]}, pod_labels(workload)):
                    continue
                for port in service["spec"]["ports"]:
                    # Of headless services the port is the container's own.
                    if service["spec"].get("clusterIP") == "None" and port["port"] != named.get(
                            port["targetPort"]):
                        yield "%s: port %s is %d" % (called(service), port["name"], port["port"])


def reference_faults(objects, known_secrets):
    """ConfigMaps and Secrets that nobody makes."""
    maps = {item["metadata"]["name"]: item.get("data", {}) for item in of_kind(objects, "ConfigMap")}
    secrets = set(known_secrets) | {item["spec"]["secretName"] for item in of_kind(objects, "Certificate")}
    accounts = {item["metadata"]["name"] for item in of_kind(objects, "ServiceAccount")}
    claims = {item["metadata"]["name"] for item in of_kind(objects, "ResourceClaimTemplate")}
    for workload in workloads(objects):
        spec = pod_spec(workload)
        if spec.get("serviceAccountName") not in accounts:
            yield "%s: no service account %s" % (called(workload), spec.get("serviceAccountName"))
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
        for volume in spec.get("volumes", []):
            source = volume.get("configMap", {"optional": True})
            if not source.get("optional") and source["name"] not in maps:
                yield "%s: no ConfigMap %s" % (called(workload), source["name"])
            if "secret" in volume and volume["secret"]["secretName"] not in secrets:
                yield "%s: nobody makes or documents the Secret %s" % (called(workload),
                                                                       volume["secret"]["secretName"])
        for container in all_containers(workload):
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield "%s: no volume %s" % (called(workload), mount["name"])
            for variable in container.get("env", []):
                reference = variable.get("valueFrom", {}).get("configMapKeyRef")
                if reference and reference["key"] not in maps.get(reference["name"], {}):
                    yield "%s: no key %s in ConfigMap %s" % (called(workload), reference["key"],
                                                             reference["name"])
            names = {variable["name"] for variable in container.get("env", [])}
            for text in container.get("args", []) + [m.get("subPathExpr", "") for m in
                                                     container.get("volumeMounts", [])]:
                for used in re.findall(r"\$\((\w+)\)", text):
                    if used not in names:
                        yield "%s: no variable %s" % (called(workload), used)
        for claim in spec.get("resourceClaims", []):
            if claim["resourceClaimTemplateName"] not in claims:
                yield "%s: no claim template %s" % (called(workload), claim["resourceClaimTemplateName"])


def grace_faults(objects):
    for workload in workloads(objects):
        for container in containers(workload):
            drain = last_flags(objects, container).get("--drain_seconds")
            if drain and pod_spec(workload)["terminationGracePeriodSeconds"] < int(drain) + 30:
                yield "%s is killed before --drain_seconds=%s are over" % (called(workload), drain)


def _bytes(text):
    match = re.fullmatch(r"(\d+)(Mi|Gi|Ti)B?", text)
    assert match, text
    return int(match[1]) << {"Mi": 20, "Gi": 30, "Ti": 40}[match[2]]


def memory_faults(objects):
    """Bounds of host memory that are the node's and not the pod's."""
    for workload in workloads(objects):
        for container in containers(workload):
            if pathlib.PurePath(container["command"][0]).name != "warpline-server":
                continue
            limit = _bytes(container["resources"].get("limits", {}).get("memory", "0Mi"))
            flags = last_flags(objects, container)
            for name in ("--host_memory", "--tenant_host_memory"):
                if name not in flags or 2 * _bytes(flags[name]) > limit:
                    yield "%s: %s=%s, and the pod has %d bytes" % (called(workload), name,
                                                                   flags.get(name), limit)


def injection_faults(objects):
    """That injected pods find the schedulers that servers find."""
    injection = find(objects, "ConfigMap", "warpline-injection")
    if injection is None:
        return
    pools = [item for item in of_kind(objects, "ConfigMap")
             if item["metadata"]["name"].startswith("warpline-pool-")]
    if injection["data"]["endpoint"] != pools[0]["data"]["schedulers"]:
        yield "injected pods get %s, and servers %s" % (injection["data"]["endpoint"],
                                                       pools[0]["data"]["schedulers"])


def program_flags(objects):
    """(program, flag) of all that containers run."""
    for workload in workloads(objects):
        for container in containers(workload):
            program = pathlib.PurePath(container["command"][0]).name
            for name, _ in flags_of(objects, container):
                yield program, name


def metrics_in(objects):
    """Names of metrics that alerts ask for."""
    found = set()
    for item in of_kind(objects, "PrometheusRule"):
        for group in item["spec"]["groups"]:
            for rule in group["rules"]:
                found.update(re.findall(r"\bwarpline_\w+", rule["expr"]))
    return found


def all_faults(objects, version, known_secrets):
    """Of all rules but those that need programs."""
    for kubernetes in VERSIONS:
        for item in objects:
            yield from schema_faults(item, kubernetes)
    for check in (probe_faults, resource_faults, security_faults, selector_faults, port_faults,
                  grace_faults, memory_faults, injection_faults):
        yield from check(objects)
    yield from image_faults(objects, version)
    yield from reference_faults(objects, known_secrets)
