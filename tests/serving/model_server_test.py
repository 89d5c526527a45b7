#!/usr/bin/env python3
"""examples/model_server end to end: a pool with the CPU device, a model server with several tenants, and
clients that generate, cancel, go away, and try what they may not."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness  # noqa: E402  (found by the path above)

PROGRAMS = ("model_server", "model_worker", "model_client")
KEYS = {"team-a": "key-of-team-a-0123456789", "team-b": "key-of-team-b-0123456789",
        "removed": "key-of-nobody-0123456789"}
# Numbers of gRPC's statuses.
INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE, UNAUTHENTICATED = 3, 8, 14, 16
# More than a test waits for.
MANY = 1000
# TenantWorker::Options::most_calls.
MOST_CALLS = 8


class ServingCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.installation_with(
            {"bin/examples/" + name: "examples/model_server/" + name for name in PROGRAMS})
        cls.addClassCleanup(cls.installation.close)
        folder = tempfile.TemporaryDirectory(prefix="warpline-serving-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.scheduler = harness.Scheduler(cls.installation)
        cls.addClassCleanup(cls.scheduler.close)
        cls.credential = cls.folder / "server.credential"
        cls.credential.write_text(cls.warpline("servers", "add", "a"))
        cls.server = cls.start_server()
        cls.addClassCleanup(lambda: cls.server.__exit__())
        cls.make_tenants()
        cls.start_model_server()
        cls.addClassCleanup(lambda: cls.stop_model_server())

    @classmethod
    def start_server(cls):
        former = cls.scheduler.log().count("up server=a")
        server = harness.server(cls.installation, "--scheduler=" + cls.scheduler.endpoint, "--name=a",
                                "--scheduler_credential_file=%s" % cls.credential)
        server.__enter__()
        harness.wait_until(lambda: cls.scheduler.log().count("up server=a") > former, "the server is up")
        return server

    @classmethod
    def make_tenants(cls):
        cls.tenants = cls.folder / "tenants"
        cls.tenants.mkdir()
        for name, key in KEYS.items():
            (cls.tenants / (name + ".key")).write_text(key + "\n")
            (cls.tenants / (name + ".credential")).write_text(cls.warpline("tenant", "add", name, "--memory=1GiB"))
        cls.warpline("tenant", "remove", "removed")

    @classmethod
    def environment(cls):
        env = cls.installation.client_environment(cls.scheduler.endpoint)
        # A session that is lost is given up soon.
        return {**env, "WARPLINE_RESUME_SECONDS": "1"}

    @classmethod
    def start_model_server(cls):
        port = cls.folder / "port"
        port.unlink(missing_ok=True)
        with open(cls.folder / "log", "ab") as log:
            cls.model_server = subprocess.Popen(
                [cls.program("model_server"), "--listen=127.0.0.1:0", "--port_file=%s" % port,
                 "--tenants=%s" % cls.tenants, "--warpline=%s" % (cls.installation.root / "bin/warpline")],
                env=cls.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        harness.wait_until(lambda: port.exists() or cls.model_server.poll() is not None, "it serves")
        cls.address = "127.0.0.1:" + port.read_text().strip()

    @classmethod
    def stop_model_server(cls):
        cls.model_server.terminate()
        assert cls.model_server.wait(harness.GIVE_UP_S) == 0, cls.log()

    @classmethod
    def program(cls, name):
        return str(cls.installation.root / "bin/examples" / name)

    @classmethod
    def log(cls):
        return (cls.folder / "log").read_text()

    @classmethod
    def warpline(cls, *arguments):
        env = cls.installation.client_environment(cls.scheduler.endpoint)
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(cls.scheduler.folder / "state/operator.credential")
        done = subprocess.run([str(cls.installation.root / "bin/warpline"), *arguments], env=env, text=True,
                              capture_output=True, check=False, timeout=harness.GIVE_UP_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leases(self):
        """Tenant -> lease."""
        listed = json.loads(self.warpline("lease", "list", "--json"))["leases"]
        return {one["tenant"]: one["id"] for one in listed if one["state"] == "active"}

    def start(self, tenant, prompt, tokens=16, key=None):
        path = self.tenants / (tenant + ".key")
        if key is not None:
            path = self.folder / "other.key"
            path.write_text(key)
        process = subprocess.Popen(
            [self.program("model_client"), "--server=" + self.address, "--key_file=%s" % path,
             "--tokens=%d" % tokens, "--", prompt], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def generate(self, *arguments, **options):
        """(the status, the text, what is said of the status)."""
        process = self.start(*arguments, **options)
        text, said = process.communicate(timeout=harness.GIVE_UP_S)
        return process.returncode, text, said

    def expected(self, prompt, tokens=16):
        """The text that the host makes of a prompt, without a GPU."""
        return subprocess.run([self.program("model_worker"), "--reference=" + prompt, "--tokens=%d" % tokens],
                              capture_output=True, text=True, check=True).stdout

    def workers(self):
        """The `warpline run` of each tenant that has one."""
        return harness.children(self.model_server.pid, "warpline")

    def worker_of(self, tenant):
        """The process that computes for a tenant."""
        for runner in self.workers():
            if b"/%s.credential\0" % tenant.encode() in pathlib.Path("/proc/%d/environ" % runner).read_bytes():
                (worker,) = harness.children(runner, "model_worker")
                return worker
        raise AssertionError("%s has no worker" % tenant)


class ModelServerTest(ServingCase):
    def test_the_kernels_compute_what_the_host_does(self):
        env = {**self.environment(), "WARPLINE_CREDENTIAL_FILE": str(self.tenants / "team-a.credential")}
        done = subprocess.run([str(self.installation.root / "bin/warpline"), "run", "--memory=256MiB", "--",
                               self.program("model_worker"), "--check=1"], env=env, capture_output=True, text=True,
                              check=False, timeout=harness.GIVE_UP_S)
        self.assertIn("model_worker: ok (80 tokens of 2 texts", done.stdout, done.stderr)

    def test_each_tenant_has_its_texts_from_a_lease_of_its_own(self):
        prompts = {"team-a": "The lease is", "team-b": "A GPU that is somewhere else\n"}
        started = {tenant: self.start(tenant, prompt) for tenant, prompt in prompts.items()}
        texts = {}
        for tenant, process in started.items():
            text, said = process.communicate(timeout=harness.GIVE_UP_S)
            self.assertEqual((process.returncode, said), (0, ""))
            self.assertEqual(text, self.expected(prompts[tenant]))
            self.assertEqual(len(text), 16)
            texts[tenant] = text
        self.assertNotEqual(texts["team-a"], texts["team-b"])
        self.assertEqual(sorted(self.leases()), ["team-a", "team-b"])
        self.assertNotEqual(self.worker_of("team-a"), self.worker_of("team-b"))
        # A text says nothing of the one before.
        self.assertEqual(self.generate("team-a", prompts["team-b"]), (0, texts["team-b"], ""))
        self.assertEqual(self.generate("team-a", prompts["team-a"]), (0, texts["team-a"], ""))

    def test_requests_that_cannot_be_served_say_why(self):
        for prompt, tokens, why in (
                ("", 4, "the prompt is empty"),
                ("x" * 1024, 1, "the prompt has 1024 tokens, and the model reads 1023"),
                ("x" * 1000, 25, "max_tokens is 25: behind this prompt it is 1 to 24"),
                ("x", 0, "max_tokens is 0"),
                ("caf\u00e9", 4, "does not know the byte 195"),
                ("a\tb", 4, "does not know the byte 9")):
            status, text, said = self.generate("team-a", prompt, tokens)
            self.assertEqual((status, text), (INVALID_ARGUMENT, ""), said)
            self.assertIn(why, said)

    def test_an_unknown_tenant_is_refused(self):
        for key in ("", "x", "key-of-team-a-0123456788", "key-of-team-a-01234567890", KEYS["team-a"].upper()):
            status, text, said = self.generate("", "The lease is", key=key)
            self.assertEqual((status, text), (UNAUTHENTICATED, ""), said)
            self.assertIn("no tenant has this key", said)

    def test_a_tenant_without_a_lease_is_told_to_come_again(self):
        status, text, said = self.generate("removed", "The lease is")
        self.assertEqual((status, text), (UNAVAILABLE, ""))
        self.assertIn("there is no session on a GPU server now", said)
        # The reason is for the operator.
        self.assertIn("no lease from", self.log())

    def start_asking(self, tenant, prompt):
        """Starts a call, which has come to the model server when this returns."""
        asked = self.log().count("tenant=%s asks" % tenant)
        process = self.start(tenant, prompt)
        harness.wait_until(lambda: self.log().count("tenant=%s asks" % tenant) > asked, "it has asked")
        return process

    def first_token(self, tenant, tokens=MANY):
        process = self.start(tenant, "The lease is", tokens)
        self.assertEqual(process.stdout.read(1), self.expected("The lease is", 1))
        return process

    def ended(self, tenant, status):
        """The numbers of tokens that calls of the tenant with this status had."""
        return [int(line.split("tokens=")[1].split()[0]) for line in self.log().splitlines()
                if "tenant=%s " % tenant in line and "status=" + status in line]

    def test_tokens_come_one_by_one_and_a_client_that_goes_away_stops_them(self):
        before = len(self.ended("team-a", "CANCELLED"))
        process = self.first_token("team-a")
        process.kill()
        harness.wait_until(lambda: len(self.ended("team-a", "CANCELLED")) > before, "the call ends")
        self.assertLess(self.ended("team-a", "CANCELLED")[-1], MANY)
        self.assertEqual(self.generate("team-a", "The lease is"), (0, self.expected("The lease is"), ""))

    def test_a_client_that_goes_away_gives_up_its_place_in_the_queue(self):
        before = len(self.ended("team-a", "CANCELLED"))
        first = self.first_token("team-a")
        worker = self.worker_of("team-a")
        os.kill(worker, signal.SIGSTOP)
        try:
            waiting = self.start_asking("team-a", "Me too")
            # More than there are places, one after the other: each of them leaves.
            for _ in range(2 * MOST_CALLS):
                count = len(self.ended("team-a", "CANCELLED"))
                self.start_asking("team-a", "I go away").kill()
                harness.wait_until(lambda count=count: len(self.ended("team-a", "CANCELLED")) > count
                                   or self.ended("team-a", "RESOURCE_EXHAUSTED"), "it has left")
        finally:
            os.kill(worker, signal.SIGCONT)
        self.assertEqual(self.ended("team-a", "RESOURCE_EXHAUSTED"), [])
        first.kill()
        text, said = waiting.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual((waiting.returncode, text), (0, self.expected("Me too")), said)
        self.assertGreaterEqual(len(self.ended("team-a", "CANCELLED")), before + 2 * MOST_CALLS + 1)

    def test_calls_beyond_a_tenants_share_are_refused_and_others_go_on(self):
        first = self.first_token("team-b")
        worker = self.worker_of("team-b")
        os.kill(worker, signal.SIGSTOP)
        try:
            others = [self.start("team-b", "Number %d" % i) for i in range(MOST_CALLS)]
            harness.wait_until(lambda: any(one.poll() is not None for one in others), "one is refused")
            (refused,) = [one for one in others if one.poll() is not None]
            self.assertEqual(refused.returncode, RESOURCE_EXHAUSTED)
            self.assertIn("8 calls of this tenant are under way", refused.stderr.read())
            # The other tenant does not wait.
            self.assertEqual(self.generate("team-a", "The lease is"), (0, self.expected("The lease is"), ""))
            first.kill()
        finally:
            os.kill(worker, signal.SIGCONT)
        for i, one in enumerate(others):
            if one is not refused:
                text, said = one.communicate(timeout=harness.GIVE_UP_S)
                self.assertEqual((one.returncode, text), (0, self.expected("Number %d" % i)), said)

    def test_a_session_that_is_lost_ends_the_call_and_the_next_has_another(self):
        process = self.first_token("team-a")
        lease = self.leases()["team-a"]
        self.warpline("lease", "revoke", lease, "--reason=maintenance")
        _, said = process.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(process.returncode, UNAVAILABLE, said)
        self.assertIn("the session was lost", said)
        self.assertEqual(self.generate("team-a", "The lease is"), (0, self.expected("The lease is"), ""))
        self.assertNotEqual(self.leases()["team-a"], lease)

    def test_a_worker_that_is_killed_ends_the_call_and_the_next_has_another(self):
        process = self.first_token("team-a")
        os.kill(self.worker_of("team-a"), signal.SIGKILL)
        _, said = process.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(process.returncode, UNAVAILABLE, said)
        self.assertEqual(self.generate("team-a", "The lease is"), (0, self.expected("The lease is"), ""))

    def test_a_worker_has_nothing_of_the_server_and_of_others(self):
        for tenant in ("team-a", "team-b"):
            self.generate(tenant, "The lease is", 1)
        server = {os.readlink(path) for path in pathlib.Path("/proc/%d/fd" % self.model_server.pid).iterdir()
                  if path.exists()}
        for tenant in ("team-a", "team-b"):
            worker = pathlib.Path("/proc/%d" % self.worker_of(tenant))
            environment = (worker / "environ").read_text()
            self.assertNotIn("CREDENTIAL", environment)
            for key in KEYS.values():
                self.assertNotIn(key, environment + (worker / "cmdline").read_text())
            # Its standard streams lead to the server; no connection and no other tenant's stream does.
            opened = {int(path.name): os.readlink(path) for path in (worker / "fd").iterdir()}
            # A name with a number is of one file alone.
            shared = {number: name for number, name in opened.items() if name in server and "[event" not in name}
            self.assertLessEqual(set(shared), {0, 1, 2}, shared)
        self.assertNotEqual(os.readlink("/proc/%d/fd/1" % self.worker_of("team-a")),
                            os.readlink("/proc/%d/fd/1" % self.worker_of("team-b")))

    def test_the_log_has_no_keys_and_no_texts(self):
        self.generate("team-a", "SecretPrompt", 4)
        self.generate("", "SecretPrompt", key="SecretKeyThatIsUnknown")
        self.assertIn("tenant=team-a tokens=4 of=4 status=OK", self.log())
        for secret in ("SecretPrompt", "SecretKeyThatIsUnknown", *KEYS.values()):
            self.assertNotIn(secret, self.log())

    def refuses_to_start(self, *options, tenants=None):
        done = subprocess.run([self.program("model_server"), "--tenants=%s" % (tenants or self.tenants), *options],
                              env=self.environment(), capture_output=True, text=True, check=False,
                              timeout=harness.GIVE_UP_S)
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_bad_settings_are_refused(self):
        self.assertIn("needs --tls_cert and --tls_key", self.refuses_to_start("--listen=0.0.0.0:0"))
        self.assertIn("cannot run /nowhere", self.refuses_to_start("--worker=/nowhere"))
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("has no file NAME.key", self.refuses_to_start(tenants=empty))
        (empty / "a.key").write_text("short")
        self.assertIn("at least 16 characters", self.refuses_to_start(tenants=empty))
        for name in "ab":
            (empty / (name + ".key")).write_text("0123456789abcdef")
        self.assertIn("have the same key", self.refuses_to_start(tenants=empty))


class EndsTest(ServingCase):
    """A GPU server that is gone, and a model server that ends."""

    def test_a_gpu_server_that_is_gone_and_comes_back(self):
        process = self.start("team-a", "The lease is", MANY)
        self.assertEqual(process.stdout.read(1), self.expected("The lease is", 1))
        os.kill(self.server.pid, signal.SIGKILL)
        _, said = process.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(process.returncode, UNAVAILABLE, said)
        type(self).server = self.start_server()
        self.assertEqual(self.generate("team-a", "The lease is"), (0, self.expected("The lease is"), ""))
        # It ends in the middle of a call, and leaves nothing.
        process = self.start("team-b", "The lease is", MANY)
        self.assertEqual(process.stdout.read(1), self.expected("The lease is", 1))
        self.assertEqual(len(self.workers()), 2)
        workers = [self.worker_of("team-a"), self.worker_of("team-b")]
        self.stop_model_server()
        process.communicate(timeout=harness.GIVE_UP_S)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(self.leases(), {})
        self.assertEqual([pid for pid in workers if pathlib.Path("/proc/%d" % pid).exists()], [])
        self.start_model_server()


if __name__ == "__main__":
    unittest.main()
