"""Pods of every odd shape, for whatever injects: name -> (pod, what is to become of it).

What is to become of it is INJECTED, UNTOUCHED, or words of the refusal. Those in MALFORMED no API
server would send.
"""
import copy
import json

INJECTED = "injected"
UNTOUCHED = "untouched"
# Lists of a Pod that are merged by a key of their items.
KEYED_LISTS = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name",
               "volumeMounts": "mountPath"}


def pod(annotations=None, labels=None, metadata=None, container=None, **spec):
    made = {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "team", "labels": {"warpline.dev/inject": "true"}},
            "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    if labels is not None:
        made["metadata"]["labels"] = labels
    if annotations is not None:
        made["metadata"]["annotations"] = {
            key if "/" in key else "warpline.dev/" + key: value for key, value in annotations.items()}
    made["metadata"].update(metadata or {})
    made["spec"]["containers"][0].update(container or {})
    made["spec"].update(spec)
    return made


def canonical(pod):
    """The pod without the order of lists whose items have keys."""
    def sort(value, field=None):
        if isinstance(value, dict):
            return {key: sort(inner, key) for key, inner in value.items()
                    if inner is not None and not (key in KEYED_LISTS and inner == [])}
        if isinstance(value, list):
            items = [sort(item) for item in value]
            if field in ("env", "volumeMounts", "volumes"):
                items.sort(key=lambda item: json.dumps(item, sort_keys=True))
            return items
        return value
    return sort(pod)


def env(*pairs):
    return {"env": [{"name": name, "value": value} for name, value in pairs]}


RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
RESTRICTED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
FROM = {"env": [{"name": "LD_LIBRARY_PATH",
                 "valueFrom": {"configMapKeyRef": {"name": "paths", "key": "libs"}}}]}

