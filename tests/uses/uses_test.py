#!/usr/bin/env python3
"""How programs use GPUs over a long time and with several processes: worker pools of every start
method, workers that die, forks, ranks, preloaded libraries, bare environments, debuggers."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
HERE = RUNFILES / "tests/uses"
sys.path.insert(0, str(RUNFILES / "tests"))

import harness  # noqa: E402  (found by the path above)

NOBODY = 65534
WORKERS = """
import gpu_task, multiprocessing, sys
if __name__ == "__main__":
    method, tasks_of_child = sys.argv[1], int(sys.argv[2]) or None
    if method != "fork":  # With CUDA in use, as with CUDA itself, a fork has no GPU.
        assert gpu_task.check(1000)[0]
    with multiprocessing.get_context(method).Pool(3, maxtasksperchild=tasks_of_child) as pool:
        done = pool.map(gpu_task.check, range(12), chunksize=1)
    assert all(right for right, _ in done), done
    print("processes", len({process for _, process in done}))
"""
KILLED = """
import concurrent.futures, gpu_task, multiprocessing, os, signal
if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    for _ in range(3):
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as pool:
            assert all(right for right, _ in pool.map(gpu_task.check, range(4)))
            for process in list(pool._processes.values()): process.kill()
            try:
                pool.submit(gpu_task.check, 1).result()
                raise AssertionError("a pool without processes")
            except concurrent.futures.process.BrokenProcessPool:
                pass
    print("killed 6")
"""
FORKED = """
import gpu_task, os, subprocess, sys
assert gpu_task.check(1)[0]
for round in range(3):
    child = os.fork()
    if child == 0:
        try: gpu_task.compute(2)
        except gpu_task.Error as error: os._exit(error.args[1])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3  # CUDA_ERROR_NOT_INITIALIZED
    # What the child starts has a GPU again, and so has its parent.
    again = "import gpu_task; assert gpu_task.check(3)[0]"
    child = os.fork()
    if child == 0: os.execv(sys.executable, [sys.executable, "-c", again])
    assert os.waitpid(child, 0)[1] == 0
    assert gpu_task.check(4)[0]
print("forked 3")
"""
RANKS = """
import gpu_task, os, pathlib, sys, time
folder, ranks = pathlib.Path(sys.argv[1]), int(sys.argv[2])
rank = os.getpid()
for step in range(5):
    (folder / ("%d.%d" % (step, rank))).write_text(str(gpu_task.compute(step)))
    while len(list(folder.glob("%d.*" % step))) < ranks: time.sleep(0.01)  # A barrier.
