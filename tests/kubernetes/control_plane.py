"""Starts a Kubernetes control plane from a folder of binaries: etcd, kube-apiserver,
kube-controller-manager and kube-scheduler, with certificates, an audit log and a network of its own.

There is no kubelet; node_here.py stands in for one. An example:

    control_plane.enter_network()      # Starts this program again in a network of its own.
    with control_plane.ControlPlane(binaries, folder) as cluster:
        print(cluster.kubectl("get", "namespaces"))
"""
import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import threading
import urllib.parse

import manifests

sys.path.insert(0, str(manifests.ROOT / "tests"))

import harness  # noqa: E402  (found by the path above)

BINARIES = "WARPLINE_KUBERNETES_BINARIES"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# All addresses of these networks are this host's, once enter_network() has been called.
NETWORKS = ("10.96.0.0/16", "10.244.0.0/16")
SERVICES = NETWORKS[0]
ADDRESS = "10.244.255.1"
PORT = 6443
ISSUER = "https://kubernetes.default.svc.cluster.local"
_ENTERED = "WARPLINE_TEST_IN_NETWORK"


def binaries():
    """The folder that the environment names, or None."""
    folder = os.environ.get(BINARIES)
    return pathlib.Path(folder) if folder else None


def why_not():
    """The reason why there can be no control plane here, or None."""
    folder = binaries()
    if folder is None:
        return "%s names no folder with %s" % (BINARIES, ", ".join(PROGRAMS))
    missing = [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]
    if missing:
        return "%s lacks %s" % (folder, ", ".join(missing))
    if _unshare() is None:
        return "this user may make no network namespace"
    return None


def _unshare():
    for user in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *user, "--net", "--mount"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    return None


def enter_network():
    """Starts the program again in network and mount namespaces of its own. Pods have addresses there,
    and ports never collide with those of other programs."""
    if os.environ.get(_ENTERED) != "1":
        os.environ[_ENTERED] = "1"
        os.execvp("unshare", [*_unshare(), sys.executable, *sys.argv])
    commands = [["link", "set", "lo", "up"]]
    commands += [["route", "add", "local", network, "dev", "lo"] for network in NETWORKS]
    for command in commands:
        subprocess.run(["ip", *command], check=True)


class Hosts:
    """Names of pods, which all programs of this network find in /etc/hosts."""

    def __init__(self, folder):
        self._path = pathlib.Path(folder) / "hosts"
        self._names = {"localhost": "127.0.0.1"}
        self._lock = threading.Lock()
        self._write()
        subprocess.run(["mount", "--bind", str(self._path), "/etc/hosts"], check=True)

    def close(self):
        subprocess.run(["umount", "/etc/hosts"], check=True)

    def put(self, name, address):
        with self._lock:
            self._names[name] = address
            self._write()

    def _write(self):
        self._path.write_text("".join("%s %s\n" % (address, name) for name, address in self._names.items()))


class Authority:
    """Signs certificates for the cluster's programs and users."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self._new_key("ca")
        self._openssl("req", "-x509", "-new", "-key", self.path("ca.key"), "-subj", "/CN=cluster", "-days", "30",
                      "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", self.path("ca.crt"))

    def path(self, name):
        return str(self.folder / name)

    def _openssl(self, *arguments, given=None):
        subprocess.run(["openssl", *arguments], input=given, capture_output=True, text=True, check=True)

    def _new_key(self, name):
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
                      self.path(name + ".key"))

    def issue(self, name, common_name, groups=(), names=(), usages=("serverAuth", "clientAuth")):
        """Makes NAME.crt and NAME.key. `names` are those of a server."""
        self._new_key(name)
        subject = "".join("/O=" + group for group in groups) + "/CN=" + common_name
        self._openssl("req", "-new", "-key", self.path(name + ".key"), "-subj", subject, "-out",
                      self.path(name + ".csr"))
        lines = ["basicConstraints=critical,CA:FALSE"]
        if usages:
            lines.append("extendedKeyUsage=" + ",".join(usages))
        if names:
            lines.append("subjectAltName=" + ",".join(
                ("IP:" if re.fullmatch(r"[0-9.]+", one) else "DNS:") + one for one in names))
        pathlib.Path(self.path(name + ".ext")).write_text("\n".join(lines) + "\n")
        self._openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path("ca.crt"), "-CAkey",
                      self.path("ca.key"), "-CAcreateserial", "-days", "30", "-extfile",
                      self.path(name + ".ext"), "-out", self.path(name + ".crt"))


class ApiError(Exception):
    """The API server's refusal."""

    def __init__(self, code, status):
        super().__init__("%d %s" % (code, status.get("message")))
        self.code = code
        self.status = status


