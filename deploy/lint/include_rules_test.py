#!/usr/bin/env python3
import tempfile
import unittest

import include_rules


class IncludeRules(unittest.TestCase):

    def faults(self, path, *headers):
        return list(include_rules.faults(path, "".join('#include "%s"\n' % h for h in headers)))

    def test_layers_point_downwards(self):
        self.assertEqual([], self.faults("server/gpu_server/main.cc", "memory/pool.h", "common/log/log.h", "a.h"))
        self.assertEqual([], self.faults("tests/a.cc", "server/a.h", "client_stub/b.h"))

    def test_server_and_stub_do_not_see_each_other(self):
        self.assertEqual(1, len(self.faults("server/gpu_server/a.cc", "client_stub/core.h")))
        self.assertEqual(1, len(self.faults("client_stub/a.h", "server/worker/executors/executor.h")))

    def test_folders_of_the_server_have_an_order(self):
        self.assertEqual([], self.faults("server/gpu_server/session/a.cc", "server/gpu_server/memory/b.h"))
        self.assertEqual(1, len(self.faults("server/gpu_server/memory/a.cc", "server/gpu_server/session/b.h")))
        self.assertEqual(1, len(self.faults("server/worker/a.cc", "server/gpu_server/session/b.h")))
        self.assertEqual([], self.faults("server/device/cuda/a.cc", "server/device/device.h"))
        # Tests, and what only they link, may include from other subfolders, but not from other top folders.
        self.assertEqual([], self.faults("server/gpu_server/memory/a_test.cc", "server/gpu_server/session/b.h"))
        self.assertEqual([], self.faults("server/gpu_server/testing/a.cc", "server/gpu_server/session/b.h"))
        self.assertEqual(1, len(self.faults("server/gpu_server/memory/a_test.cc", "client_stub/b.h")))

    def test_no_program_sees_the_sources_of_another(self):
        for path, header in (("server/gpu_server/session/a.cc", "server/worker/executors/executor.h"),
                             ("server/gpu_server/main.cc", "server/device/device.h"),
                             ("server/gpu_server/memory/a.h", "server/keeper/b.h"),
                             ("server/gpu_server/children/relays/a.cc", "server/relay/b.h"),
                             ("server/worker/a.cc", "server/compiler/stages.h"),
                             ("server/relay/a.cc", "server/gpu_server/flags.h"),
                             ("server/jail/a.cc", "server/hostlink/process/b.h"),
                             ("server/device/cuda/a.cc", "server/jail/b.h")):
            refused = self.faults(path, header)
            self.assertTrue(any("may not see the sources of" in fault for fault in refused), path)
        for path, header in (("server/worker/a.cc", "server/hostlink/handover/b.h"),
                             ("server/keeper/a.cc", "server/jail/b.h"),
                             ("server/keeper/a.cc", "server/device/registry/b.h")):
            self.assertIsNone(include_rules.program_fault(path, header))
        # A test is no part of the program.
        self.assertIsNone(include_rules.program_fault("server/worker/a_test.cc", "server/compiler/a.h"))

    def test_server_and_client_reach_transports_by_their_registry(self):
        for path in ("server/gpu_server/a.cc", "client_stub/session/opening/a.cc"):
            self.assertEqual([], self.faults(path, "transport/registry/b.h"))
            self.assertEqual(1, len(self.faults(path, "transport/grpc/grpc_client.h")))
        # Their tests may use one of them by name.
        self.assertEqual([], self.faults("server/gpu_server/a_test.cc", "transport/grpc/grpc_client.h"))

    def test_folders_of_the_clients_core_have_an_order(self):
        self.assertEqual([], self.faults("client_stub/core/launch/a.cc",
                                         "client_stub/core/module/b.h", "common/c.h"))
        self.assertEqual(1, len(self.faults("client_stub/core/module/a.cc",
                                            "client_stub/core/launch/b.h")))

    def test_every_folder_that_is_named_is_in_the_table(self):
        for folder in include_rules.FOLDERS.values():
            self.assertLessEqual(set(folder.get("uses", ())), set(include_rules.FOLDERS))
        shown = [path for path in include_rules.FOLDERS if include_rules.is_in_table(path)]
        self.assertIn("server/worker", shown)
        self.assertNotIn("client_stub/core/launch", shown)
        self.assertEqual(len(shown) + 2, len(include_rules.table()))

    def different_lines(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".md") as page:
            page.write(text)
            page.flush()
            return include_rules.different_lines(page.name)

    def test_a_page_that_differs_from_the_table_is_told(self):
        page, last = include_rules.page(), include_rules.table()[-1]
        self.assertEqual([], self.different_lines(page))
        self.assertEqual(["lacks: " + last], self.different_lines(page.replace(last + "\n", "")))
        self.assertEqual(["has: gone"], self.different_lines(page + "gone\n"))

    def test_foundations_depend_on_nothing_above(self):
        self.assertEqual(1, len(self.faults("common/a.cc", "memory/pool.h")))

    def test_cuda_headers_stay_in_their_folders(self):
        self.assertEqual([], self.faults("server/device/cuda/a.cc", "cuda.h"))
        for header in ("cuda.h", "cuda_runtime_api.h", "cudaTypedefs.h"):
            self.assertEqual(1, len(self.faults("server/device/cpu/a.cc", header)), header)

    def test_our_own_headers_are_no_cuda_headers(self):
        self.assertEqual([], self.faults("server/device/cuda/a.cc", "server/device/cuda/cuda_context.h",
                                         "custom.h"))

    def test_ucx_headers_stay_in_their_transport(self):
        self.assertEqual([], self.faults("transport/ucx/a.cc", "ucp/api/ucp.h"))
        self.assertEqual(1, len(self.faults("memory/a.cc", "ucp/api/ucp.h")))


unittest.main()
