#!/usr/bin/env python3
"""ServiceAccount tokens of a Kubernetes cluster as tenants' credentials, end to end: a scheduler with the
cluster's keys, a server on the CPU device, and programs that show a token from a file that changes."""
import json
import pathlib
import subprocess
import tempfile
import time
import unittest

import cluster_tokens
import harness


class ServiceAccountsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = harness.install(["vector_add"])

    @classmethod
    def tearDownClass(cls):
        cls.installation.close()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="warpline-accounts-", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.key = cluster_tokens.ClusterKey(self.folder, "first")
        self.keys = self.folder / "jwks.json"
        cluster_tokens.put(self.keys, json.dumps(cluster_tokens.jwks(self.key)))
        self.token = self.folder / "token"
        self.scheduler = harness.Scheduler(
            self.installation, "--cluster_keys=%s" % self.keys, "--cluster_issuer=" + cluster_tokens.ISSUER,
            "--audit_dir=%s" % (self.folder / "audit"))
        self.addCleanup(self.scheduler.close)
        self.warpline("tenant", "add", "team", "--namespaces=team,team-dev", "--memory=8GiB")
        credential = self.folder / "server.credential"
        credential.write_text(self.warpline("servers", "add", "a"))
        server = harness.server(self.installation, "--scheduler=" + self.scheduler.endpoint, "--name=a",
                                "--scheduler_credential_file=%s" % credential)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        harness.wait_until(lambda: "up server=a" in self.scheduler.log(), "server is up")

    def environment(self):
        env = self.installation.client_environment(self.scheduler.endpoint)
        del env["LD_LIBRARY_PATH"]
        env["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(self.scheduler.folder / "state/operator.credential")
        return env

    def start(self, *arguments, **env):
        process = subprocess.Popen([str(self.installation.root / "bin/warpline"), *arguments],
                                   env=dict(self.environment(), **env), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def warpline(self, *arguments, status=0, **env):
        process = self.start(*arguments, **env)
        out, err = process.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(process.returncode, status, out + err)
        return out if status == 0 else err

    def run_with(self, token, *options, status=0):
        """Runs a program with the file of the token."""
        cluster_tokens.put(self.token, token)
        return self.warpline("run", *options, str(self.installation.root / "bin/examples/vector_add"),
                             status=status, WARPLINE_CREDENTIAL_FILE=str(self.token))

    def test_pods_act_as_the_tenant_of_their_namespace(self):
        for namespace in ("team", "team-dev"):
            self.assertIn("vector_add: ok", self.run_with(self.key.token(namespace)))
        self.assertIn("service_account=team-dev/default pod=pod-0", self.scheduler.log())
        listed = json.loads(self.warpline("tenant", "list", "--json"))["tenants"]
        self.assertEqual([tenant["namespaces"] for tenant in listed], [["team", "team-dev"]])
        # A program that dials the scheduler itself shows it, too.
        env = self.installation.client_environment(self.scheduler.endpoint)
        env["WARPLINE_CREDENTIAL_FILE"] = str(self.token)
        done = subprocess.run([str(self.installation.root / "bin/examples/vector_add")], env=env,
                              capture_output=True, text=True, check=False, timeout=harness.GIVE_UP_S)
        self.assertIn("vector_add: ok", done.stdout, done.stderr)
        # What is not the tenant's is not seen.
        self.warpline("stat", WARPLINE_CREDENTIAL_FILE=str(self.token),
                      WARPLINE_OPERATOR_CREDENTIAL_FILE="/dev/null", status=1)

    def test_refuses_what_is_not_for_it(self):
        for token, why in (
                (self.key.token("kube-system"), None),
                (self.key.token("team", audience="https://kubernetes.default.svc"), "not for warpline alone"),
                (self.key.token("team", iss="https://elsewhere"), "its issuer is not"),
                (self.key.token("team", seconds=-60), "it has run out"),
                (cluster_tokens.ClusterKey(self.folder, "second").token("team"), "no key of the cluster"),
                (self.key.token("team")[:-8] + "AAAAAAAA", "its signature is not the cluster's")):
            with self.subTest(why):
                error = self.run_with(token, status=1)
                if why is None:
                    self.assertIn("no tenant of the scheduler has the namespace kube-system", error)
                    continue
                self.assertNotIn(why, error)
                self.assertIn(why, self.scheduler.log())

        def records():
            return self.warpline("audit", "--dir=%s" % (self.folder / "audit"), "--event=credential", "--json")

        harness.wait_until(lambda: records().count("credential.refused") == 5, "all are recorded")
        self.assertNotIn("eyJ", records())

    def test_follows_the_clusters_keys(self):
        following = cluster_tokens.ClusterKey(self.folder, "second")
        self.run_with(following.token("team"), status=1)
        cluster_tokens.put(self.keys, json.dumps(cluster_tokens.jwks(self.key, following)))
        time.sleep(1.1)  # Longer than the scheduler goes by what it has looked at.
        self.assertIn("vector_add: ok", self.run_with(following.token("team")))
        self.assertIn("vector_add: ok", self.run_with(self.key.token("team")))
        cluster_tokens.put(self.keys, json.dumps(cluster_tokens.jwks(following)))
        time.sleep(1.1)
        self.run_with(self.key.token("team"), status=1)

    def test_a_program_that_waits_shows_the_token_of_now(self):
        holder = self.start("run", "--memory=8GiB", "sleep", "600", WARPLINE_CREDENTIAL=self.key.token("team"))
        harness.wait_until(lambda: "granted lease" in self.scheduler.log(), "the first has its lease")
        # Good for the 30 seconds by which clocks may be apart.
        signed = time.monotonic()
        cluster_tokens.put(self.token, self.key.token("team", seconds=0))
        waiting = self.start("run", "--wait", "--memory=8GiB", "true", WARPLINE_CREDENTIAL_FILE=str(self.token))
        harness.wait_until(lambda: "waits tenant=team" in self.scheduler.log(), "the second waits")
        cluster_tokens.put(self.token, self.key.token("team"))
        time.sleep(max(0, signed + 32 - time.monotonic()))
        holder.terminate()
        out, err = waiting.communicate(timeout=harness.GIVE_UP_S)
        self.assertEqual(waiting.returncode, 0, out + err)
        self.assertNotIn("refused a ServiceAccount token", self.scheduler.log())


if __name__ == "__main__":
    unittest.main()
