"""Stands in for a kubelet: a Node object of the API server, whose pods' containers are processes here.

It acts with a node's own certificate, so that the API server's rules for nodes hold: it reads the
Secrets and ConfigMaps of its own pods alone, and asks for their ServiceAccounts' tokens. A node without
an installation is hollow: it says that all its pods run, and starts nothing.
"""
import base64
import datetime
import json
import os
import pathlib
import ssl
import subprocess
import threading
import traceback
import http.client

import control_plane
import harness
import pods_here

# How often a node looks at its pods. No test waits for less or more than what it asks for.
LOOK_S = 0.2


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_path(pod, *more):
    metadata = pod["metadata"]
    return "/".join(["/api/v1/namespaces/%s/pods/%s" % (metadata["namespace"], metadata["name"]), *more])


class NotYet(Exception):
    """Something that a pod mounts is not there."""


class PodMachine(pods_here.Machine):
    """Runs containers of one pod, whose volumes come from the API server."""

    def __init__(self, root, installation, api, pod, claims):
        super().__init__(root, installation, [])
        self.api = api
        self.pod = pod
        self.claims = claims

    @staticmethod
    def _choose_ports():
        return {}  # Pods have addresses of their own, and the ports of their manifests.

    def here(self, text, address="127.0.0.1"):
        # All pods are in one network namespace, so that each has its own address in place of the
        # loopback's and of all addresses.
        for own in ("0.0.0.0", "127.0.0.1"):
            text = text.replace(own + ":", address + ":")
        for folder, place in self.installation.items():
            text = text.replace(folder, str(place))
        return text

    def object(self, kind, name, optional=False):
        namespace = self.pod["metadata"]["namespace"]
        try:
            found = self.api.get_or_none("/api/v1/namespaces/%s/%s/%s" % (namespace, kind, name))
        except control_plane.ApiError as error:
            if error.code == 403:  # A server that has just started does not know yet which pods are here.
                raise NotYet(str(error)) from error
            raise
        if found is None and not optional:
            raise NotYet("no %s %s in %s" % (kind, name, namespace))
        return found

    def config_map_value(self, key):
        return self.object("configmaps", key["name"])["data"][key["key"]]

    def token(self, audience, seconds):
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        wanted = {"expirationSeconds": seconds, "boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}}
        if audience:
            wanted["audiences"] = [audience]
        made = self.api.post("/api/v1/namespaces/%s/serviceaccounts/%s/token" % (
            metadata["namespace"], spec["serviceAccountName"]), {
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": wanted})
        return made["status"]["token"]

    def _files_of(self, volume, namespace):
        if "projected" in volume:
            files = {}
            for source in volume["projected"]["sources"]:
                files.update(self._projected(source))
            return files
        if "configMap" in volume:
            source = volume["configMap"]
            found = self.object("configmaps", source["name"], source.get("optional"))
            return dict((found or {}).get("data") or {})
        source = volume["secret"]
        found = self.object("secrets", source["secretName"], source.get("optional"))
        return {name: base64.b64decode(value).decode()
                for name, value in ((found or {}).get("data") or {}).items()}

    def _projected(self, source):
        if "serviceAccountToken" in source:
            token = source["serviceAccountToken"]
            return {token["path"]: self.token(token.get("audience"), token["expirationSeconds"])}
        if "configMap" in source:
            data = self.object("configmaps", source["configMap"]["name"])["data"]
            return {item["path"]: data[item["key"]] for item in source["configMap"]["items"]}
        return {item["path"]: self.pod["metadata"][item["fieldRef"]["fieldPath"].partition(".")[2]]
                for item in source["downwardAPI"]["items"]}

    def volumes(self):
        """Name -> folder. Raises NotYet."""
        metadata = self.pod["metadata"]
        spec = dict(self.pod["spec"])
        claimed = {volume["name"]: volume["persistentVolumeClaim"]["claimName"]
                   for volume in spec.get("volumes", []) if "persistentVolumeClaim" in volume}
        spec["volumes"] = [volume for volume in spec.get("volumes", []) if volume["name"] not in claimed]
        made = self.volumes_of({"name": metadata["uid"], "spec": spec}, namespace=metadata["namespace"])
        for name, claim in claimed.items():
            made[name] = self.claims / metadata["namespace"] / claim
            made[name].mkdir(parents=True, exist_ok=True)
            made[name].chmod(0o777)
        return made

    def renew(self, volumes):
        """Brings changed Secrets and ConfigMaps to the pod, as a kubelet does."""
        for volume in self.pod["spec"].get("volumes", []):
            if not ("secret" in volume or "configMap" in volume):
                continue
            folder = volumes[volume["name"]]
            try:
                files = self._files_of(volume, self.pod["metadata"]["namespace"])
            except NotYet:
                continue  # It was deleted, and the pod keeps what it has.
            for name, text in files.items():
                if name.endswith(".flags"):
                    continue  # Programs read them once, and they name paths of this machine.
                place = folder / name
                if not place.exists() or place.read_text() != text:
                    following = place.with_name(name + ".next")
                    following.write_text(text)
                    following.rename(place)


class PodHere(threading.Thread):
    """One pod's life, from its volumes to its end."""

    def __init__(self, node, pod):
        super().__init__(daemon=True, name="pod-" + pod["metadata"]["name"])
        self.node = node
        self.pod = pod
        self.uid = pod["metadata"]["uid"]
        self.spec = pod["spec"]
        self.address = node.address_of(pod)
        self.ending = threading.Event()
        self.api = node.new_api()
        self.machine = PodMachine(node.folder / "pods", node.installation, self.api, pod, node.claims)
        self.folder = node.folder / "pods" / self.uid
        self.volumes = {}
        self.running = {}  # Container -> process.
        self.codes = {}  # Container -> exit status of the last process.
        self.restarts = {}
        self.ready = set()
        self.said = None

    def run(self):
        try:
            self._live()
        except Exception as error:  # A test looks at what failed.
            gone = isinstance(error, control_plane.ApiError) and error.code == 404
            if not gone:
                self.node.fault("%s: %s" % (self.name, traceback.format_exc()))
        finally:
            self.api.close()

    def _patiently(self, act):
        """Calls it until it succeeds or the pod ends. Returns whether it succeeded."""
        while not self.ending.is_set():
            try:
                act()
                return True
            except NotYet:
                pass
            except Exception as error:
                if not control_plane.is_away(error):
                    raise
            self.ending.wait(LOOK_S)
        return False

    def _mount(self):
        self.volumes = self.machine.volumes()

    def _live(self):
        self._report()
        inits = self.spec.get("initContainers", [])
        if self._patiently(self._mount) and all(self._initialize(one) for one in inits):
            for container in self.spec["containers"]:
                self._start(container)
            self._watch()
        self._end()

    def _initialize(self, container):
        """Returns whether the next one may start."""
        name = container["name"]
        self._start(container)
        if container.get("restartPolicy") == "Always":
            while not self.ending.is_set():
                self._restart_ended([container])
                if self._answers(container, "startupProbe"):
                    self.ready.add(name)
                    return self._patiently(self._report)
                self._patiently(self._report)
                self.ending.wait(LOOK_S)
            return False
        while self.running[name].poll() is None and not self.ending.is_set():
            self.ending.wait(LOOK_S)
        if self.ending.is_set():
            return False  # _end() ends it.
        self.codes[name] = self.running.pop(name).returncode
        if not self._patiently(self._report):
            return False
        if self.codes[name] != 0:
            raise AssertionError("init container %s ended with %d: %s" % (name, self.codes[name], self.log(name)))
        return True

    def _watch(self):
        sidecars = [one for one in self.spec.get("initContainers", []) if one.get("restartPolicy") == "Always"]
        while not self.ending.is_set():
            policy = self.spec.get("restartPolicy", "Always")
            again = self.spec["containers"] if policy == "Always" else []
            self._restart_ended(sidecars + again)
            for container in self.spec["containers"]:
                process = self.running.get(container["name"])
                if process is not None and process.poll() is not None:
                    self.codes[container["name"]] = self.running.pop(container["name"]).returncode
            if all(one["name"] in self.codes for one in self.spec["containers"]):
                return
            self.ready = {one["name"] for one in self.spec["containers"]
                          if self._answers(one, "readinessProbe") and self._answers(one, "livenessProbe")}
            self._patiently(lambda: self.machine.renew(self.volumes))
            self._patiently(self._report)
            self.ending.wait(LOOK_S)

    def _restart_ended(self, containers):
        for container in containers:
            name = container["name"]
            if name in self.running and self.running[name].poll() is not None:
                self.restarts[name] = self.restarts.get(name, 0) + 1
                self._start(container)

    def _start(self, container):
        name = container["name"]
        metadata = self.pod["metadata"]
        fields = {"metadata.name": metadata["name"], "metadata.namespace": metadata["namespace"],
                  "spec.nodeName": self.spec["nodeName"], "status.podIP": self.address}
        # The mounts of subPathExpr are those of a new container.
        command, env = self.machine.prepare(container, self.volumes, fields,
                                            pod_security=self.spec.get("securityContext"), address=self.address)
        if container.get("command", [""])[-1].endswith("/webhook.py"):
            command.append("--address=" + self.address)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / (name + ".json")).write_text(json.dumps({
            "pod": "%s/%s" % (metadata["namespace"], metadata["name"]), "env": env, "programs": {folder: str(place) for folder, place in self.node.installation.items()}}))
        with open(self.folder / (name + ".log"), "ab") as log:
            self.running[name] = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                                  stderr=log, start_new_session=True)

    def log(self, name):
        path = self.folder / (name + ".log")
        return path.read_text() if path.exists() else ""

    def _answers(self, container, probe):
        """Whether a probe says yes; a container without one that runs does."""
        process = self.running.get(container["name"])
        if process is None or process.poll() is not None:
            return False
        asked = container.get(probe)
        if asked is None:
            return True
        if "grpc" in asked:
            try:
                return pods_here.check_health(asked["grpc"]["port"], asked["grpc"]["service"],
                                              self.address) == "SERVING"
            except (OSError, AssertionError):
                return False
        if "exec" in asked:
            command, env = self.machine.prepare({**container, "command": asked["exec"]["command"], "args": []},
                                                self.volumes, {}, address=self.address)
            return subprocess.run(command, env=env, capture_output=True, check=False).returncode == 0
        port = next(one["containerPort"] for one in container["ports"] if one["name"] == asked["httpGet"]["port"])
        context = ssl._create_unverified_context()  # A kubelet verifies nothing either.
        connection = http.client.HTTPSConnection(self.address, port, context=context, timeout=harness.GIVE_UP_S)
        try:
            connection.request("GET", asked["httpGet"]["path"])
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _end(self):
        """Ends containers before sidecars, and then the pod itself if it was deleted."""
        names = [one["name"] for one in self.spec["containers"]]
        names += [one["name"] for one in reversed(self.spec.get("initContainers", []))]
        for name in names:
            process = self.running.pop(name, None)
            if process is None:
                continue
            process.terminate()
            try:
                self.codes[name] = process.wait(harness.GIVE_UP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                self.codes[name] = process.wait()
        self.ready = set()
        self._report(ended=True)
        self.ending.wait()
        self.node.ended[self.pod["metadata"]["name"]] = dict(self.codes)
        self.api.delete(pod_path(self.pod), gracePeriodSeconds=0, preconditions={"uid": self.uid})

    def _report(self, ended=False):
        mains = [one["name"] for one in self.spec["containers"]]
        started = all(name in self.running or name in self.codes for name in mains)
        phase = "Running" if started else "Pending"
        if ended and all(name in self.codes for name in mains):
            phase = "Failed" if any(self.codes[name] for name in mains) else "Succeeded"
        ready = started and not ended and all(name in self.ready for name in mains)
        status = {"phase": phase, "podIP": self.address, "podIPs": [{"ip": self.address}],
                  "hostIP": self.node.address, "conditions": [
                      {"type": kind, "status": "True" if yes else "False"} for kind, yes in (
                          ("Initialized", started), ("ContainersReady", ready), ("Ready", ready))],
                  "containerStatuses": [self._container_status(one) for one in self.spec["containers"]],
                  "initContainerStatuses": [self._container_status(one)
                                            for one in self.spec.get("initContainers", [])]}
        if status == self.said:
            return
        self.api.patch(pod_path(self.pod, "status"), {"status": status}, "application/strategic-merge-patch+json")
        self.said = status

    def _container_status(self, container):
        name = container["name"]
        if name in self.running:
            state = {"running": {"startedAt": self.pod["metadata"]["creationTimestamp"]}}
        elif name in self.codes:
            state = {"terminated": {"exitCode": self.codes[name]}}
        else:
            state = {"waiting": {"reason": "ContainerCreating"}}
        return {"name": name, "image": container["image"], "imageID": "", "ready": name in self.ready,
                "started": name in self.running, "restartCount": self.restarts.get(name, 0), "state": state}


class HollowPod(PodHere):
    """A pod that is said to run, and of which nothing is started."""

    def _live(self):
        for container in self.spec["containers"]:
            self.running[container["name"]] = None
            self.ready.add(container["name"])
        self._report()
        self.ending.wait()
        self.api.delete(pod_path(self.pod), gracePeriodSeconds=0, preconditions={"uid": self.uid})


class Node(threading.Thread):
    """A node, which is there until close(). `installation` says what folders of images are here."""

    def __init__(self, cluster, name, number, installation=None, labels=None, gpus=1):
        super().__init__(daemon=True, name="node-" + name)
        self.cluster = cluster
        self.name_of_node = name
        self.number = number
        self.installation = installation
        self.labels = labels or {}
        self.gpus = gpus
        self.address = "10.244.254.%d" % number
        self.folder = cluster.folder / name
        self.claims = cluster.folder / "claims"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.pods = {}  # UID -> PodHere.
        self.ended = {}  # Name of a pod -> exit status by container.
        self.addresses = {}
        self.faults = []
        self._closing = threading.Event()
        self._user = "node-" + name
        cluster.authority.issue(self._user, "system:node:" + name, ["system:nodes"])
        self.api = self.new_api()
        self._register()
        self.start()

    def new_api(self):
        return control_plane.Api(self.cluster.authority, self._user)

    def fault(self, text):
        self.faults.append(text)

    def address_of(self, pod):
        """A pod of the same name keeps its address, and other pods find it by its names."""
        metadata, spec = pod["metadata"], pod["spec"]
        key = (metadata["namespace"], metadata["name"])
        address = self.addresses.setdefault(key, "10.244.%d.%d" % (self.number, len(self.addresses) + 1))
        if spec.get("subdomain"):
            self.cluster.hosts.put("%s.%s.%s.svc" % (spec["hostname"], spec["subdomain"], metadata["namespace"]),
                                   address)
        return address

    def _register(self):
        self.api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": self.name_of_node, "labels": {"kubernetes.io/hostname": self.name_of_node,
                                                  "kubernetes.io/os": "linux", **self.labels}}})
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "500", "ephemeral-storage": "1Ti"}
        if self.gpus:
            # And a device for RDMA, as a device plug-in says it.
            amounts.update({"nvidia.com/gpu": str(self.gpus), "rdma/hca_shared_devices_a": "1"})
        self.api.patch("/api/v1/nodes/%s/status" % self.name_of_node, {"status": {
            "capacity": amounts, "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": self.address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                            "lastHeartbeatTime": now(), "lastTransitionTime": now()}]}})

    def run(self):
        while not self._closing.wait(LOOK_S):
            try:
                self._look()
            except Exception as error:  # A test looks at what failed.
                if not control_plane.is_away(error):
                    self.fault(traceback.format_exc())
        self.api.close()

    def _look(self):
        found = self.api.get("/api/v1/pods", fieldSelector="spec.nodeName=" + self.name_of_node)["items"]
        here = {pod["metadata"]["uid"]: pod for pod in found}
        for uid, pod in here.items():
            if uid not in self.pods:
                kind = PodHere if self.installation else HollowPod
                self.pods[uid] = kind(self, pod)
                self.pods[uid].start()
            if "deletionTimestamp" in pod["metadata"]:
                self.pods[uid].ending.set()
        for uid in set(self.pods) - set(here):
            self.pods.pop(uid).ending.set()

    def pod(self, namespace, name):
        """The PodHere of that name, or None."""
        return next((one for one in list(self.pods.values()) if (
            one.pod["metadata"]["namespace"], one.pod["metadata"]["name"]) == (namespace, name)), None)

    def close(self):
        self._closing.set()
        self.join()
        for pod in list(self.pods.values()):
            pod.ending.set()
        for pod in list(self.pods.values()):
            pod.join(harness.GIVE_UP_S)
