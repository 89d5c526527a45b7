#!/usr/bin/env python3
import pathlib
import tempfile
import unittest

import pages

HERE = pathlib.Path(pages.__file__).resolve().parents[2]


class Pages(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("docs/a.md", "# A page\n\n## What it `does`, and why\n\n## Twice\n\n## Twice\n")
        self.write("server/a.h", "")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def faults(self, path, text):
        self.write(path, text)
        return list(pages.faults(self.root))

    def test_links_to_files_and_headings_that_are_there_are_right(self):
        self.assertEqual([], self.faults("b.md", "# B\n[a](docs/a.md) [a](docs/a.md#what-it-does-and-why) "
                                         "[t](docs/a.md#twice-1) [s](#b) [d](docs) [w](https://example.org/x)"))

    def test_dead_links_and_headings_are_told(self):
        self.assertEqual(["b.md: the link docs/c.md leads nowhere",
                          "b.md: the link docs/a.md#gone names no heading there",
                          "b.md: the link #gone names no heading there"],
                         self.faults("b.md", "[x](docs/c.md) [x](docs/a.md#gone) [x](#gone)"))

    def test_code_has_no_links_and_no_headings(self):
        self.assertEqual([], self.faults("b.md", "`[x](gone.md)`\n```\n[x](gone.md)\n```\n"))
        self.assertEqual(1, len(self.faults("b.md", "```\n# Head\n```\n[x](#head)")))

    def test_pages_that_everybody_reads_stay_short(self):
        self.assertEqual([], self.faults("README.md", "a" * 8000))
        self.assertEqual(["README.md: 8001 bytes, and it may have 8000"], self.faults("README.md", "a" * 8001))
        self.write("README.md", "")
        self.assertEqual([], self.faults("ARCHITECTURE.md", "a\n" * 300))
        self.assertEqual(1, len(self.faults("ARCHITECTURE.md", "a\n" * 301)))

    def test_paths_that_guides_name_are_there(self):
        self.assertEqual([], self.faults("docs/recipes/b.md",
                                         "`server/a.h` `server/a` `server/` `server/*.h` `server/NAME/` `other/a` `a/b c`"))
        self.assertEqual(["docs/recipes/b.md: it names server/*.cc, which is not there",
                          "docs/recipes/b.md: it names server/b.h, which is not there"],
                         self.faults("docs/recipes/b.md", "`server/b.h` and `server/*.cc`"))
        self.assertEqual(2, len(list(pages.faults(self.root))))
        self.write("docs/recipes/b.md", "")
        self.assertEqual([], self.faults("docs/c.md", "`server/b.h`"))

    def test_each_variable_is_explained(self):
        self.write("common/a.cc", 'getenv("WARPLINE_ONE"); getenv("WARPLINE_TWO"); Name("WARPLINE_");')
        self.write("common/a_test.cc", 'setenv("WARPLINE_THREE");')
        self.assertEqual(["docs/reference/environment.md: it lacks WARPLINE_TWO of common/a.cc"],
                         self.faults("docs/reference/environment.md", "`WARPLINE_ONE`"))

    def test_the_pages_of_this_tree_are_right(self):
        self.assertTrue((HERE / "README.md").exists(), "the sources are not at %s" % HERE)
        self.assertEqual([], list(pages.faults(HERE)))


unittest.main()
