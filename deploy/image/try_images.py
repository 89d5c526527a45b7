#!/usr/bin/env python3
"""Tries the images of ./dev image out without a cluster: a pool with the CPU device, an unmodified program
that has the client from an init container, and the webhook. Needs root.

Everything runs in namespaces of its own, without a network, each container in a chroot of its image that
it cannot write, as the image's user, without new privileges, with the flags of deploy/kubernetes/base.
What was made is gone afterwards.
"""
import argparse
import fcntl
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import oci  # noqa: E402  (lies beside this file)

WARPLINE = "/usr/lib/warpline/bin/"
SCHEDULER = "warpline-scheduler-0.warpline-scheduler.warpline.svc:14100"
TLS = {"WARPLINE_TLS_CA": "/etc/warpline/tls/ca.crt", "WARPLINE_TLS_CERT": "/etc/warpline/tls/tls.crt",
       "WARPLINE_TLS_KEY": "/etc/warpline/tls/tls.key", "WARPLINE_TLS_SERVER_NAME": "warpline.warpline.svc"}
CLIENT_TLS = {name: value.replace("/etc/warpline", "/warpline") for name, value in TLS.items()}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


class Container:
    """A chroot of an image's file system. `mounts` is folder of this machine -> place in it."""

    def __init__(self, work, name, image, mounts, user=65532):
        self.name = name
        self.user = user
        self.root = work / "roots" / name
        self.log = open(work / (name + ".log"), "w+", encoding="utf-8")
        shutil.copytree(image, self.root, symlinks=True)
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost %s\n" % SCHEDULER.partition(":")[0])
        for place in mounts.values():
            (self.root / place.strip("/")).mkdir(parents=True, exist_ok=True)
        devices = ("null", "zero", "full", "random", "urandom")
        for device in devices:
            (self.root / "dev" / device).touch()
        run("mount", "--bind", self.root, self.root)
        run("mount", "-o", "remount,bind,ro", self.root)
        run("mount", "-t", "proc", "proc", self.root / "proc")
        run("mount", "-t", "tmpfs", "tmpfs", self.root / "tmp")
        for device in devices:
            run("mount", "--bind", "/dev/" + device, self.root / "dev" / device)
        for source, place in mounts.items():
            run("mount", "--bind", source, self.root / place.strip("/"))

    def command(self, *words, **env):
        return ["env", "-i", "PATH=/usr/lib/warpline/bin:/usr/bin", *["%s=%s" % item for item in env.items()],
                "setpriv", "--no-new-privs", "chroot", "--userspec=%d:%d" % (self.user, self.user),
                str(self.root), *words]

    def start(self, *words, **env):
        # chroot and setpriv are this machine's, by PATH.
        command = self.command(*words, **env)
        command[2] += ":/usr/sbin:/sbin"
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def run(self, *words, **env):
        command = self.command(*words, **env)
        command[2] += ":/usr/sbin:/sbin"
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit("%s: %s failed: %s" % (self.name, words[0], done.stdout + done.stderr))
        return done.stdout

    def said(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")


def wait_until(condition, what, process=None, container=None):
    deadline = time.monotonic() + 60
    while not condition():
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > deadline:
            raise SystemExit("%s: not so%s\n%s" % (what, ", it ended" if ended else "",
                                                   container.said() if container else ""))
        time.sleep(0.1)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def folder(work, name, mode=0o777, **files):
    made = work / name
    made.mkdir()
    for file, text in files.items():
        (made / file.replace("__", ".")).write_text(text)
    made.chmod(mode)
    return made


def loopback_up():
    request = struct.pack("16sh14x", b"lo", 1)  # IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, 0x8914, request)  # SIOCSIFFLAGS


def tls_folder(work, name, certs, who):
    return folder(work, name, 0o755, ca__crt=(certs / "ca.crt").read_text(),
                  tls__crt=(certs / (who + ".crt")).read_text(), tls__key=(certs / (who + ".key")).read_text())


def inside(args, work):
    loopback_up()
    images = {}
    for name in ("warpline", "warpline-client", "warpline-injector", "warpline-model-server"):
        images[name] = work / "images" / name
        images[name].mkdir(parents=True)
        oci.unpack(pathlib.Path(args.images) / name, images[name])
    certs = work / "certs"
    run(ROOT / "deploy/local/make_certs.sh", "--server_is_client", certs,
        "warpline.warpline.svc,*.warpline-scheduler.warpline.svc,warpline-injector.warpline.svc", "team",
        stdout=subprocess.DEVNULL)
    flags = ROOT / "deploy/kubernetes/base"
    flag_files = folder(work, "flags", 0o755)
    for name in ("server.flags", "scheduler.flags"):
        shutil.copyfile(flags / name, flag_files / name)
    server_tls = tls_folder(work, "server-tls", certs, "server")

    scheduler = Container(work, "scheduler", images["warpline"], {
        server_tls: "/etc/warpline/tls", flag_files: "/etc/warpline/flags",
        folder(work, "scheduler-state"): "/var/lib/warpline"})
    process = scheduler.start(WARPLINE + "warpline-scheduler",
                              "--flagfile=/etc/warpline/flags/scheduler.flags",
                              "--state=/var/lib/warpline/state", "--audit_dir=/var/lib/warpline/audit")
    wait_until(lambda: listens(14100), "the scheduler serves", process, scheduler)
    operate = {"WARPLINE_ENDPOINT": "127.0.0.1:14100",
               "WARPLINE_OPERATOR_CREDENTIAL_FILE": "/var/lib/warpline/state/operator.credential", **TLS}
    credential = scheduler.run(WARPLINE + "warpline", "servers", "add", "node-a", **operate)
    tenant = scheduler.run(WARPLINE + "warpline", "tenant", "add", "team", **operate)

    server = Container(work, "server", images["warpline"], {
        server_tls: "/etc/warpline/tls", flag_files: "/etc/warpline/flags",
        folder(work, "server-credential", 0o755, credential=credential): "/etc/warpline/credentials",
        folder(work, "server-state"): "/var/lib/warpline", folder(work, "server-run"): "/run/warpline"})
    server_process = server.start(
        WARPLINE + "warpline-server", "--flagfile=/etc/warpline/flags/server.flags",
        "--scheduler=" + SCHEDULER, "--scheduler_credential_file=/etc/warpline/credentials/credential",
        "--name=node-a", "--advertise=127.0.0.1:14000", "--device=cpu:2", "--drain_seconds=5",
        XDG_RUNTIME_DIR="/run/warpline", **TLS)
    wait_until(lambda: "node-a" in scheduler.run(WARPLINE + "warpline", "servers", **operate),
               "the server has joined", server_process, server)
    client = folder(work, "pod-client")
    lease = folder(work, "pod-lease")
    client_tls = tls_folder(work, "pod-tls", certs, "team")
    copy = Container(work, "copy", images["warpline-client"], {client: "/warpline/client"})
    copy.run("/usr/bin/cp", "-r", "--preserve=mode,timestamps", "--remove-destination",
             "/usr/lib/warpline/bin", "/usr/lib/warpline/lib", "/warpline/client")
    hold = Container(work, "hold", images["warpline-client"], {
        lease: "/warpline/lease", client_tls: "/warpline/tls",
        folder(work, "pod-credential", 0o755, credential=tenant): "/warpline/credential"})
    holder = hold.start(WARPLINE + "warpline", "hold", "--folder=/warpline/lease", "--share_token", "--endpoint=" + SCHEDULER,
                        "--memory=1GiB", WARPLINE_CREDENTIAL_FILE="/warpline/credential/credential",
                        **CLIENT_TLS)
    wait_until(lambda: (lease / "token").exists(), "the pod has its lease", holder, hold)

    # An application's image: glibc, libstdc++ and a program, and nothing of ours.
    app_image = work / "images/app"
    shutil.copytree(images["warpline-client"], app_image, symlinks=True)
    shutil.rmtree(app_image / "usr/lib/warpline")
    shutil.copy("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", app_image / "usr/lib/x86_64-linux-gnu")
    shutil.copy(pathlib.Path(args.bundle) / "bin/examples/vector_add", app_image / "usr/bin/vector_add")
    app = Container(work, "app", app_image, {client: "/warpline/client", lease: "/warpline/lease",
                                             client_tls: "/warpline/tls"}, user=12345)
    environment = {"LD_LIBRARY_PATH": "/warpline/client/lib", "WARPLINE_LEASE_FOLDER": "/warpline/lease",
                   **CLIENT_TLS}
    print(app.run("/usr/bin/vector_add", **environment).strip().splitlines()[-1])
    devices = app.run("/warpline/client/bin/warpline", "devices", **environment)
    print("a pod sees: %s" % next(line for line in devices.splitlines() if line.startswith("name ")))
    print("the server's jail: " + next(
        (line[line.index("jail profile=worker"):] for line in server.said().splitlines()
         if "jail profile=worker" in line), "nothing said"))
    holder.terminate()
    if holder.wait(20) != 0:
        raise SystemExit("the holder: " + hold.said())

    models = Container(work, "models", images["warpline-model-server"], {
        server_tls: "/etc/warpline/tls",
        folder(work, "model-tenants", 0o755, team__key="0123456789abcdef", team__credential=tenant): "/etc/warpline/tenants"})
    serving = models.start(WARPLINE + "model_server", "--listen=127.0.0.1:14200", "--tenants=/etc/warpline/tenants",
                           "--warpline=" + WARPLINE + "warpline", **{**TLS, "WARPLINE_ENDPOINT": SCHEDULER})
    wait_until(lambda: listens(14200), "the model server serves", serving, models)
    said = models.run(WARPLINE + "model_client", "--key_file=/etc/warpline/tenants/team.key", "--tokens=8", "The lease is")
    if said != models.run(WARPLINE + "model_worker", "--reference=The lease is", "--tokens=8"):
        raise SystemExit("the model server answered %r: %s" % (said, models.said()))
    print("the model server goes on with a text")
    serving.terminate()
    if serving.wait(20) != 0:
        raise SystemExit("the model server: " + models.said())

    settings = folder(work, "settings", 0o755, image="registry.example.org/warpline-client:1",
                      endpoint=SCHEDULER, tls_server_name="warpline.warpline.svc")
    injector = Container(work, "injector", images["warpline-injector"], {
        server_tls: "/etc/warpline/tls", settings: "/etc/warpline/injection"})
    webhook = injector.start("/usr/bin/python3", "-B", "-E", "-s", "/usr/lib/warpline-injector/webhook.py",
                             "--port=8443", "--cert=/etc/warpline/tls/tls.crt",
                             "--key=/etc/warpline/tls/tls.key", "--settings=/etc/warpline/injection")
    wait_until(lambda: listens(8443), "the webhook serves", webhook, injector)
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": {
            "metadata": {"labels": {"warpline.dev/inject": "true"}},
            "spec": {"containers": [{"name": "main", "image": "app:1"}]}}}}).encode()
    context = ssl.create_default_context(cafile=str(certs / "ca.crt"))
    with context.wrap_socket(socket.create_connection(("127.0.0.1", 8443), 20),
                             server_hostname="warpline-injector.warpline.svc") as connection:
        connection.sendall(b"POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    if b'"patchType": "JSONPatch"' not in answer:
        raise SystemExit("the webhook answered %r" % answer)
    print("the webhook answers with a patch")

    server_process.terminate()
    webhook.terminate()
    process.terminate()
    codes = [one.wait(30) for one in (server_process, webhook, process)]
    if any(codes):
        raise SystemExit("ended with %s\n%s" % (codes, server.said()))
    print("images: ok")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", default=str(ROOT / "dist/images"))
    parser.add_argument("--bundle", default=str(ROOT / "dist/warpline"), help="for the example program")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return inside(args, pathlib.Path(args.inside))
    if os.geteuid() != 0:
        raise SystemExit("try_images: needs root")
    work = pathlib.Path(tempfile.mkdtemp(prefix="warpline-images-"))
    work.chmod(0o755)
    try:
        # With the namespaces go their mounts and every process.
        return subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc",
             "--propagation=private", sys.executable, str(pathlib.Path(__file__).resolve()),
             "--inside=%s" % work, "--images=%s" % args.images, "--bundle=%s" % args.bundle],
            check=False).returncode
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
