#!/usr/bin/env python3
"""Host processes that make it hard for a guest library: each loads libcuda.so.1 of a bundle as users
get it and computes on a server of the same bundle. They are compiled here, each with its own flags.
"""
import os
import pathlib
import subprocess
import unittest

import bundling

import harness
import local_server

PROGRAMS = bundling.RUNFILES / "tests/hosts/programs"
WARNINGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror"]
C = ["gcc", "-std=gnu11", *WARNINGS]
CPP = ["g++", "-std=c++20", *WARNINGS]
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
# Symbols of the linker's own that every library has.
EVERYWHERE = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def command_output(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("%s: %s" % (" ".join(str(word) for word in command), done.stdout))
    return done.stdout


def defined_symbols(path):
    listed = command_output("nm", "-D", "--defined-only", path).splitlines()
    return {line.split()[-1].split("@")[0] for line in listed}


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = bundling.temporary_folder()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.bundle = bundling.make(cls.folder)
        cls.installation = local_server.Installation.from_bundle(cls.bundle)
        cls.server = harness.server(cls.installation, "--device=cpu:3")
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def compile(self, name, compiler, *words):
        """Builds tests/hosts/programs/`name`; `words` are flags and libraries, which come last."""
        out = self.folder / pathlib.Path(name).stem
        command_output(*compiler, PROGRAMS / name, "-I", PROGRAMS, "-o", out, *words)
        return out

    def check(self, program, *arguments, env=None, silent=True, prefix=()):
        """Runs the host; it has to find every result right and to have its stderr for itself."""
        environment = self.installation.client_environment(self.server.endpoint)
        environment.update(env or {})
        status, stdout, stderr = local_server.run_group(
            [*prefix, str(program), *arguments], environment, 120)
        text = "status %s\n%s\n%s" % (status, stdout.decode(), stderr.decode())
        self.assertEqual(0, status, text)
        self.assertTrue(stdout.decode().endswith("host: ok\n"), text)
        if silent:
            self.assertEqual("", stderr.decode())

    def generated(self):
        """C++ of same_name.proto, under the name of a file of Warpline's. Returns the folder."""
        out = self.folder / "generated"
        if not out.exists():
            (out / "proto").mkdir(parents=True)
            source = out / "proto/admin.proto"
            source.write_text((PROGRAMS / "same_name.proto").read_text())
            command_output("protoc", "-I", out, "--cpp_out=%s" % out, "--grpc_out=%s" % out,
                           "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin", source)
        return out

    def test_plain_host_keeps_signals_environment_and_descriptors(self):
        self.check(self.compile("plain.c", C))

    def test_host_that_was_linked_with_the_library(self):
        linked = self.compile("linked.c", C, "-L%s" % (self.bundle / "lib"), "-lcuda")
        self.check(linked)
        self.check(linked, env={"LD_BIND_NOW": "1"})

    def test_symbols_of_our_dependencies_that_abort(self):
        names = set()
        for library in (self.bundle / "lib/warpline").iterdir():
            names |= defined_symbols(library)
        for system in ("libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6"):
            names -= defined_symbols(LIBRARIES / system)
        names -= EVERYWHERE
        self.assertGreater(len(names), 20000)
        source = self.folder / "poison.s"
        with open(source, "w", encoding="ascii") as text:
            text.write(".text\npoison:\n  ud2\n")
            for name in sorted(names):
                text.write('.globl "%s"\n.type "%s",@function\n"%s":\n' % (name, name, name))
            text.write("  jmp poison\n.section .note.GNU-stack\n")
        poison = self.folder / "libpoison.so"
        command_output("gcc", "-shared", "-nostdlib", source, "-o", poison)
        self.check(self.compile("plain.c", C), env={"LD_PRELOAD": str(poison)})

    def test_other_library_called_libprotobuf(self):
        namesake = self.folder / "libprotobuf.so.32"
        command_output(*C, "-shared", "-fPIC", PROGRAMS / "namesake.c", "-o", namesake,
                       "-Wl,-soname,libprotobuf.so.32", "-Wno-missing-prototypes")
        self.check(self.compile("uses_namesake.c", C, namesake,
                                "-Wl,-rpath,%s" % self.folder))

    def test_host_with_its_own_grpc_and_messages_of_the_same_names(self):
        generated = self.generated()
        libraries = command_output("pkg-config", "--libs", "grpc++", "protobuf").split()
        self.check(self.compile("own_grpc.cc", CPP, "-I", generated,
                                generated / "proto/admin.pb.cc",
                                generated / "proto/admin.grpc.pb.cc", *libraries, "-pthread"))

    def test_plug_in_with_its_own_protobuf_that_comes_later(self):
        generated = self.generated()
        plugin = self.folder / "plugin.so"
        command_output(*CPP, "-shared", "-fPIC", PROGRAMS / "plugin.cc", "-I", generated,
                       generated / "proto/admin.pb.cc", "-o", plugin, "-lprotobuf")
        self.check(self.compile("loads_plugin.c", C), str(plugin))

    def test_own_operator_new_and_delete(self):
        self.check(self.compile("own_allocator.cc", CPP, "-rdynamic"))

    def test_other_allocators(self):
        plain = self.compile("plain.c", C)
        for library in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4"):
            with self.subTest(library):
                path = LIBRARIES / library
                self.assertTrue(path.is_file(), "%s is not installed: ./dev setup" % path)
                self.check(plain, env={"LD_PRELOAD": str(path)})

    def test_unique_symbol_of_protobuf(self):
        host = self.compile("unique_symbol.cc", CPP, "-rdynamic")
        self.assertIn("UNIQUE", command_output("readelf", "-W", "--dyn-syms", host))
        self.check(host)

    def test_copied_symbols_of_libc(self):
        host = self.compile("copied_symbols.c", C, "-fno-pic", "-no-pie")
        relocations = command_output("readelf", "-Wr", host)
        for name in ("__environ", "stdout"):
            self.assertRegex(relocations, r"R_X86_64_COPY .*\b%s@" % name)
        self.check(host, env={"WARPLINE_ENDPOINT": "", "LATER_ENDPOINT": self.server.endpoint})

    def test_sanitizers(self):
        for sanitizer in ("address", "thread", "undefined"):
            with self.subTest(sanitizer):
                host = self.compile("threads.cc", CPP, "-fsanitize=" + sanitizer, "-pthread")
                self.check(host, env={"ASAN_OPTIONS": "detect_leaks=1",
                                      # What no compiler instrumented looks unsynchronized, and
                                      # the session's thread ends with the process, unjoined.
                                      "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:"
                                                      "report_thread_leaks=0"})

    def test_variables_for_grpc_and_proxies(self):
        nowhere = "http://127.0.0.1:1"
        self.check(self.compile("plain.c", C), env={
            "GRPC_VERBOSITY": "DEBUG", "GRPC_TRACE": "http,channel", "GRPC_POLL_STRATEGY": "poll",
            "GRPC_DNS_RESOLVER": "ares", "GRPC_ENABLE_FORK_SUPPORT": "1",
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": "/none", "GRPC_SSL_CIPHER_SUITES": "none",
            "http_proxy": nowhere, "https_proxy": nowhere, "grpc_proxy": nowhere,
            "all_proxy": nowhere, "HTTP_PROXY": nowhere, "OPENSSL_CONF": "/none",
            "SSL_CERT_FILE": "/none"})

    def test_host_that_forks(self):
        self.check(self.compile("forks.c", C))

    def test_parents_and_children_that_use_cuda_after_a_fork(self):
        self.check(self.compile("forks_first.c", C))

    def test_host_that_forks_while_it_launches(self):
        host = self.compile("forks_while_launching.c", C, "-pthread")
        for variables in ({}, {"GRPC_ENABLE_FORK_SUPPORT": "1"}):
            with self.subTest(variables):
                self.check(host, env=variables)

    def test_child_of_a_fork_that_touches_managed_memory(self):
        self.check(self.compile("forks_with_managed.c", C))

    def test_registered_memory_is_the_program_s_after_the_session(self):
        host = self.compile("registered_to_the_end.c", C)
        self.check(host)

    def test_child_per_device_that_launches_as_of_old_and_is_stopped(self):
        host = self.compile("child_per_device.c", C)
        # The log names the function that is refused.
        self.check(host, "1", silent=False)
        self.check(host, "3", silent=False, env={"CUDA_VISIBLE_DEVICES": "0,1,2"})

    def test_threads_with_small_stacks(self):
        host = self.compile("many_threads.c", C, "-pthread")
        for stack in ("32768", "65536", "262144"):
            with self.subTest(stack):
                self.check(host, stack)

    def test_little_static_storage_for_threads(self):
        taker = self.folder / "takes_static_tls.so"
        command_output(*C, "-shared", "-fPIC", PROGRAMS / "takes_static_tls.c", "-o", taker)
        self.check(self.compile("little_static_tls.c", C), str(taker))

    def test_small_limit_on_stacks(self):
        # The default size of every thread's stack, those of the guest included.
        self.check(self.compile("plain.c", C), prefix=["/bin/sh", "-c", 'ulimit -s 256; exec "$0"'])

    def test_library_that_is_opened_and_closed_again_and_again(self):
        self.check(self.compile("reopens.c", C))

    def test_host_with_everything_else_bound_at_start(self):
        self.check(self.compile("plain.c", C, "-pie", "-Wl,-z,now,-z,relro"),
                   env={"LD_BIND_NOW": "1"})

    def test_static_host_is_refused_in_words(self):
        flags = [word for word in C if word != "-Werror"]  # The linker warns of dlopen.
        static = self.compile("plain.c", flags, "-static-pie")
        environment = self.installation.client_environment(self.server.endpoint)
        status, _, stderr = local_server.run_group([str(static)], environment, 120)
        self.assertEqual(1, status, stderr)
        self.assertIn(b"linked statically", stderr)
        self.assertIn(b"workload: cuInit: 802", stderr)


if __name__ == "__main__":
    os.umask(0o022)
    unittest.main()
