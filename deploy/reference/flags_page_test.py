#!/usr/bin/env python3
import unittest

import flags_page

HELP = """warpline-server: runs calls of programs.

  warpline-server [--listen=A]

  Flags from server/gpu_server/flags.cc:
    --tls_unix (TLS on unix
      sockets too.); default: false;
    --listen (host:port|unix:PATH.); default: "";
"""


class FlagsPageTest(unittest.TestCase):

    def test_text_stands_as_it_is_and_flags_in_a_table(self):
        section = flags_page.section("warpline-server", HELP)
        self.assertIn("```text\nwarpline-server: runs calls of programs.\n\n"
                      "  warpline-server [--listen=A]\n```\n", section)
        self.assertIn("| `--listen` | host:port\\|unix:PATH. | `\"\"` |\n"
                      "| `--tls_unix` | TLS on unix sockets too. | `false` |\n", section)

    def test_a_program_without_flags_has_no_table(self):
        self.assertNotIn("|", flags_page.section("warpline", "warpline: runs.\n\n  warpline run PROGRAM\n"))

    def test_flags_that_are_not_understood_fail(self):
        with self.assertRaises(ValueError):
            flags_page.section("a", "a: b.\n\n  Flags from c.cc:\n    --d: e\n")

    def test_each_program_has_a_section(self):
        page = flags_page.page({"warpline-server": HELP, "warpline": "warpline: runs.\n"})
        self.assertEqual(["## warpline-server", "## warpline"],
                         [line for line in page.split("\n") if line.startswith("## ")])


unittest.main()
