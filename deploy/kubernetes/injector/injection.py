"""What injection does to a pod: the JSON patch that gives it the client, a lease and what its programs
need, or the reason why not.

The MutatingAdmissionPolicy in components/admission-policy says the same in CEL; the tests hold both to
the same answers.
"""
import dataclasses
import pathlib
import re

PREFIX = "warpline.dev/"
KNOWN = ("gpus", "memory", "slice", "tier")
TIERS = ("isolated", "guarded", "auto")
GPUS = re.compile(r"([1-9]|1[0-6])\Z")
MEMORY = re.compile(r"[1-9][0-9]{0,8}(Mi|Gi|Ti)\Z")
SLICE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
RESERVED_VARIABLES = frozenset(
    "WARPLINE_" + name for name in (
        "ENDPOINT", "TOKEN_FILE", "LEASE_FOLDER", "CREDENTIAL", "CREDENTIAL_FILE", "TLS_CA", "TLS_CERT",
        "TLS_KEY", "TLS_SERVER_NAME", "TIER"))
INIT_CONTAINERS = ("warpline-client", "warpline-hold")
VOLUMES = ("warpline-client", "warpline-lease", "warpline-tls", "warpline-credential")
LIBRARIES = "/warpline/client/lib"
READABLE = 0o444


class Refusal(Exception):
    """Why the pod cannot be injected, for whoever made it."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the ConfigMap warpline-injection says."""
    image: str
    endpoint: str
    tls_server_name: str
    slices: dict  # Name -> options of `warpline hold`.
    # Whether the pod's ServiceAccount token is the tenant's credential, in place of a Secret.
    tokens: bool = False

    @classmethod
    def read(cls, folder):
        """From the folder as which the ConfigMap is mounted. Raises Refusal for one that lacks what is
        needed."""
        values = {}
        try:
            for path in pathlib.Path(folder).iterdir():
                if not path.name.startswith("..") and path.is_file():
                    values[path.name] = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refusal("the webhook's configuration cannot be read: %s" % error) from error
        for name in ("image", "endpoint", "tls_server_name"):
            if not values.get(name):
                raise Refusal("the ConfigMap warpline-injection has no %s" % name)
        slices = {name[len("slice."):]: text.split(" ") for name, text in values.items()
                  if name.startswith("slice.")}
        return cls(values["image"], values["endpoint"], values["tls_server_name"], slices,
                   values.get("service_account_tokens") == "true")


def _part(of, name, kind, where):
    """A field that may be missing or null. Raises Refusal when it is something else than `kind`."""
    value = of.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise Refusal("%s.%s is no %s" % (where, name, "list" if kind is list else "object"))
    return value


def _named(items, where):
    """The items, each an object with a name."""
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
            raise Refusal("%s has an item without a name" % where)
    return items


def _annotations(pod):
    found = {}
    annotations = _part(_part(pod, "metadata", dict, "pod"), "annotations", dict, "metadata")
    for key, value in annotations.items():
        if not key.startswith(PREFIX):
            continue
        if not isinstance(value, str):
            raise Refusal("annotation %s is no text" % key)
        if key[len(PREFIX):] not in KNOWN:
            raise Refusal("there is no annotation %s: there are warpline.dev/gpus, warpline.dev/memory, "
                          "warpline.dev/slice and warpline.dev/tier" % key)
        found[key[len(PREFIX):]] = value
    return found


def _check_annotations(asked, settings):
    if "gpus" in asked and not GPUS.match(asked["gpus"]):
        raise Refusal("warpline.dev/gpus: expected a whole number from 1 to 16")
    if "memory" in asked and not MEMORY.match(asked["memory"]):
        raise Refusal("warpline.dev/memory: expected a quantity such as 512Mi, 16Gi or 1Ti")
    if "slice" in asked:
        if not SLICE.match(asked["slice"]) or asked["slice"] not in settings.slices:
            raise Refusal("warpline.dev/slice: there is no slice of that name in the ConfigMap "
                          "warpline-injection")
        if "gpus" in asked or "memory" in asked:
            raise Refusal("warpline.dev/slice: a slice says how many GPUs and how much memory; leave "
                          "warpline.dev/gpus and warpline.dev/memory out")
    if "tier" in asked and asked["tier"] not in TIERS:
        raise Refusal("warpline.dev/tier: expected isolated, guarded or auto")


