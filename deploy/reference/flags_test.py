#!/usr/bin/env python3
"""The page that the build makes has the flags of each file that a program's flags come from."""
import pathlib
import re
import unittest

HERE = pathlib.Path(__file__).parent
FLAGS = {
    "warpline-server": ("listen", "ucx_networks", "ucx_transports", "tls_ca", "audit_dir"),
    "warpline-scheduler": ("listen", "placement", "tls_ca", "audit_dir", "etcd_ca", "cluster_keys"),
}


class FlagsTest(unittest.TestCase):

    def test_no_file_of_flags_is_left_out(self):
        text = (HERE / "flags.md").read_text(encoding="utf-8")
        sections = dict(re.findall(r"^## (\S+)$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
        self.assertIn("warpline run", sections["warpline"])
        for program, flags in FLAGS.items():
            for flag in flags:
                self.assertIn("\n| `--%s` |" % flag, sections[program], program)


unittest.main()