def is_away(error):
    """Whether this exception says that the API server restarts, or does not serve everything yet."""
    if isinstance(error, ApiError):
        return error.code == 429 or error.code >= 500
    return isinstance(error, (OSError, http.client.HTTPException))


class Api:
    """Requests to the API server with one user's certificate or token. It is for one thread."""

    def __init__(self, authority, user=None, token=None):
        self._context = ssl.create_default_context(cafile=authority.path("ca.crt"))
        if user is not None:
            self._context.load_cert_chain(authority.path(user + ".crt"), authority.path(user + ".key"))
        self._token = token
        self._connection = None

    def request(self, method, path, body=None, content="application/json", **query):
        """The answer's object. Raises ApiError."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = {"Content-Type": content, "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        data = None if body is None else json.dumps(body)
        for attempt in range(2):
            kept = self._connection is not None
            if not kept:
                self._connection = http.client.HTTPSConnection(ADDRESS, PORT, context=self._context,
                                                               timeout=harness.GIVE_UP_S)
            try:
                self._connection.request(method, path, data, headers)
                answer = self._connection.getresponse()
                text = answer.read().decode()
                break
            except (OSError, http.client.HTTPException):
                self.close()
                # The server has restarted since the last request.
                if attempt == 1 or not kept:
                    raise
        try:
            found = json.loads(text)
        except ValueError:
            found = {"message": text}
        if answer.status >= 300:
            raise ApiError(answer.status, found)
        return found

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path, **query):
        return self.request("GET", path, **query)

    def get_or_none(self, path):
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def post(self, path, body, **query):
        return self.request("POST", path, body, **query)

    def patch(self, path, body, content="application/merge-patch+json"):
        return self.request("PATCH", path, body, content)

    def delete(self, path, **body):
        return self.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **body})


_AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
"""


