#!/usr/bin/env python3
"""Injects pods at the API server's request, for clusters without MutatingAdmissionPolicy.

POST /inject takes an AdmissionReview (admission.k8s.io/v1) and answers one; GET /healthz says that it
is there. It is Python's standard library alone. Connections are bounded in number, size and time, and
each ends with its answer; certificates that have changed count for the next one.
"""
import argparse
import base64
import collections
import http.server
import json
import os
import signal
import socket
import socketserver
import ssl
import sys
import threading
import time

import injection

LABEL = "warpline.dev/inject"
# What waits to be read and what is parsed stay far below the memory that the manifest gives. No pod
# comes near these: a review of one has some kilobytes and some hundred parts.
MOST_BYTES = 1 << 20
MOST_PARTS = 1 << 16  # Objects, lists and commas: each part may take 200 bytes when it is parsed.
MOST_PARSED = 2  # At a time.
MOST_CONNECTIONS = 64
# So that one address never keeps out the API server and the kubelet, which asks for /healthz.
MOST_CONNECTIONS_OF_ADDRESS = 32
SECONDS_OF_SILENCE = 5
SECONDS_OF_CONNECTION = 15  # However much is sent meanwhile.


class BadRequest(Exception):
    """What was sent is no question that can be answered."""


def _no_constant(name):
    raise ValueError("%s is no JSON" % name)


