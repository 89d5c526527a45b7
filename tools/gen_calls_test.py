#!/usr/bin/env python3.11
"""What is wrong in a table of commands is refused, by name and reason."""
import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gen_calls  # noqa: E402  (beside this file)

GOOD = {
    "capability": [{"name": "copy_in", "right": 3}, {"name": "stream"}],
    "version": [],
    "notice": [],
    "command": [{
        "name": "Fill", "doc": "Fills.", "family": "copies", "executor": "stream",
        "effect": "one_way", "capability": "copy_in", "engine": "copy_in", "dropped": True,
        "writes": [["dst", "count * 4"]], "tail": "the data",
        "fields": [["stream", "u64"], ["dst", "u64"], ["count", "u64"]],
    }],
}


def changed(**columns):
    table = copy.deepcopy(GOOD)
    for name, value in columns.items():
        if value is None:
            del table["command"][0][name]
        else:
            table["command"][0][name] = value
    return table


class GenCallsTest(unittest.TestCase):
    def refuses(self, reason, **columns):
        with self.assertRaisesRegex(gen_calls.TableError, "command Fill: .*" + reason):
            gen_calls.check(changed(**columns))

    def test_the_good_one_is_taken(self):
        gen_calls.check(GOOD)

    def test_columns_that_no_code_reads(self):
        self.refuses("unknown columns", errors=["argument"])

    def test_values_that_there_are_none_of(self):
        self.refuses("executor", executor="fast")
        self.refuses("after", after="events and more")
        self.refuses("capability", capability="everything")
        self.refuses("engine", engine="tensor")
        self.refuses("journal", journal="keep it")
        self.refuses("family", family="Copies")

    def test_columns_that_disagree(self):
        self.refuses("a copy of host memory", capability="stream")
        self.refuses("executor without field", fields=[["dst", "u64"], ["count", "u64"]])
        self.refuses("only streams", executor="control")
        self.refuses("a reply belongs", effect="round_trip")
        self.refuses("nothing waits", executor="decode", engine="", after="events")
        self.refuses("in order anyway", executor="control", engine="", after="objects")
        self.refuses("is dropped", executor="control", engine="")
        self.refuses("work to be dropped", dropped=False)

    def test_spans_of_fields_that_there_are_none_of(self):
        self.refuses("no field to", writes=[["to", "count"]])
        self.refuses("no field bytes", writes=[["dst", "bytes"]])
        self.refuses("there is no tail", tail=None, writes=[["dst", "tail"]])
        self.refuses("extent", writes=[["dst", "rows(count, 4)"]])

    def test_holes_in_the_struct(self):
        self.refuses("leaves a hole", fields=[["stream", "u64"], ["x", "u32"], ["dst", "u64"],
                                              ["count", "u64"]])

    def test_two_capabilities_with_one_right(self):
        table = copy.deepcopy(GOOD)
        table["capability"].append({"name": "memory", "right": 3})
        with self.assertRaisesRegex(gen_calls.TableError, "capability memory: right 3"):
            gen_calls.check(table)


if __name__ == "__main__":
    unittest.main()
