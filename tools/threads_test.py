#!/usr/bin/env python3
import pathlib
import unittest

import threads

PAGE = """
| thread | how many |
|---|---|
| `wl-one` | one |
| `loop` | one |
| `wl-chan` | one |
| the quiet one's | one, by `a/quiet.cc` |
"""

SOURCES = {
    "a/one.cc": 'thread_ = StartLoopThread("wl-one", [this] { Run(); });',
    "a/host.h": 'EventLoop control_{"loop"};',
    "a/session.cc": 'auto thread = start_thread("wl-chan", [this] {});',
    "a/quiet.h": "std::thread thread_;",
    "a/quiet.cc": "Quiet::Quiet() : thread_([this] { Run(); }) {}",
}


class Threads(unittest.TestCase):

    def faults(self, more=()):
        return list(threads.faults(PAGE, {**SOURCES, **dict(more)}))

    def test_a_page_that_has_all_is_right(self):
        self.assertEqual([], self.faults())

    def test_each_way_to_name_a_thread_is_seen(self):
        for text in ('StartLoopThread("wl-new", body)',
                     'TryStartLoopThread(\n      "wl-new", body)',
                     'pthread_setname_np(pthread_self(), "wl-new")', 'prctl(PR_SET_NAME, "wl-new")',
                     'EventLoop loop_{"wl-new"};', 'std::make_unique<EventLoop>("wl-new")'):
            self.assertEqual(["b/new.cc: the thread `wl-new` is not in the page"],
                             self.faults({"b/new.cc": text}))

    def test_a_name_that_is_gone_is_told(self):
        sources = {path: text for path, text in SOURCES.items() if path != "a/host.h"}
        self.assertEqual(["the page has a thread `loop`, and no source gives that name"],
                         list(threads.faults(PAGE, sources)))

    def test_a_thread_without_a_name_needs_its_file_in_the_page(self):
        fault = ["b/new: it starts threads without a name, and is not in the page"]
        self.assertEqual(fault, self.faults({"b/new.cc": "std::thread([] {}).detach();"}))
        self.assertEqual(fault, self.faults({"b/new.h": "std::vector<std::thread> threads_;"}))
        self.assertEqual(fault, self.faults({"b/new.cc": "pthread_create(&thread, 0, Run, 0);"}))
        self.assertEqual([], self.faults({"b/new.cc": "std::thread::hardware_concurrency();"}))

    def test_a_member_is_named_by_whoever_starts_it(self):
        self.assertEqual([], self.faults({
            "b/new.h": "std::thread thread_;",
            "b/other.cc": '#include "b/new.h"\nthread_ = StartLoopThread("wl-one", body);',
        }))

    def test_comments_and_tests_do_not_count(self):
        self.assertEqual([], self.faults({"b/new.cc": '// StartLoopThread("new"), std::thread'}))
        self.assertEqual([], self.faults({"b/new_test.cc": "std::thread([] {}).join();"}))
        self.assertEqual([], self.faults({"b/testing/new.cc": "std::thread([] {}).join();"}))

    def test_paths_have_to_be_there(self):
        here = pathlib.Path(threads.__file__).parent.parent
        self.assertEqual([], list(threads.missing_paths("`tools/threads.py` `a` `./dev`", here)))
        self.assertEqual(["the page names tools/gone.py, which there is not"],
                         list(threads.missing_paths("`tools/gone.py`", here)))


unittest.main()
