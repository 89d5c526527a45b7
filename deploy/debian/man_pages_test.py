#!/usr/bin/env python3
"""Manual pages from --help."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import man_pages  # noqa: E402  (lies beside this file)

HELP = """warpline-server: runs calls of programs.

  warpline-server [--listen=A]

It drains. 'Quoted' text,
.dotted text.

  Flags from server/gpu_server/flags.cc:
    --listen (Addresses to serve, separated (by commas):
      host:port or \\path.); default: 127.0.0.1:14000;
    --tls_unix (TLS on unix sockets too.);
      default: false;
"""


class ManPagesTest(unittest.TestCase):
    def setUp(self):
        self.page = man_pages.page("warpline-server", HELP)

    def test_name_and_section(self):
        self.assertTrue(self.page.startswith('.TH WARPLINE\\-SERVER 8 "" "Warpline"\n'))
        self.assertIn(".SH NAME\nwarpline\\-server \\- runs calls of programs\n", self.page)
        self.assertEqual("man8/warpline-server.8.gz", man_pages.file_name("warpline-server"))

    def test_every_flag_with_its_default(self):
        self.assertIn(".TP\n.B \\-\\-listen\nAddresses to serve, separated (by commas): host:port "
                      "or \\\\path. Default: 127.0.0.1:14000.", self.page)
        self.assertIn(".B \\-\\-tls_unix\nTLS on unix sockets too. Default: false.", self.page)

    def test_text_is_no_request(self):
        self.assertIn("\n\\&.dotted text.", self.page)
        self.assertIn(".nf\n  warpline\\-server [\\-\\-listen=A]\n.fi", self.page)

    def test_others_are_named(self):
        self.assertIn(".BR warpline (1)", self.page)
        self.assertNotIn(".BR warpline\\-server (8)", self.page)


if __name__ == "__main__":
    unittest.main()