def _has_client(container):
    mounts = _part(container, "volumeMounts", list, "container")
    return any(isinstance(mount, dict) and mount.get("name") == "warpline-client" for mount in mounts)


def _check_container(container):
    env = _named(_part(container, "env", list, "container"), "container.env")
    names = [variable["name"] for variable in env]
    if RESERVED_VARIABLES.intersection(names):
        raise Refusal("a container sets a variable that injection sets (WARPLINE_ENDPOINT, _TOKEN_FILE, "
                      "_LEASE_FOLDER, _CREDENTIAL, _TLS_*, _TIER): leave it out, or leave the label out")
    paths = [variable for variable in env if variable["name"] == "LD_LIBRARY_PATH"]
    if len(paths) > 1 or any(path.get("valueFrom") is not None for path in paths):
        raise Refusal("a container has LD_LIBRARY_PATH twice or takes it from elsewhere (valueFrom), so "
                      "that the client cannot be put in front of it: write its value, once")


def _tls(settings):
    return [{"name": "WARPLINE_TLS_CA", "value": "/warpline/tls/ca.crt"},
            {"name": "WARPLINE_TLS_CERT", "value": "/warpline/tls/tls.crt"},
            {"name": "WARPLINE_TLS_KEY", "value": "/warpline/tls/tls.key"},
            {"name": "WARPLINE_TLS_SERVER_NAME", "value": settings.tls_server_name}]


def _mount(name, read_only=True):
    mount = {"name": "warpline-" + name, "mountPath": "/warpline/" + name}
    if read_only:
        mount["readOnly"] = True
    return mount


def _restricted():
    return {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532,
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}


def _init_containers(asked, settings):
    request = ["--gpus=" + asked["gpus"]] if "gpus" in asked else []
    request += ["--memory=" + asked["memory"] + "B"] if "memory" in asked else []
    request += settings.slices[asked["slice"]] if "slice" in asked else []
    copy = {"name": "warpline-client", "image": settings.image, "imagePullPolicy": "IfNotPresent",
            "command": ["/usr/bin/cp", "-r", "--preserve=mode,timestamps", "--remove-destination",
                        "/usr/lib/warpline/bin", "/usr/lib/warpline/lib", "/warpline/client"],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
            "securityContext": _restricted(), "volumeMounts": [_mount("client", read_only=False)]}
    hold = {"name": "warpline-hold", "image": settings.image, "imagePullPolicy": "IfNotPresent",
            "restartPolicy": "Always",
            "command": ["/usr/lib/warpline/bin/warpline", "hold", "--folder=/warpline/lease", "--share_token",
                        "--endpoint=" + settings.endpoint] + request,
            "env": [{"name": "WARPLINE_CREDENTIAL_FILE", "value": "/warpline/credential/credential"}] +
                   _tls(settings),
            # A pod that waits for room waits for a week.
            "startupProbe": {"exec": {"command": ["/usr/bin/test", "-s", "/warpline/lease/token"]},
                             "periodSeconds": 1, "failureThreshold": 604800},
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": _restricted(),
            "volumeMounts": [_mount("lease", read_only=False), _mount("tls"), _mount("credential")]}
    return copy, hold


def _credential(settings):
    if not settings.tokens:
        return {"secret": {"secretName": "warpline-tenant", "defaultMode": READABLE}}
    # The kubelet writes the next one before this one runs out.
    return {"projected": {"defaultMode": READABLE, "sources": [{"serviceAccountToken": {
        "audience": "warpline", "expirationSeconds": 3600, "path": "credential"}}]}}


