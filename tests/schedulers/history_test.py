#!/usr/bin/env python3
"""The judge of histories finds what is wrong, and nothing where nothing is."""
import unittest

import history

GIB = 1 << 30


def granted(lease, at, gib=10, ends=0, epoch=1, asked=None, joined=0, server="a"):
    return "granted asked=%d at=%d lease=%s server=%s bytes=%d ends=%d epoch=%d joined=%d why=" % (
        asked or at - 1, at, lease, server, gib * GIB, ends, epoch, joined)


class HistoryTest(unittest.TestCase):
    def judge(self, *lines, reports=200):
        # Long after, its server has had so many answers: what it was not told is overdue.
        late = ["reported asked=%d at=%d server=a epoch=1" % (900 * history.US + i, 900 * history.US + i)
                for i in range(reports)]
        return history.judge(history.read([*lines, *late]), 16 * GIB, 6 * history.US)

    def told(self, lease, at):
        return "ended at=%d server=a lease=%s epoch=1 why=x" % (at, lease)

    def test_one_after_the_other_is_well(self):
        self.assertEqual(self.judge(
            granted("1", 10), "renewed asked=11 at=12 lease=1 epoch=1", "releasing at=20 lease=1",
            "released asked=20 at=25 lease=1 code=0", self.told("1", 26),
            granted("2", 24), "releasing at=30 lease=2",
            "released asked=30 at=31 lease=2 code=0", self.told("2", 40)), [])

    def test_two_that_do_not_fit_are_found(self):
        wrong = self.judge(granted("1", 10), granted("2", 15), "releasing at=20 lease=1",
                           "releasing at=20 lease=2", self.told("1", 26), self.told("2", 26))
        self.assertEqual(len(wrong), 1)
        self.assertIn("overbooked server=a", wrong[0])

    def test_leases_that_are_lost_are_found(self):
        wrong = self.judge(granted("1", 10, gib=1), granted("2", 10, gib=1),
                           "unrenewed asked=11 at=12 lease=1 code=5 why=over", self.told("2", 13),
                           "unrenewed asked=11 at=12 lease=2 code=14 why=later",
                           "releasing at=20 lease=1", "releasing at=20 lease=2",
                           self.told("1", 21))
        self.assertEqual([w.split(" lease")[0] for w in wrong], ["lost", "ended too early"])

    # The server has not heard of the scheduler, so that the lease has no session there: it is the
    # holder's as long as it is renewed.
    def test_leases_without_a_session_lapse(self):
        second = history.US
        lines = [granted("1", 10, joined=14),
                 "renewed asked=%d at=%d lease=1 epoch=1" % (5 * second, 5 * second + 1)]
        over = "unrenewed asked=%d at=%d lease=1 code=5 why=over"
        lost = self.judge(*lines, over % (10 * second, 10 * second + 1), self.told("1", 10 * second + 2))
        self.assertEqual([w.split(" lease")[0] for w in lost], ["lost", "ended too early"])
        self.assertEqual(self.judge(*lines, over % (12 * second, 12 * second + 1),
                                    self.told("1", 11 * second + 2)), [])
        # Nor does it count against others afterwards.
        self.assertEqual(self.judge(*lines, self.told("1", 11 * second + 2), granted("2", 12 * second),
                                    "releasing at=%d lease=2" % (13 * second),
                                    self.told("2", 13 * second + 1)), [])

    def test_leases_that_outlive_their_end_are_found(self):
        wrong = self.judge(granted("1", 10), "releasing at=20 lease=1",
                           "released asked=20 at=21 lease=1 code=0",
                           "renewed asked=22 at=23 lease=1 epoch=1",
                           granted("2", 40, ends=5000000),
                           "renewed asked=7000000 at=7000001 lease=2 epoch=1", self.told("2", 60))
        self.assertEqual([w.split(" lease")[0] for w in wrong],
                         ["ended too early", "outlives its end", "renewed after its release",
                          "renewed after its end"])

    def test_a_lease_may_end_late_where_nothing_is_answered(self):
        lines = [granted("1", 10), "releasing at=20 lease=1", "released asked=20 at=21 lease=1 code=0",
                 self.told("1", 950 * history.US)]
        self.assertEqual(self.judge(*lines, reports=100), [])
        wrong = self.judge(*lines, reports=101)
        self.assertEqual([w.split(" lease")[0] for w in wrong], ["outlives its end"])

    def test_a_lease_lasts_as_long_as_one_that_is_abandoned_if_its_release_was_not_answered(self):
        ttl = 6 * history.US
        for answer, late in (("released asked=20 at=21 lease=1 code=0", True),
                             ("released asked=20 at=21 lease=1 code=14", False),
                             ("abandoned at=20 lease=1", False)):
            lines = [granted("1", 10), "releasing at=20 lease=1", answer]
            lines += ["reported asked=%d at=%d server=a epoch=1" % (ttl + i - 200, ttl + i - 200)
                      for i in range(200)]
            wrong = self.judge(*lines, self.told("1", ttl), reports=0)
            self.assertEqual([w.split(" lease")[0] for w in wrong], ["outlives its end"] * late)
            # It does not last longer than that.
            wrong = self.judge(*lines, self.told("1", 2000 * history.US))
            self.assertEqual([w.split(" lease")[0] for w in wrong], ["outlives its end"])

    def test_an_answer_of_an_earlier_term_is_found(self):
        wrong = self.judge(granted("1", 10, gib=1, epoch=7), granted("2", 20, gib=1, epoch=5),
                           "releasing at=30 lease=1", "releasing at=30 lease=2",
                           self.told("1", 31), self.told("2", 31))
        self.assertEqual(len(wrong), 1)
        self.assertIn("earlier term", wrong[0])

    def test_a_token_that_the_server_refuses_is_found(self):
        wrong = self.judge(granted("1", 10, joined=16), granted("2", 10, gib=1, joined=14),
                           "releasing at=20 lease=1", "releasing at=20 lease=2",
                           self.told("1", 26), self.told("2", 26))
        self.assertEqual(len(wrong), 1)
        self.assertIn("server refuses token lease=1", wrong[0])


if __name__ == "__main__":
    unittest.main()
