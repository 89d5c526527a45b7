"""Runs containers of rendered manifests on this machine: what a kubelet does, as far as the programs
notice. Paths of mounts become folders of a test, ports others that are free, names of services this
host. Where this process is root, containers have no rights, and the user that the manifest names."""
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys

import manifests

sys.path.insert(0, str(manifests.ROOT / "deploy/local"))

import local_server  # noqa: E402  (found by the path above)

PORTS = ("14000", "14001", "14002", "14100", "14101", "14102", "2379")


class Machine:
    """`root` is a folder of the test's, `installation` the one that /usr/lib/warpline is."""

    def __init__(self, root, installation, objects):
        self.root = pathlib.Path(root)
        self.installation = installation
        self.objects = objects
        self.ports = self._choose_ports()
        self.secrets = {}  # (namespace, name) -> {key: text}
        self.config_maps = {}  # Those that people make: name -> {key: text}
        self.sign = None  # What makes the ServiceAccount's token: (audience, namespace) -> text.

    @staticmethod
    def _choose_ports():
        """Port in the manifests -> one that is free at all addresses of this host."""
        return {port: str(local_server.free_port("0.0.0.0")) for port in PORTS}

    def here(self, text, address="127.0.0.1"):
        """The text with ports, names of hosts and the installation as they are here; `address` is the
        pod's own. The pods of a StatefulSet have addresses one after the other."""
        text = re.sub(r"\b(14[01]0[012]|2379)\b", lambda match: self.ports[match[0]], text)
        text = re.sub(r"(?:warpline-scheduler|etcd)-(\d)(?:\.[a-z-]+){2}\.svc",
                      lambda match: "127.0.0.%d" % (int(match[1]) + 1), text)
        text = text.replace("0.0.0.0:", address + ":")
        return text.replace("/usr/lib/warpline", str(self.installation))

    def _files_of(self, volume, namespace):
        """The files that a volume of texts has."""
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            if volume["configMap"].get("optional"):
                return self.config_maps.get(name, {})
            return dict(manifests.find(self.objects, "ConfigMap", name)["data"])
        if "projected" in volume:
            (source,) = volume["projected"]["sources"]
            token = source["serviceAccountToken"]
            return {token["path"]: self.sign(token["audience"], namespace)}
        return self.secrets[(namespace, volume["secret"]["secretName"])]

    def volumes_of(self, pod, claims=(), namespace="warpline"):
        """Makes a pod's volumes. Returns name -> folder."""
        folder = self.root / pod["name"]
        made = {name: folder / name for name in claims}
        for volume in pod["spec"].get("volumes", []):
            made[volume["name"]] = folder / volume["name"]
            if "emptyDir" in volume:
                continue
            (folder / volume["name"]).mkdir(parents=True, exist_ok=True)
            for name, text in self._files_of(volume, namespace).items():
                (folder / volume["name"] / name).write_text(text)
        for path in made.values():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)  # As kubelets make them.
        return made

    def _variables(self, container, fields):
        found = {}
        for variable in container.get("env", []):
            value = variable.get("value", "")
            source = variable.get("valueFrom", {})
            if "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            elif "configMapKeyRef" in source:
                value = self.config_map_value(source["configMapKeyRef"])
            found[variable["name"]] = value
        return found

    def config_map_value(self, key):
        return manifests.find(self.objects, "ConfigMap", key["name"])["data"][key["key"]]

    def start(self, container, volumes, fields=None, program=None, pod_security=None,
              address="127.0.0.1"):
        """Starts the container, or `program` in its place, and returns the process."""
        command, env = self.prepare(container, volumes, fields, program, pod_security, address)
        return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def prepare(self, container, volumes, fields=None, program=None, pod_security=None,
                address="127.0.0.1"):
        """Returns the command and the environment that start the container, or `program` in its place."""
        env = self._variables(container, fields or {})

        def expand(text):
            return re.sub(r"\$\((\w+)\)", lambda match: env[match[1]], text)

        places = []
        for mount in container.get("volumeMounts", []):
            place = volumes[mount["name"]]
            if "subPathExpr" in mount:
                place = place / expand(mount["subPathExpr"])
            places.append((mount["mountPath"], str(place)))
        inside = "|".join(re.escape(place) for place, _ in sorted(places, key=lambda at: -len(at[0])))
        outside = dict(places)

        def put(text):
            text = re.sub(r"(?<![\w/])(%s)(?=[/:,\s]|$)" % inside, lambda found: outside[found[1]],
                          expand(text))
            return self.here(text, address)

        # Flag files name paths, too.
        for name in {mount["name"] for mount in container.get("volumeMounts", [])}:
            for path in volumes[name].glob("*.flags"):
                path.write_text("".join(put(line) for line in path.read_text().splitlines(True)))
        command = program or [put(word) for word in container["command"] + container.get("args", [])]
        env = {name: put(value) for name, value in env.items()}
        env["PATH"] = "/usr/bin:/bin"
        security = {**(pod_security or {}), **container.get("securityContext", {})}
        return [*self._as_user(security), *command], env

    @staticmethod
    def _as_user(security):
        if os.geteuid() != 0:
            return []
        command = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        user = security.get("runAsUser", 65532)
        # Bazel's sandbox has one user alone.
        if has_user(user):
            command += ["--reuid=%d" % user, "--regid=%d" % security.get("runAsGroup", user),
                        "--clear-groups"]
        return command


def has_user(user):
    """Whether this user namespace has the user."""
    for line in pathlib.Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = (int(word) for word in line.split())
        if first <= user < first + count:
            return True
    return False


def check_health(port, service, address="127.0.0.1"):
    """The status that grpc.health.v1.Health/Check answers for a service, as a kubelet asks: over
    HTTP/2 in plain text."""
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(
            ">I", stream) + payload

    def header(name, value):
        return bytes((0, len(name))) + name + bytes((len(value),)) + value

    headers = b"".join(header(*pair) for pair in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/grpc.health.v1.Health/Check"),
        (b":authority", b"localhost"), (b"content-type", b"application/grpc"), (b"te", b"trailers")))
    message = b"\x0a" + bytes((len(service),)) + service.encode()
    with socket.create_connection((address, port), 10) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") +
                           frame(1, 4, 1, headers) +
                           frame(0, 1, 1, b"\0" + struct.pack(">I", len(message)) + message))
        stream = connection.makefile("rb")
        while True:
            head = stream.read(9)
            assert len(head) == 9, "the connection ended without an answer"
            payload = stream.read(int.from_bytes(head[:3], "big"))
            if head[3] == 0 and len(payload) >= 7:  # DATA: a prefix of five bytes, field 1 as a varint.
                assert payload[5] == 8, payload
                return {1: "SERVING", 2: "NOT_SERVING"}[payload[6]]
            assert head[3] != 1 or not head[4] & 1, "an error without an answer"