def _volumes(settings):
    return [{"name": "warpline-client", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "warpline-lease", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "warpline-tls",
             "secret": {"secretName": "warpline-client-tls", "defaultMode": READABLE}},
            {"name": "warpline-credential", **_credential(settings)}]


class _Patch:
    """Operations of a JSON patch (RFC 6902) that add to lists which may not be there."""

    def __init__(self):
        self.operations = []

    def add(self, path, value):
        self.operations.append({"op": "add", "path": path, "value": value})

    def append_all(self, path, present, values):
        if present is None:
            self.add(path, list(values))
        else:
            for value in values:
                self.add(path + "/-", value)


def _inject_container(patch, path, container, asked, settings):
    variables = [{"name": "WARPLINE_LEASE_FOLDER", "value": "/warpline/lease"}] + _tls(settings)
    if "tier" in asked:
        variables.append({"name": "WARPLINE_TIER", "value": asked["tier"]})
    env = container.get("env")
    at = next((i for i, one in enumerate(env or []) if one["name"] == "LD_LIBRARY_PATH"), None)
    if at is None:
        variables.insert(0, {"name": "LD_LIBRARY_PATH", "value": LIBRARIES})
    else:
        own = env[at].get("value") or ""
        if not isinstance(own, str):
            raise Refusal("LD_LIBRARY_PATH is no text")
        if own != LIBRARIES and not own.startswith(LIBRARIES + ":"):
            patch.add("%s/env/%d" % (path, at),
                      {"name": "LD_LIBRARY_PATH", "value": LIBRARIES + (":" + own if own else "")})
            # `add` makes room in a list: what was there is the next one now.
            patch.operations.append({"op": "remove", "path": "%s/env/%d" % (path, at + 1)})
    patch.append_all(path + "/env", env, variables)
    patch.append_all(path + "/volumeMounts", container.get("volumeMounts"),
                     [_mount("client"), _mount("lease"), _mount("tls")])


def patch_for(pod, settings):
    """The operations that inject `pod`, none where all is there. Raises Refusal."""
    if not isinstance(pod, dict):
        raise Refusal("there is no pod")
    asked = _annotations(pod)
    _check_annotations(asked, settings)
    spec = _part(pod, "spec", dict, "pod")
    if _part(spec, "os", dict, "spec").get("name") == "windows":
        raise Refusal("Warpline's client is for Linux, and the pod's spec.os is windows")
    inits = [one["name"] for one in
             _named(_part(spec, "initContainers", list, "spec"), "spec.initContainers")
             if one["name"] in INIT_CONTAINERS]
    volumes = [one["name"] for one in _named(_part(spec, "volumes", list, "spec"), "spec.volumes")
               if one["name"] in VOLUMES]
    if len(inits) not in (0, len(INIT_CONTAINERS)) or len(volumes) not in (0, len(VOLUMES)):
        raise Refusal("the pod has an init container or a volume with a name that injection uses (%s)"
                      % ", ".join(dict.fromkeys(INIT_CONTAINERS + VOLUMES)))
    containers = _named(_part(spec, "containers", list, "spec"), "spec.containers")
    if not containers:
        raise Refusal("the pod has no container")
    patch = _Patch()
    for i, container in enumerate(containers):
        if not _has_client(container):
            _check_container(container)
            _inject_container(patch, "/spec/containers/%d" % i, container, asked, settings)
    if not inits:
        copy, hold = _init_containers(asked, settings)
        if spec.get("initContainers") is None:
            patch.add("/spec/initContainers", [])
        # The client is there, and the pod has its lease, before anything else of the pod starts.
        patch.add("/spec/initContainers/0", hold)
        patch.add("/spec/initContainers/0", copy)
    if not volumes:
        patch.append_all("/spec/volumes", spec.get("volumes"), _volumes(settings))
    return patch.operations
