#!/usr/bin/env python3
"""The arithmetic of overhead.py."""
import pathlib
import sys
import unittest
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import overhead  # noqa: E402  (found by the path above)

HEAD = "kernel,grid,block,launches,min_us,median_us,sum_us\n"


class OverheadTest(unittest.TestCase):
    def test_a_kernel_is_known_by_its_sizes_too(self):
        times = overhead.read_times(HEAD + "k,1x1x1,32x1x1,10,1.0,2.0,20.0\n"
                                    "k,2x1x1,32x1x1,5,3.0,4.0,20.0\n")
        self.assertEqual({("k", "1x1x1", "32x1x1"): (10, 2.0), ("k", "2x1x1", "32x1x1"): (5, 4.0)},
                         times)

    def test_the_least_of_several_runs(self):
        self.assertEqual({"a": (3, 1.0), "b": (1, 5.0)},
                         overhead.best_of([{"a": (3, 2.0)}, {"a": (3, 1.0), "b": (1, 5.0)}, {}]))

    def test_only_kernels_of_all_modes_count(self):
        us, kernels = overhead.sums({"off": {"a": (10, 1.0), "b": (1, 9.0)},
                                     "fence": {"a": (10, 1.5)}})
        self.assertEqual(({"off": 10.0, "fence": 15.0}, 1), (us, kernels))

    def test_the_table_has_ratios_and_their_means(self):
        us = {"off": 100.0, "fence": 102.0, "fence4": 100.0, "hardened": 110.0}
        other = {"off": 100.0, "fence": 100.0, "fence4": 100.0, "hardened": 110.0}
        text = overhead.table({"p": {"us": us, "kernels": 2}, "q": {"us": other, "kernels": 1},
                               "none": {"us": {"off": 0}, "kernels": 0}})
        self.assertIn("| p | 2 | 100 | 1.020 | 1.000 | 1.100 |\n", text)
        self.assertIn("| geometric mean of 2 | | | 1.010 | 1.000 | 1.100 |\n", text)
        self.assertNotIn("none", text)

    def test_the_plot_has_a_dot_for_each_mode_of_each_program_and_of_the_mean(self):
        us = {"off": 100.0, "fence": 102.0, "fence4": 100.0, "hardened": 400.0}
        root = ElementTree.fromstring(overhead.plot({"a<b": {"us": us, "kernels": 2},
                                                     "none": {"us": {"off": 0}, "kernels": 0}}))
        dots = root.findall("{http://www.w3.org/2000/svg}circle")
        self.assertEqual(3 + 2 * 3, len(dots))
        words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("a<b", words)
        self.assertNotIn("none", words)
        # What lies beyond the plot is drawn at its end.
        self.assertEqual(overhead.LEFT + overhead.WIDTH, max(float(each.get("cx")) for each in dots))


if __name__ == "__main__":
    unittest.main()