class ControlPlane:
    """A control plane that runs until close()."""

    def __init__(self, folder):
        self.binaries = binaries()
        self.folder = pathlib.Path(folder)
        self.processes = {}
        self.hosts = Hosts(self.folder)
        self.authority = Authority(self.folder / "pki")
        self._make_certificates()
        self.api = Api(self.authority, "admin")
        try:
            self._start_etcd()
            self.start_api_server()
            for name in ("kube-controller-manager", "kube-scheduler"):
                self._start_with_kubeconfig(name)
        except BaseException:
            self.close()
            raise

    def _make_certificates(self):
        issue = self.authority.issue
        issue("apiserver", "kube-apiserver", names=[ADDRESS, "127.0.0.1", "10.96.0.1", "kubernetes.default.svc"])
        issue("etcd", "etcd", names=["127.0.0.1"])
        issue("admin", "admin", ["system:masters"])
        issue("kube-controller-manager", "system:kube-controller-manager")
        issue("kube-scheduler", "system:kube-scheduler")
        self.new_signing_key("tokens")
        self.signing_keys = ["tokens"]

    def new_signing_key(self, name):
        """A key for ServiceAccount tokens; the server takes it when start_api_server() has named it."""
        path = self.authority.path(name)
        subprocess.run(["openssl", "genrsa", "-out", path + ".key", "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", path + ".key", "-pubout", "-out", path + ".pub"], check=True,
                       capture_output=True)

    def start(self, name, *arguments):
        """Starts a program; its output goes to a log beside its data."""
        with open(self.log(name), "ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(self.binaries / name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "GOMEMLIMIT": "1GiB"})

    def log(self, name):
        return self.folder / (name + ".log")

    def await_ready(self, name, condition):
        def ready():
            if self.processes[name].poll() is not None:
                raise AssertionError("%s ended:\n%s" % (name, self.log(name).read_text()[-4000:]))
            try:
                return condition()
            except (OSError, ApiError, http.client.HTTPException):
                return False

        harness.wait_until(ready, lambda: "%s is ready:\n%s" % (name, self.log(name).read_text()[-4000:]))

    def stop(self, name):
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(harness.GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self):
        self.api.close()
        for name in reversed(list(self.processes)):
            self.stop(name)
        self.hosts.close()

    def _start_etcd(self):
        path = self.authority.path
        self.start("etcd", "--data-dir=%s" % (self.folder / "etcd"), "--listen-client-urls=https://127.0.0.1:2379",
                   "--advertise-client-urls=https://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380",
                   "--cert-file=" + path("etcd.crt"), "--key-file=" + path("etcd.key"),
                   "--trusted-ca-file=" + path("ca.crt"), "--client-cert-auth", "--unsafe-no-fsync")

    def start_api_server(self):
        """Starts the API server, which signs by the first of `signing_keys` and verifies by all."""
        path = self.authority.path
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(_AUDIT_POLICY)
        self.audit_log = self.folder / "audit.log"
        self.start(
            "kube-apiserver", "--etcd-servers=https://127.0.0.1:2379", "--etcd-cafile=" + path("ca.crt"),
            "--etcd-certfile=" + path("admin.crt"), "--etcd-keyfile=" + path("admin.key"),
            "--advertise-address=" + ADDRESS, "--bind-address=0.0.0.0", "--secure-port=%d" % PORT,
            "--tls-cert-file=" + path("apiserver.crt"), "--tls-private-key-file=" + path("apiserver.key"),
            "--client-ca-file=" + path("ca.crt"), "--service-cluster-ip-range=" + SERVICES,
            "--service-account-issuer=" + ISSUER,
            "--service-account-signing-key-file=" + path(self.signing_keys[0] + ".key"),
            *["--service-account-key-file=" + path(name + ".pub") for name in self.signing_keys],
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            # Nothing here routes addresses of services: webhooks are asked at those of their pods.
            "--enable-aggregator-routing=true", "--allow-privileged=true",
            "--kubelet-client-certificate=" + path("admin.crt"), "--kubelet-client-key=" + path("admin.key"),
            "--kubelet-certificate-authority=" + path("ca.crt"), "--audit-policy-file=%s" % policy,
            "--audit-log-path=%s" % self.audit_log, "--audit-log-mode=blocking")
        api = Api(self.authority, "admin")
        self.await_ready("kube-apiserver", lambda: api.get("/readyz")["message"] == "ok")
        api.close()
        self.kubeconfig("admin")

    def restart_api_server(self):
        self.stop("kube-apiserver")
        self.start_api_server()
        self.api.close()

    def _start_with_kubeconfig(self, name):
        arguments = ["--kubeconfig=" + self.kubeconfig(name), "--bind-address=127.0.0.1", "--leader-elect=false"]
        if name == "kube-controller-manager":
            path = self.authority.path
            arguments += ["--use-service-account-credentials", "--root-ca-file=" + path("ca.crt"),
                          "--service-account-private-key-file=" + path("tokens.key"),
                          # A busy machine never loses a node.
                          "--node-monitor-grace-period=1h"]
        self.start(name, *arguments)

    def kubeconfig(self, user):
        """The path of the user's kubeconfig; Authority.issue() has made the user's certificate."""
        path = self.folder / (user + ".kubeconfig")
        file = self.authority.path
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": "https://%s:%d" % (ADDRESS, PORT),
                                                      "certificate-authority": file("ca.crt")}}],
            "users": [{"name": user, "user": {"client-certificate": file(user + ".crt"),
                                              "client-key": file(user + ".key")}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": user}}]}))
        return str(path)

    def kubectl(self, *arguments, user="admin", given=None, status=0):
        """What kubectl prints, to both streams where it must fail."""
        done = subprocess.run(
            [str(manifests.TOOLS / "bin/kubectl"), "--kubeconfig=" + self.kubeconfig(user), *arguments],
            input=given, capture_output=True, text=True, check=False,
            env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"})
        said = done.stdout + done.stderr
        if (done.returncode == 0) != (status == 0):
            raise AssertionError("kubectl %s: %s" % (" ".join(arguments), said))
        return done.stdout if status == 0 else said

    def version(self):
        """(major, minor) of the API server."""
        found = self.api.get("/version")
        return int(found["major"]), int(re.match(r"\d+", found["minor"])[0])

    def audited(self, user):
        """What the user asked for and the API server allowed: the set of (verb, resource)."""
        found = set()
        for line in self.audit_log.read_text().splitlines():
            event = json.loads(line)
            if event["user"].get("username") != user or "objectRef" not in event:
                continue
            if event.get("annotations", {}).get("authorization.k8s.io/decision") != "allow":
                continue
            reference = event["objectRef"]
            if "resource" in reference:
                found.add((event["verb"], "/".join(filter(None, (
                    reference.get("apiGroup"), reference["resource"], reference.get("subresource"))))))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
