#!/usr/bin/env python3
import unittest

import include_rules


class IncludeRules(unittest.TestCase):

    def faults(self, path, *headers):
        return list(include_rules.faults(path, "".join('#include "%s"\n' % h for h in headers)))

    def test_layers_point_downwards(self):
        self.assertEqual([], self.faults("server/a.cc", "memory/pool.h", "common/log.h", "a.h"))
        self.assertEqual([], self.faults("tests/a.cc", "server/a.h", "client_stub/b.h"))

    def test_server_and_stub_do_not_see_each_other(self):
        self.assertEqual(1, len(self.faults("server/a.cc", "client_stub/core.h")))
        self.assertEqual(1, len(self.faults("client_stub/a.h", "server/worker/lane.h")))

    def test_foundations_depend_on_nothing_above(self):
        self.assertEqual(1, len(self.faults("common/a.cc", "memory/pool.h")))

    def test_cuda_headers_stay_in_their_folders(self):
        self.assertEqual([], self.faults("server/device/cuda/a.cc", "cuda.h"))
        for header in ("cuda.h", "cuda_runtime_api.h", "cudaTypedefs.h"):
            self.assertEqual(1, len(self.faults("server/device/cpu/a.cc", header)), header)

    def test_our_own_headers_are_no_cuda_headers(self):
        self.assertEqual([], self.faults("server/a.cc", "server/device/cuda/cuda_context.h",
                                         "custom.h"))

    def test_ucx_headers_stay_in_their_transport(self):
        self.assertEqual([], self.faults("transport/ucx/a.cc", "ucp/api/ucp.h"))
        self.assertEqual(1, len(self.faults("memory/a.cc", "ucp/api/ucp.h")))


unittest.main()
