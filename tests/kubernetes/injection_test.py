#!/usr/bin/python3
"""Injection, as the webhook does it over TLS and as the admission policies do it: both do the same with
every pod, what comes out is valid, and doing it twice changes nothing."""
import base64
import concurrent.futures
import copy
import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

import jsonpatch
import manifests
import pods
import policies

sys.path.insert(0, str(manifests.SOURCES / "injector"))

import injection  # noqa: E402  (found by the path above)
import webhook  # noqa: E402

HOST = "warpline-injector.warpline.svc"
GIVE_UP_S = 240


def review(pod, uid="u-1", operation="CREATE", kind=("", "v1", "Pod")):
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": uid, "operation": operation, "object": pod, "namespace": "team",
                        "kind": dict(zip(("group", "version", "kind"), kind)),
                        "resource": {"group": "", "version": "v1", "resource": "pods"}}}


def params():
    return copy.deepcopy(manifests.find(manifests.render("overlays/admission-policy"), "ConfigMap",
                                        "warpline-injection"))


class Webhook:
    """A webhook of its own, with a certificate and settings from the rendered ConfigMap."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-injector-"))
        self.settings = self.folder / "settings"
        self.settings.mkdir()
        for name, text in params()["data"].items():
            (self.settings / name).write_text(text)
        self.make_certificate()
        program = manifests.SOURCES / "injector/webhook.py"
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-E", "-s", str(program), "--address=127.0.0.1", "--port=0",
             "--cert=%s" % (self.folder / "certs/server.crt"), "--key=%s" % (self.folder / "certs/server.key"),
             "--settings=%s" % self.settings], stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        assert "serving port=" in line, line + self.process.stderr.read()
        self.port = int(line.rpartition("=")[2])
        self.reader = concurrent.futures.ThreadPoolExecutor(1)
        self.log = self.reader.submit(self.process.stderr.read)

    def make_certificate(self):
        subprocess.run([str(manifests.ROOT / "deploy/local/make_certs.sh"), str(self.folder / "certs"), HOST],
                       check=True, capture_output=True)

    def connect(self, timeout=GIVE_UP_S):
        context = ssl.create_default_context(cafile=str(self.folder / "certs/ca.crt"))
        raw = socket.create_connection(("127.0.0.1", self.port), timeout)
        return context.wrap_socket(raw, server_hostname=HOST)

    def send(self, data):
        """What comes back of raw bytes."""
        with self.connect() as connection:
            connection.sendall(data)
            answer = b""
            while True:
                part = connection.recv(65536)
                if not part:
                    return answer
                answer += part

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(HOST, timeout=GIVE_UP_S)
        connection.sock = self.connect()
        try:
            connection.request(method, path, body, headers or {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, question):
        status, body = self.request("POST", "/inject?timeout=10s", json.dumps(question))
        assert status == 200, (status, body)
        answer = json.loads(body)
        assert answer["apiVersion"] == "admission.k8s.io/v1" and answer["kind"] == "AdmissionReview"
        assert answer["response"]["uid"] == question["request"]["uid"]
        return answer["response"]

    def inject(self, pod, **more):
        """(the pod afterwards, None) or (None, the refusal)."""
        response = self.ask(review(pod, **more))
        if not response["allowed"]:
            assert "patch" not in response
            return None, response["status"]["message"]
        if "patch" not in response:
            return pod, None
        assert response["patchType"] == "JSONPatch"
        patch = json.loads(base64.b64decode(response["patch"], validate=True))
        return jsonpatch.apply_patch(copy.deepcopy(pod), patch), None

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(GIVE_UP_S) == 0
        finally:
            self.process.kill()
            self.log.result()
            self.reader.shutdown()
            self.process.stderr.close()
            shutil.rmtree(self.folder)


class InjectionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.webhook = Webhook()
        objects = manifests.render("overlays/admission-policy")
        cls.mutating = manifests.find(objects, "MutatingAdmissionPolicy", "warpline-injection")
        cls.validating = manifests.find(objects, "ValidatingAdmissionPolicy", "warpline-injection")
        cls.params = params()

    @classmethod
    def tearDownClass(cls):
        cls.webhook.close()

    def by_policy(self, pod):
        """The same as Webhook.inject()."""
        if not policies.concerns(self.mutating, pod):
            return pod, None
        after = policies.mutate(self.mutating, pod, self.params)
        refusals = policies.refusals(self.validating, after, self.params)
        return (None, refusals[0]) if refusals else (after, None)

    def assert_injected(self, pod, after):
        spec = after["spec"]
        self.assertEqual([c["name"] for c in spec["initContainers"][:2]], ["warpline-client", "warpline-hold"])
        self.assertEqual(spec["initContainers"][2:], pod["spec"].get("initContainers", []))
        self.assertEqual(len(spec["volumes"]), len(pod["spec"].get("volumes") or []) + 4)
        for container in spec["containers"]:
            env = {one["name"]: one for one in container["env"]}
            self.assertEqual(len(env), len(container["env"]))
            path = env["LD_LIBRARY_PATH"]["value"]
            self.assertTrue(path == "/warpline/client/lib" or path.startswith("/warpline/client/lib:"), path)
            self.assertEqual(path.count("/warpline/client/lib:"), path.count(":") and 1)
            self.assertEqual(env["WARPLINE_LEASE_FOLDER"]["value"], "/warpline/lease")
            mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
            for place in ("/warpline/client", "/warpline/lease", "/warpline/tls"):
                self.assertTrue(mounts[place]["readOnly"])
            # The credential is the holder's alone.
            self.assertNotIn("warpline-credential", [m["name"] for m in container["volumeMounts"]])
        for version in manifests.VERSIONS:
            self.assertEqual(list(manifests.schema_faults(after, version)), [])

    def test_there_are_enough_pods(self):
        self.assertGreaterEqual(len(pods.PODS), 40)

    def test_pods_are_what_an_api_server_sends(self):
        for name, (pod, _) in pods.PODS.items():
            self.assertEqual(list(manifests.schema_faults(pod, "1.37")), [], name)

    def test_webhook_and_policies_do_the_same_with_every_pod(self):
        for name, (pod, fate) in pods.PODS.items():
            with self.subTest(name):
                after, refusal = self.webhook.inject(pod)
                by_policy, policy_refusal = self.by_policy(pod)
                if fate == pods.UNTOUCHED:
                    self.assertEqual((after, by_policy), (pod, pod))
                elif fate == pods.INJECTED:
                    self.assertIsNone(refusal)
                    self.assertIsNone(policy_refusal)
                    self.assert_injected(pod, after)
                    self.assert_injected(pod, by_policy)
                    self.assertEqual(pods.canonical(after), pods.canonical(by_policy))
                else:
                    self.assertIn(fate, refusal or "no refusal")
                    self.assertIn(fate, policy_refusal or "no refusal")
                    self.assertEqual(refusal, "warpline: " + policy_refusal)

    def test_injecting_twice_changes_nothing(self):
        for name, (pod, fate) in pods.PODS.items():
            if fate != pods.INJECTED:
                continue
            with self.subTest(name):
                once, _ = self.webhook.inject(pod)
                self.assertEqual(self.webhook.inject(once), (once, None))
                self.assertEqual(pods.canonical(self.by_policy(once)[0]), pods.canonical(once))
                by_policy, _ = self.by_policy(pod)
                self.assertEqual(pods.canonical(self.by_policy(by_policy)[0]), pods.canonical(by_policy))
                self.assertEqual(self.webhook.inject(by_policy), (by_policy, None))

    def test_an_apply_configuration_merges_no_list_without_keys(self):
        with self.assertRaisesRegex(policies.PolicyError, "atomic.*sources"):
            policies.merge({}, {"volumes": [{"name": "token", "projected": {"sources": [{"secret": {}}]}}]})

    def test_tokens_take_the_place_of_the_secret(self):
        objects = manifests.render("overlays/service-account-tenants")
        found = manifests.find(objects, "ConfigMap", "warpline-injection")
        values = found["data"]
        settings = injection.Settings(values["image"], values["endpoint"], values["tls_server_name"], {},
                                      values["service_account_tokens"] == "true")
        pod = pods.pod({"memory": "1Gi"})
        by_webhook = jsonpatch.apply_patch(copy.deepcopy(pod), injection.patch_for(pod, settings))
        by_policy = policies.mutate(self.mutating, pod, found)
        self.assertEqual(policies.refusals(self.validating, by_policy, found), [])
        self.assertEqual(pods.canonical(by_webhook), pods.canonical(by_policy))
        self.assert_injected(pod, by_webhook)
        (volume,) = [v for v in by_policy["spec"]["volumes"] if v["name"] == "warpline-credential"]
        (source,) = volume["projected"]["sources"]
        self.assertEqual(source["serviceAccountToken"],
                         {"audience": "warpline", "expirationSeconds": 3600, "path": "credential"})
        self.assertEqual(pods.canonical(policies.mutate(self.mutating, by_policy, found)), pods.canonical(by_policy))
        without = policies.mutate(self.mutating, pod, self.params)
        self.assertIn("warpline-tenant", json.dumps(without["spec"]["volumes"]))

    def test_a_container_that_comes_later_is_injected_too(self):
        once, _ = self.webhook.inject(pods.pod({"tier": "auto"}))
        once["spec"]["containers"].append({"name": "late", "image": "mesh:1"})
        for inject in (self.webhook.inject, self.by_policy):
            after, refusal = inject(once)
            self.assertIsNone(refusal)
            self.assert_injected({"spec": {}}, after)

    def test_what_is_asked_for_is_what_the_lease_is_asked_by(self):
        for annotations, options in (
                ({}, []), ({"gpus": "2", "memory": "16Gi"}, ["--gpus=2", "--memory=16GiB"]),
                ({"slice": "pair"}, ["--gpus=2", "--memory=16GiB", "--sessions=4"])):
            for inject in (self.webhook.inject, self.by_policy):
                after, _ = inject(pods.pod(annotations))
                self.assertEqual(after["spec"]["initContainers"][1]["command"][5:], options)
                self.assertEqual(after["spec"]["initContainers"][1]["command"][4],
                                 "--endpoint=" + self.params["data"]["endpoint"])
        env = self.webhook.inject(pods.pod({"tier": "guarded"}))[0]["spec"]["containers"][0]["env"]
        self.assertIn({"name": "WARPLINE_TIER", "value": "guarded"}, env)

    def test_a_restricted_pod_stays_restricted(self):
        pod, _ = pods.PODS["restricted"]
        self.assertEqual(list(manifests.restricted_faults(pod["spec"])), [])
        for inject in (self.webhook.inject, self.by_policy):
            self.assertEqual(list(manifests.restricted_faults(inject(pod)[0]["spec"])), [])

    def test_malformed_pods_get_words(self):
        for name, (pod, fate) in pods.MALFORMED.items():
            with self.subTest(name):
                after, refusal = self.webhook.inject(pod)
                if fate == pods.INJECTED:
                    self.assert_injected({"spec": {}}, after)
                else:
                    self.assertIn(fate, refusal or "no refusal")

    def test_only_new_pods_are_looked_at(self):
        pod = pods.pod({"gpus": "many"})
        for more in ({"operation": "UPDATE"}, {"operation": "DELETE"}, {"kind": ("apps", "v1", "Deployment")},
                     {"kind": ("", "v2", "Pod")}):
            self.assertEqual(self.webhook.inject(pod, **more), (pod, None))
        for nothing in (None, [], "pod", 7):
            self.assertEqual(self.webhook.inject(nothing), (nothing, None))


class PoliciesTest(unittest.TestCase):
    """The policies as texts, and the evaluator that the other tests trust."""

    def test_every_expression_compiles(self):
        objects = manifests.render("overlays/admission-policy")
        for item in manifests.of_kind(objects, "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
            policies.compile_all(item)

    def test_the_selectors_are_those_of_the_webhook(self):
        policy = manifests.find(manifests.render("overlays/admission-policy"), "MutatingAdmissionPolicy",
                                "warpline-injection")["spec"]["matchConstraints"]
        hook = manifests.find(manifests.render("overlays/webhook"), "MutatingWebhookConfiguration",
                              "warpline-injection")["webhooks"][0]
        self.assertEqual(policy["namespaceSelector"], hook["namespaceSelector"])
        self.assertEqual(policy["objectSelector"], hook["objectSelector"])

    def test_messages_must_have_the_type_of_their_field(self):
        self.assertEqual(policies.as_maps('Object{spec: Object.spec{a: x ? "b:c" : y}}'),
                         '{ "spec" : { "a" : x ? "b:c" : y } }')
        self.assertEqual(policies.as_maps('JSONPatch{op: "add", value: Object.spec.volumes{name: "x"}}'),
                         '{ "op" : "add" , "value" : { "name" : "x" } }')
        for wrong in ("Object{spec: Object.status{}}", "Object{spec: [1].map(c, Object.spec.x{})}"):
            with self.assertRaises(policies.PolicyError):
                policies.as_maps(wrong)

    def test_what_is_no_cel_is_found(self):
        for wrong in ("object.spec.", "nonsense(object)", "object.spec.all(c c)", "foo"):
            with self.assertRaises(policies.PolicyError):
                policies.evaluate(wrong, {"object": {"spec": []}})

    def test_lists_are_merged_by_their_keys(self):
        live = {"spec": {"containers": [{"name": "a", "image": "i", "env": [{"name": "X", "value": "1"}]}]}}
        applied = {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"},
                                                                 {"name": "Y", "value": "3"}]}]}}
        self.assertEqual(policies.merge(live, applied), {"spec": {"containers": [
            {"name": "a", "image": "i", "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]}]}})


class WebhookTest(unittest.TestCase):
    """What others may send to the webhook."""

    def setUp(self):
        self.webhook = Webhook()
        self.addCleanup(self.webhook.close)

    def assert_serves(self):
        after, refusal = self.webhook.inject(pods.pod())
        self.assertIsNone(refusal)
        self.assertIn("warpline-hold", json.dumps(after))

    def test_health(self):
        self.assertEqual(self.webhook.request("GET", "/healthz"), (200, b"ok\n"))
        self.assertEqual(self.webhook.request("GET", "/")[0], 404)
        self.assertEqual(self.webhook.request("POST", "/", "{}")[0], 404)
        self.assertEqual(self.webhook.request("DELETE", "/inject")[0], 501)

    def test_what_is_no_review_is_refused(self):
        good = review(pods.pod())
        bad = ["", "{", "[]", "null", "7", '"x"', "NaN", "{}", '{"kind": "AdmissionReview"}',
               b"\xff\xfe", "[" * 200000, json.dumps(good | {"apiVersion": "admission.k8s.io/v1beta1"}),
               json.dumps(good | {"kind": "Pod"}), json.dumps(good | {"request": None}),
               json.dumps(good | {"request": good["request"] | {"uid": ""}}),
               json.dumps(good | {"request": good["request"] | {"uid": 7}}),
               json.dumps(good | {"request": good["request"] | {"uid": "x" * 1000}})]
        for body in bad:
            status, answer = self.webhook.request("POST", "/inject", body)
            self.assertEqual(status, 400, (body[:80], answer))
        status, _ = self.webhook.request("POST", "/inject", json.dumps(good), {"Content-Type": "text/plain"})
        self.assertEqual(status, 400)
        self.assert_serves()

    def test_sizes_are_bounded(self):
        head = "POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n"
        for length in ("Content-Length: 5000000", "Content-Length: 99999999999999", "Content-Length: -1",
                       "Content-Length: 0x10", "Transfer-Encoding: chunked", "X: y"):
            answer = self.webhook.send((head % length).encode())
            self.assertTrue(answer.startswith(b"HTTP/1.1 400"), (length, answer))
        for flood in (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                      b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n", b"\r\n" * 10, b"\0" * 70000):
            try:
                answer = self.webhook.send(flood)
                self.assertTrue(answer == b"" or re.match(rb"HTTP/1.1 4\d\d|<!DOCTYPE", answer), answer[:80])
            except OSError:
                pass  # It was cut off, which will do.
        self.assert_serves()

    def test_a_large_pod_is_taken(self):
        pod = pods.pod({"example.org/large": "x" * (webhook.MOST_BYTES - (16 << 10))})
        self.assertIsNone(self.webhook.inject(pod)[1])
        pod = pods.pod(container={"env": [{"name": "V%d" % i, "value": ","} for i in range(10000)]})
        self.assertIsNone(self.webhook.inject(pod)[1])

    def test_many_parts_take_little_memory_and_hold_nobody_up(self):
        def body(elements):
            return b"[" + b"{}," * (elements - 1) + b"{}]"

        # The most that the API server ever sent, the most bytes that are read, and the most that are parsed.
        bodies = [body((4 << 20) // 3), body(webhook.MOST_BYTES // 3 - 1), body(webhook.MOST_PARTS // 2 - 1),
                  b'[{"a":' * (webhook.MOST_PARTS // 2 - 1),
                  b"[" + b'{"a":1},' * (webhook.MOST_PARTS // 2 - 1) + b"1]"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            refusals = [pool.submit(self.webhook.request, "POST", "/inject", bodies[i % len(bodies)])
                        for i in range(80)]
            while not all(refusal.done() for refusal in refusals):
                self.assertEqual(self.webhook.request("GET", "/healthz"), (200, b"ok\n"))
        for refusal in refusals:
            try:
                self.assertEqual(refusal.result()[0], 400)
            except OSError:
                pass  # It was cut off while it was sending what is too large.
        limit, = {container["resources"]["limits"]["memory"] for container in manifests.find(
            manifests.render("overlays/webhook"), "Deployment", "warpline-injector")[
                "spec"]["template"]["spec"]["containers"]}
        self.assertEqual("256Mi", limit)
        status = pathlib.Path("/proc/%d/status" % self.webhook.process.pid).read_text()
        peak_kib = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
        self.assertLess(peak_kib, (256 << 10) // 2)
        self.assert_serves()

    def test_one_address_does_not_take_all_connections(self):
        silent = []
        for _ in range(webhook.MOST_CONNECTIONS):
            connection = socket.socket()
            connection.bind(("127.0.0.2", 0))
            connection.connect(("127.0.0.1", self.webhook.port))
            silent.append(connection)
        try:
            self.assertEqual(self.webhook.request("GET", "/healthz"), (200, b"ok\n"))
        finally:
            for connection in silent:
                connection.close()

    def test_plain_text_is_no_way_in(self):
        with socket.create_connection(("127.0.0.1", self.webhook.port), GIVE_UP_S) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            answer = b""
            try:
                answer = plain.recv(1000)
            except OSError:
                pass
            self.assertNotIn(b"ok", answer)
        self.assert_serves()

    def test_the_silent_are_sent_away_and_hold_nobody_up(self):
        silent = [socket.create_connection(("127.0.0.1", self.webhook.port), GIVE_UP_S) for _ in range(30)]
        try:
            self.assert_serves()
            more = [socket.create_connection(("127.0.0.1", self.webhook.port), GIVE_UP_S) for _ in range(10)]
            silent += more
            for connection in silent:
                connection.settimeout(GIVE_UP_S)
                try:
                    self.assertEqual(connection.recv(1), b"")
                except ConnectionResetError:
                    pass
        finally:
            for connection in silent:
                connection.close()
        self.assert_serves()

    def test_many_at_a_time(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            results = list(pool.map(lambda _: self.webhook.inject(pods.pod({"gpus": "2"})), range(64)))
        self.assertTrue(all(refusal is None for _, refusal in results))

    def test_a_new_certificate_counts_for_the_next_connection(self):
        with self.webhook.connect() as connection:
            before = connection.getpeercert()["serialNumber"]
        self.webhook.make_certificate()
        with self.webhook.connect() as connection:
            self.assertNotEqual(connection.getpeercert()["serialNumber"], before)
        (self.webhook.folder / "certs/server.key").write_text("no key")
        self.assert_serves()

    def test_new_settings_count_at_once_and_missing_ones_are_said(self):
        (self.webhook.settings / "slice.tiny").write_text("--memory=1GiB")
        after, _ = self.webhook.inject(pods.pod({"slice": "tiny"}))
        self.assertIn("--memory=1GiB", after["spec"]["initContainers"][1]["command"])
        (self.webhook.settings / "image").unlink()
        self.assertIn("has no image", self.webhook.inject(pods.pod())[1])

    def test_does_not_start_without_what_it_needs(self):
        program = manifests.SOURCES / "injector/webhook.py"
        done = subprocess.run([sys.executable, str(program), "--port=0", "--cert=/none", "--key=/none",
                               "--settings=%s" % self.webhook.settings], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("injector: ", done.stderr)


if __name__ == "__main__":
    manifests.need_tools()
    unittest.main()