print("rank done")
"""
ONE = "import gpu_task; assert gpu_task.check(5)[0]; print('right')"


def may_be_nobody():
    """Whether this process may become another user: root in a sandbox may not."""
    try:
        subprocess.run(["true"], user=NOBODY, group=NOBODY, extra_groups=[], check=True)
        return True
    except (OSError, subprocess.SubprocessError):
        return False


class UsesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Where other users can read it.
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-uses-", dir="/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.folder.chmod(0o755)
        cls.installation = harness.install([])
        cls.addClassCleanup(cls.installation.close)
        cls.lib = cls.folder / "lib"
        shutil.copytree(cls.installation.root / "lib", cls.lib)
        shutil.copy(HERE / "gpu_task.py", cls.folder)
        for path in cls.folder.rglob("*"):
            path.chmod(0o755)

    def setUp(self):
        server = harness.server(self.installation)
        self.server = server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)

    def environment(self, **more):
        env = self.installation.client_environment(self.server.endpoint)
        env.update({"LD_LIBRARY_PATH": str(self.lib), "PYTHONPATH": str(self.folder),
                    "PYTHONDONTWRITEBYTECODE": "1", **more})
        return env

    def script(self, text):
        """A file, which the start methods of multiprocessing need."""
        path = self.folder / "script.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run_one(self, command, env=None, **options):
        done = subprocess.run(command, env=env or self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=harness.GIVE_UP_S, **options)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def python(self, text, *arguments, **options):
        return self.run_one([sys.executable, self.script(text), *arguments], **options)

    def sessions(self):
        done = subprocess.run(
            [str(self.installation.root / "bin/warpline"), "ps",
             "--endpoint=" + self.server.endpoint], stdout=subprocess.PIPE, text=True, check=True)
        return 0 if "no sessions" in done.stdout else len(done.stdout.splitlines()) - 1

    def assert_all_ended(self):
        harness.wait_until(lambda: self.sessions() == 0, "the end of all sessions")

    def test_worker_pools_of_every_start_method(self):
        for method in ("spawn", "forkserver", "fork"):
            with self.subTest(method=method):
                self.assertRegex(self.python(WORKERS, method, "0"), "processes [123]\n")
        self.assert_all_ended()

    def test_workers_that_are_replaced_again_and_again(self):
        for method in ("spawn", "fork"):
            with self.subTest(method=method):
                self.assertRegex(self.python(WORKERS, method, "2"), "processes ([6-9]|1[0-2])\n")
        self.assert_all_ended()

    def test_workers_that_are_killed(self):
        self.assertEqual("killed 6\n", self.python(KILLED))
        self.assert_all_ended()

    def test_forks_in_the_middle(self):
        self.assertEqual("forked 3\n", self.python(FORKED))
        self.assert_all_ended()

    def test_ranks_of_one_lease(self):
        folder = self.folder / "ranks"
        folder.mkdir()
        ranks = 4
        script = self.script(RANKS)
        start = "for i in $(seq %d); do '%s' '%s' '%s' %d & done; wait" % (
            ranks, sys.executable, script, folder, ranks)
        said = self.run_one([str(self.installation.root / "bin/warpline"), "run",
                             "--endpoint=" + self.server.endpoint, "--memory=1GiB",
                             "--sessions=%d" % ranks, "--", "sh", "-c", start])
        self.assertEqual(ranks * "rank done\n", said)
        self.assertEqual({str(sum(n * n for n in range(step, step + 64))) for step in range(5)},
                         {path.read_text() for path in folder.iterdir()})
        self.assert_all_ended()

    def test_a_preloaded_driver(self):
        env = self.environment(LD_PRELOAD=str(self.lib / "libcuda.so.1"))
        del env["LD_LIBRARY_PATH"]
        self.assertEqual("right\n", self.python(ONE, env=env))

    def test_another_user_without_home_or_folder_to_write_to(self):
        env = {"LD_LIBRARY_PATH": str(self.lib), "PYTHONPATH": str(self.folder),
               "WARPLINE_ENDPOINT": self.server.endpoint, "HOME": "/nonexistent",
               "TMPDIR": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
        other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if may_be_nobody() else {}
        # An interpreter that others may execute.
        python = next((path for path in ("/usr/bin/python3", sys.executable)
                       if os.path.exists(path)))
        self.assertEqual("right\n", self.run_one([python, self.script(ONE)], env=env, cwd="/", **other))

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("unshare"), "needs root and unshare")
    def test_a_root_that_nobody_may_write_to(self):
        script = self.script(ONE)
        inside = ("mount --make-rprivate / && mount -o remount,bind,ro / || exit 77; "
                  "touch %s/written 2>/dev/null && exit 77; exec '%s' '%s'"
                  % (self.folder, sys.executable, script))
        done = subprocess.run(["unshare", "--mount", "sh", "-c", inside], env=self.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=harness.GIVE_UP_S)
        if done.returncode == 77 or "not permitted" in done.stderr or "denied" in done.stderr:
            self.skipTest("no read-only root here: " + done.stderr)
        self.assertEqual((0, "right\n"), (done.returncode, done.stdout), done.stderr)

    @unittest.skipUnless(shutil.which("gdb"), "needs gdb")
    def test_under_a_debugger(self):
        script = self.script(ONE)
        said = self.run_one(["gdb", "-q", "-batch", "-nx", "-ex", "set debuginfod enabled off",
                             "-ex", "run", "--args", sys.executable, script])
        self.assertIn("right\n", said)
        self.assertIn("exited normally", said)

    def test_a_process_that_is_stopped_for_a_while(self):
        text = ("import gpu_task, time\n"
                "for i in range(20):\n"
                "    assert gpu_task.check(i)[0]\n"
                "    print(i, flush=True)\n"
                "    time.sleep(0.05)\n")
        process = subprocess.Popen([sys.executable, self.script(text)], env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.assertEqual("0\n", process.stdout.readline())
        process.send_signal(signal.SIGSTOP)
        harness.wait_until(lambda: self.sessions() == 1, "its session")
        process.send_signal(signal.SIGCONT)
        status, _, stderr = harness.finish(process)
        self.assertEqual(0, status, stderr)


if __name__ == "__main__":
    unittest.main()
