#!/usr/bin/env python3
"""Tests of paired.py."""
import unittest

import paired


class PairedTest(unittest.TestCase):
    def test_slower_is_the_same_way_round_for_times_and_rates(self):
        self.assertAlmostEqual(paired.slower(2.0, 6.0, "us"), 3.0)
        self.assertAlmostEqual(paired.slower(6.0, 2.0, "GB/s"), 3.0)
        self.assertIsNone(paired.slower(0.0, 2.0, "us"))

    def test_the_spread_is_that_of_the_middle_half(self):
        native = [10.0] * 8
        self.assertAlmostEqual(paired.spread(native, [10.0] * 7 + [90.0], "us"), 0)
        self.assertAlmostEqual(paired.spread(native, [11.0] * 8, "us"), 0.1)
        self.assertAlmostEqual(paired.spread(native, [8.0, 12.0] * 4, "us"), 0.2)
        self.assertIsNone(paired.spread(native, [10.0], "us"))

    def test_a_row_has_medians_and_what_was_measured(self):
        self.assertEqual(paired.row("x", "us", [1, 2, 90], [4, 6, 5], [1, 2, 90], 1.5),
                         {"figure": "x", "unit": "us", "native": 2, "remote": 5, "ratio": 2.5,
                          "spread": 0, "goal": 1.5})
        self.assertEqual(paired.row("x", "us", [], [4]), {"figure": "x", "unit": "us", "remote": 4})

    def test_a_goal_is_met_within_the_spread(self):
        row = {"ratio": 1.05, "goal": 1.0, "spread": 0.06}
        self.assertTrue(paired.met(row))
        self.assertFalse(paired.met({**row, "spread": 0.04}))
        self.assertIsNone(paired.met({**row, "spread": 0.5}), "noise")
        self.assertIsNone(paired.met({"ratio": 1.0}))
        self.assertIsNone(paired.met({"goal": 1.0}))

    def test_a_verdict_follows_the_goal(self):
        self.assertEqual([paired.verdict({"ratio": ratio, "goal": 1.0}) for ratio in (1.0, 1.1)],
                         [" met", " missed"])
        self.assertEqual(paired.verdict({"goal": 1.0}), "")

    def test_each_name_is_the_first_in_its_turn(self):
        self.assertEqual(list(paired.turns(["a", "b", "c"], 4)), list("abc" "bca" "cab" "abc"))

    def test_goals_are_ratios(self):
        for figure, goal in paired.goals().items():
            self.assertGreater(goal, 0.5, figure)
            self.assertLess(goal, 2, figure)


if __name__ == "__main__":
    unittest.main()