def parse_review(body):
    """The request of an AdmissionReview. Raises BadRequest."""
    if body.count(b"{") + body.count(b"[") + body.count(b",") > MOST_PARTS:
        raise BadRequest("more than %d objects, lists and members" % MOST_PARTS)
    try:
        review = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest("no JSON: %s" % error) from error
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise BadRequest("no AdmissionReview")
    if review.get("apiVersion") != "admission.k8s.io/v1":
        raise BadRequest("expected admission.k8s.io/v1")
    request = review.get("request")
    if not isinstance(request, dict):
        raise BadRequest("no request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= 256:
        raise BadRequest("no uid")
    return request


def _wants_injection(request):
    kind = request.get("kind")
    if not isinstance(kind, dict) or (kind.get("group"), kind.get("version"), kind.get("kind")) != (
            "", "v1", "Pod"):
        return False
    if request.get("operation") != "CREATE":
        return False
    pod = request.get("object")
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get(LABEL) == "true"


def answer(request, read_settings):
    """The AdmissionReview that answers `request`."""
    response = {"uid": request["uid"], "allowed": True}
    if _wants_injection(request):
        try:
            patch = injection.patch_for(request["object"], read_settings())
            if patch:
                response["patchType"] = "JSONPatch"
                response["patch"] = base64.b64encode(
                    json.dumps(patch, separators=(",", ":")).encode()).decode()
        except injection.Refusal as refusal:
            response["allowed"] = False
            response["status"] = {"code": 422, "reason": "Invalid", "message": "warpline: %s" % refusal}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "warpline-injector"
    sys_version = ""

    def setup(self):
        # Here and not where connections are taken, so that nobody holds the others up.
        self.request.settimeout(SECONDS_OF_SILENCE)
        self.request = self.server.tls().wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self):
        try:
            super().finish()
            # What is closed with bytes unread takes the answer with it. The time is bounded.
            self.request.shutdown(socket.SHUT_WR)
            left = MOST_BYTES
            while left > 0 and (part := self.request.recv(min(left, 65536))):
                left -= len(part)
        finally:
            self.request.close()

    def do_GET(self):
        if self.path == "/healthz":
            self._send(200, b"ok\n", "text/plain")
        else:
            self._send(404, b"there is /inject, and /healthz\n", "text/plain")

    def do_POST(self):
        # The API server adds ?timeout=...
        if self.path.split("?", 1)[0] != "/inject":
            return self._send(404, b"there is /inject, and /healthz\n", "text/plain")
        try:
            body = self._body()
            with self.server.parsing:
                review = answer(parse_review(body), self.server.read_settings)
        except BadRequest as error:
            self.log_message("bad request: %s", str(error)[:200])
            return self._send(400, ("%s\n" % error).encode(errors="replace")[:1000], "text/plain")
        response = review["response"]
        if not response["allowed"]:
            self.log_message("refused uid=%r: %s", response["uid"][:64],
                             response["status"]["message"][:300])
        return self._send(200, json.dumps(review).encode(), "application/json")

    def _body(self):
        if self.headers.get_content_type() != "application/json":
            raise BadRequest("expected application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or len(length) > 9:
            raise BadRequest("expected a Content-Length")
        if int(length) > MOST_BYTES:
            raise BadRequest("larger than %d bytes" % MOST_BYTES)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise BadRequest("cut off")
        return body

    def _send(self, code, body, kind):
        self.close_connection = True
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code="-", size="-"):
        """Nothing: probes and pods would fill the log."""

    def log_message(self, format, *arguments):
        # What others sent stays on one line.
        text = (format % arguments).encode("ascii", "backslashreplace").decode()
        print("injector: %s" % "".join(c if c.isprintable() else "?" for c in text), file=sys.stderr,
              flush=True)


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Above MOST_CONNECTIONS at a time, or MOST_CONNECTIONS_OF_ADDRESS, it closes new ones unanswered; the
    API server tries again."""
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address, cert, key, settings_folder):
        self._files = (cert, key)
        self._lock = threading.Lock()
        self._context = None  # Guarded by _lock, as is what it was made of.
        self._stamp = None
        self._settings_folder = settings_folder
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._of_address = collections.Counter()  # Connections. Under _lock.
        self.parsing = threading.BoundedSemaphore(MOST_PARSED)
        self.tls()
        self._open = {}  # Another handle of each connection -> when it has to end. Under _lock.
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)

    def read_settings(self):
        return injection.Settings.read(self._settings_folder)

    def tls(self):
        """The context of the files as they are; the former one while they do not fit together."""
        with self._lock:
            try:
                stamp = tuple((os.stat(path).st_mtime_ns, os.stat(path).st_ino) for path in self._files)
                if stamp != self._stamp:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.minimum_version = ssl.TLSVersion.TLSv1_2
                    context.load_cert_chain(*self._files)
                    self._context, self._stamp = context, stamp
            except (OSError, ssl.SSLError):
                if self._context is None:
                    raise
            return self._context

    def process_request(self, request, client_address):
        if not self._take_slot(client_address[0]):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # There are no more threads.
            self._give_slot(client_address[0])
            self.shutdown_request(request)

    def _take_slot(self, address):
        with self._lock:
            if self._of_address[address] >= MOST_CONNECTIONS_OF_ADDRESS:
                return False
            if not self._slots.acquire(blocking=False):
                return False
            self._of_address[address] += 1
            return True

    def _give_slot(self, address):
        with self._lock:
            self._of_address[address] -= 1
            if self._of_address[address] == 0:
                del self._of_address[address]
        self._slots.release()

    def process_request_thread(self, request, client_address):
        try:
            handle = request.dup()
            with self._lock:
                self._open[handle] = time.monotonic() + SECONDS_OF_CONNECTION
            try:
                super().process_request_thread(request, client_address)
            finally:
                with self._lock:
                    del self._open[handle]
                handle.close()
        finally:
            self._give_slot(client_address[0])

    def service_actions(self):
        """Every half a second: ends connections whose time is over."""
        now = time.monotonic()
        with self._lock:
            for handle, end in self._open.items():
                if now >= end:
                    try:
                        handle.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass  # The peer was first.

    def handle_error(self, request, client_address):
        # A peer that hangs up, is slow or speaks no TLS is its own affair.
        error = sys.exc_info()[1]
        if not isinstance(error, (OSError, ssl.SSLError)):
            print("injector: %r" % error, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default="0.0.0.0", help="to listen on (default 0.0.0.0)")
    parser.add_argument("--port", type=int, default=8443, help="0 for any (default 8443)")
    parser.add_argument("--cert", required=True, help="PEM file with the certificate")
    parser.add_argument("--key", required=True, help="PEM file with its key")
    parser.add_argument("--settings", required=True, metavar="DIR",
                        help="the ConfigMap warpline-injection, mounted as a folder")
    args = parser.parse_args()
    try:
        injection.Settings.read(args.settings)
        server = Server((args.address, args.port), args.cert, args.key, args.settings)
    except (OSError, ssl.SSLError, injection.Refusal) as error:
        print("injector: %s" % error, file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print("injector: serving port=%d" % server.server_address[1], file=sys.stderr, flush=True)
    with server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