PODS = {
    # --- Not asked for.
    "no labels": (pod(labels={}), UNTOUCHED),
    "no metadata but a name": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                               "spec": {"containers": [{"name": "main", "image": "app:1"}]}}, UNTOUCHED),
    "another value of the label": (pod(labels={"warpline.dev/inject": "false"}), UNTOUCHED),
    "the label in capitals": (pod(labels={"warpline.dev/inject": "TRUE"}), UNTOUCHED),
    "annotations without the label": (pod({"gpus": "2"}, labels={"app": "x"}), UNTOUCHED),
    "malformed annotations without the label": (pod({"gpus": "many"}, labels={"app": "x"}), UNTOUCHED),

    # --- Injected.
    "the label alone": (pod(), INJECTED),
    "empty annotations": (pod({}), INJECTED),
    "foreign annotations": (pod({"example.org/gpus": "no", "warpline.development/x": "1"}), INJECTED),
    "one GPU": (pod({"gpus": "1"}), INJECTED),
    "as many GPUs as there may be": (pod({"gpus": "16"}), INJECTED),
    "memory in Mi": (pod({"memory": "512Mi"}), INJECTED),
    "memory in Gi": (pod({"memory": "16Gi"}), INJECTED),
    "memory in Ti": (pod({"memory": "1Ti"}), INJECTED),
    "all three": (pod({"memory": "16Gi", "gpus": "2", "tier": "auto"}), INJECTED),
    "a slice": (pod({"slice": "medium"}), INJECTED),
    "a slice and a tier": (pod({"slice": "pair", "tier": "guarded"}), INJECTED),
    "each tier: isolated": (pod({"tier": "isolated"}), INJECTED),
    "generateName": (pod(metadata={"name": None, "generateName": "p-"}), INJECTED),
    "several containers": (pod(containers=[{"name": n, "image": "app:1"} for n in "abc"]), INJECTED),
    "init containers of its own": (pod(initContainers=[{"name": "first", "image": "app:1"},
                                                       {"name": "second", "image": "app:1"}]), INJECTED),
    "a sidecar of its own": (pod(initContainers=[{"name": "mesh", "image": "mesh:1",
                                                  "restartPolicy": "Always"}]), INJECTED),
    "volumes of its own": (pod(volumes=[{"name": "data", "emptyDir": {}}],
                               container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]}),
                           INJECTED),
    "volumes that no container mounts": (pod(volumes=[{"name": "data", "emptyDir": {}}]), INJECTED),
    "variables of its own": (pod(container=env(("A", "1"), ("WARPLINE_STAT", "1"))), INJECTED),
    "variables with references": (pod(container={"env": [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "LD_LIBRARY_PATH", "value": "/opt/$(NODE)/lib"}]}), INJECTED),
    "a library path of its own": (pod(container=env(("LD_LIBRARY_PATH", "/opt/lib:/usr/lib"),
                                                    ("B", "2"))), INJECTED),
    "an empty library path": (pod(container=env(("LD_LIBRARY_PATH", ""))), INJECTED),
    "a library path without a value": (pod(container={"env": [{"name": "LD_LIBRARY_PATH"}]}), INJECTED),
    "a library path that begins alike": (
        pod(container=env(("LD_LIBRARY_PATH", "/warpline/client/library"))), INJECTED),
    "our library path already": (
        pod(container=env(("LD_LIBRARY_PATH", "/warpline/client/lib:/opt/lib"))), INJECTED),
    "a library path in the second container only": (pod(containers=[
        {"name": "a", "image": "app:1"},
        {"name": "b", "image": "app:1", **env(("X", "1"), ("LD_LIBRARY_PATH", "/b/lib"))}]), INJECTED),
    "restricted": (pod(securityContext=RESTRICTED_POD, container={"securityContext": RESTRICTED}), INJECTED),
    "a user and a group of its own": (pod(securityContext={"runAsUser": 1000, "fsGroup": 2000}), INJECTED),
    "host network": (pod(hostNetwork=True), INJECTED),
    "no links to services, no token": (pod(enableServiceLinks=False,
                                           automountServiceAccountToken=False), INJECTED),
    "a job's": (pod(restartPolicy="Never", activeDeadlineSeconds=600), INJECTED),
    "tolerations, affinity, priority": (pod(tolerations=[{"operator": "Exists"}], priorityClassName="high",
                                            nodeSelector={"a": "b"}), INJECTED),
    "for Linux": (pod(os={"name": "linux"}), INJECTED),
    "ports, probes, resources, a command": (pod(container={
        "command": ["python3"], "args": ["-m", "app"], "ports": [{"containerPort": 80}],
        "livenessProbe": {"tcpSocket": {"port": 80}},
        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m"}}}), INJECTED),
    "envFrom": (pod(container={"envFrom": [{"secretRef": {"name": "s"}}]}), INJECTED),
    "a volume device": (pod(container={"volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}]},
                            volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "c"}}]),
                        INJECTED),
    "finalizers and owners": (pod(metadata={"finalizers": ["example.org/f"], "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}]}), INJECTED),
    "forty containers": (pod(containers=[{"name": "c%d" % i, "image": "app:1"} for i in range(40)]),
                         INJECTED),
    "names in other alphabets": (pod({"example.org/né": "日本語\u2028"}), INJECTED),

    # --- Refused.
    "no GPU": (pod({"gpus": "0"}), "gpus: expected"),
    "too many GPUs": (pod({"gpus": "17"}), "gpus: expected"),
    "a GPU of words": (pod({"gpus": "one"}), "gpus: expected"),
    "a negative number": (pod({"gpus": "-1"}), "gpus: expected"),
    "half a GPU": (pod({"gpus": "0.5"}), "gpus: expected"),
    "GPUs with a blank": (pod({"gpus": "1 "}), "gpus: expected"),
    "GPUs with a line end": (pod({"gpus": "1\n"}), "gpus: expected"),
    "no text for GPUs": (pod({"gpus": ""}), "gpus: expected"),
    "an Arabic digit": (pod({"gpus": "\u0663"}), "gpus: expected"),
    "options among the GPUs": (pod({"gpus": "1 --endpoint=evil:1"}), "gpus: expected"),
    "memory without a unit": (pod({"memory": "16"}), "memory: expected"),
    "memory in bytes": (pod({"memory": "17179869184"}), "memory: expected"),
    "memory in decimal units": (pod({"memory": "16G"}), "memory: expected"),
    "no memory": (pod({"memory": "0Gi"}), "memory: expected"),
    "endless memory": (pod({"memory": "99999999999Ti"}), "memory: expected"),
    "memory and options": (pod({"memory": "1Gi --gpus=8"}), "memory: expected"),
    "a slice that does not exist": (pod({"slice": "huge"}), "there is no slice"),
    "a slice by another key": (pod({"slice": "../image"}), "there is no slice"),
    "no text for a slice": (pod({"slice": ""}), "there is no slice"),
    "a slice and memory": (pod({"slice": "small", "memory": "1Gi"}), "leave warpline.dev/gpus"),
    "a slice and GPUs": (pod({"slice": "small", "gpus": "1"}), "leave warpline.dev/gpus"),
    "a tier that does not exist": (pod({"tier": "gold"}), "tier: expected"),
    "a tier in capitals": (pod({"tier": "Auto"}), "tier: expected"),
    "no text for a tier": (pod({"tier": ""}), "tier: expected"),
    "a misspelt annotation": (pod({"gpu": "1"}), "there is no annotation warpline.dev/gpu:"),
    "the label as an annotation": (pod({"inject": "true"}), "there is no annotation warpline.dev/inject"),
    "for Windows": (pod(os={"name": "windows"}), "for Linux"),
    "an endpoint of its own": (pod(container=env(("WARPLINE_ENDPOINT", "x:1"))), "sets a variable"),
    "a credential of its own": (pod(container=env(("WARPLINE_CREDENTIAL", "x"))), "sets a variable"),
    "a tier by variable": (pod(container=env(("WARPLINE_TIER", "guarded"))), "sets a variable"),
    "an endpoint in the second container": (pod(containers=[
        {"name": "a", "image": "app:1"},
        {"name": "b", "image": "app:1", **env(("WARPLINE_ENDPOINT", "x:1"))}]), "sets a variable"),
    "a library path from elsewhere": (pod(container=FROM), "valueFrom"),
    "a library path twice": (pod(container=env(("LD_LIBRARY_PATH", "/a"), ("LD_LIBRARY_PATH", "/b"))),
                             "twice"),
    "an init container with our name": (pod(initContainers=[{"name": "warpline-hold", "image": "x:1"}]),
                                        "a name that injection uses"),
    "a volume with our name": (pod(volumes=[{"name": "warpline-credential", "emptyDir": {}}]),
                               "a name that injection uses"),
}
PODS = {name: (copy.deepcopy(made), fate) for name, (made, fate) in PODS.items()}
for _made, _ in PODS.values():
    if _made["metadata"].get("name", "") is None:
        del _made["metadata"]["name"]

# What a webhook must survive all the same.
MALFORMED = {
    "no spec": ({"metadata": {"labels": {"warpline.dev/inject": "true"}}}, "no container"),
    "a spec that is a list": (pod(containers=None) | {"spec": []}, "pod.spec is no object"),
    "containers that are an object": (pod(containers={"a": 1}), "spec.containers is no list"),
    "a container that is a text": (pod(containers=["main"]), "without a name"),
    "a container without a name": (pod(containers=[{"image": "x"}]), "without a name"),
    "no containers": (pod(containers=[]), "no container"),
    "variables that are an object": (pod(container={"env": {}}), "container.env is no list"),
    "a variable without a name": (pod(container={"env": [{"value": "x"}]}), "without a name"),
    "a library path that is a number": (pod(container={"env": [{"name": "LD_LIBRARY_PATH", "value": 7}]}),
                                        "LD_LIBRARY_PATH is no text"),
    "an annotation that is a number": (pod({"gpus": 1}), "is no text"),
    "annotations that are a list": (pod(metadata={"annotations": []}), "metadata.annotations is no object"),
    "volumes that are null": (pod(volumes=None), INJECTED),
    "mounts that are null": (pod(container={"volumeMounts": None, "env": None}), INJECTED),
}
