#!/usr/bin/env python3
"""What plot.py reads and draws."""
import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))
import plot  # noqa: E402

LINES = """sample,hours,used,bound,waiting
sample,0.50,0.2500,0.3000,0
sample,24.00,1.0000,1.0000,40
wait,all,10,5,60.0,1.0,3600.0,4000.0
wait,gang,2,2,600.0,1.0,86400.0,90000.0
""".splitlines()
SVG = "{http://www.w3.org/2000/svg}"


class PlotTest(unittest.TestCase):
    def test_samples_and_waits_are_read(self):
        samples, waits = plot.read(LINES)
        self.assertEqual(samples, [[0.5, 0.25, 0.3, 0], [24, 1, 1, 40]])
        self.assertEqual(waits["gang"]["p99"], 86400)

    def test_the_plot_has_a_line_for_each_series_and_bars_for_each_size(self):
        root = xml.etree.ElementTree.fromstring(plot.plot(*plot.read(LINES)))
        lines = root.findall(SVG + "polyline")
        self.assertEqual(len(lines), 3)
        used = [point.split(",") for point in lines[1].get("points").split()]
        # All devices are in use at the end, at the top of the panel.
        self.assertEqual(float(used[-1][1]), plot.TOP)
        self.assertEqual(float(used[-1][0]), plot.LEFT + plot.WIDTH)
        self.assertEqual(len(root.findall(SVG + "rect")), 1 + 2)
        self.assertIn("day 1", [each.text for each in root.iter(SVG + "text")])

    def test_waits_are_logarithmic(self):
        self.assertEqual(plot.wait_place(0), 0)
        self.assertEqual(plot.wait_place(10**9), 1)
        self.assertLess(plot.wait_place(60), plot.wait_place(3600))


if __name__ == "__main__":
    unittest.main()
