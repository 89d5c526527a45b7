#!/usr/bin/env python3
"""Tests of report.py."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

import report

HERE = pathlib.Path(__file__).absolute().parent
ROWS = [{"figure": "launch_sync", "unit": "us", "native": 8.1234567, "remote": 16.2, "ratio": 1.9943,
         "spread": 0.01, "goal": 1.6, "peer": 5.4, "remote_runs": [16.2]},
        {"figure": "init", "unit": "ms", "native": 500, "remote": 10, "ratio": 0.02},
        {"figure": "d2h", "unit": "GB/s", "remote": 3}]


class ReportTest(unittest.TestCase):
    def test_rows_are_replaced_by_figure_and_say_where_they_are_from(self):
        rows = report.merge([], ROWS, "an H200", "commit a")
        rows = report.merge(rows, [{**ROWS[1], "ratio": 0.04}], "an H100", "commit b")
        self.assertEqual([row["figure"] for row in rows], ["launch_sync", "init", "d2h"])
        self.assertEqual(rows[0]["native"], 8.123)
        self.assertNotIn("remote_runs", rows[0])
        self.assertEqual((rows[1]["ratio"], rows[1]["machine"]), (0.04, "an H100"))
        self.assertEqual(rows[2]["machine"], "an H200")

    def test_the_table_says_which_goals_are_missed(self):
        lines = report.table(report.merge([], ROWS, "an H200", "commit a")).splitlines()
        self.assertEqual(lines[2],
                         "| launch_sync | us | 8.12 | 16.2 | 1.99 | 0.01 | 1.6 **missed** | 5.4 |")
        self.assertEqual(lines[4], "| d2h | GB/s |  | 3 |  |  |  |  |")
        self.assertEqual(lines[-1], "Measured: commit a, an H200.")

    def test_the_plot_is_an_image_in_which_all_that_has_a_ratio_lies(self):
        root = ElementTree.fromstring(report.plot(ROWS))
        names = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("launch_sync", names)
        self.assertNotIn("d2h", names)
        for bar in list(root.iter("{http://www.w3.org/2000/svg}rect"))[1:]:
            self.assertGreaterEqual(float(bar.get("x")), report.LEFT)
            self.assertLessEqual(float(bar.get("x")) + float(bar.get("width")),
                                 report.LEFT + report.WIDTH)

    def test_the_page_keeps_what_is_around_the_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            docs = pathlib.Path(folder)
            page = docs / "performance.md"
            page.write_text("before\n" + report.BEGIN + "old\n" + report.END + "after\n")
            (docs / "rows.json").write_text(json.dumps(ROWS))
            command = [sys.executable, str(HERE / "report.py"), "--docs=" + folder]
            said = subprocess.run([*command, "--machine=an H200", "--source=commit a",
                                   folder + "/rows.json"], check=True, stdout=subprocess.PIPE,
                                  text=True).stdout
            self.assertEqual(said, "3 figures, 0 of 1 goals met; missed: launch_sync\n")
            text = page.read_text()
            self.assertTrue(text.startswith("before\n"))
            self.assertTrue(text.endswith(report.END + "after\n"))
            self.assertIn("| init | ms | 500 | 10 | 0.02 |", text)
            self.assertNotIn("old", text)
            # Once more, of the data.
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(page.read_text(), text)


if __name__ == "__main__":
    unittest.main()
