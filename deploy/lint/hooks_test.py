#!/usr/bin/env python3
import pathlib
import unittest

import hooks

HEADER = """\
/* A slice has work. Verdicts: RUN, HOLD. RUN is a score of 0. */
struct warpline_on_dispatch {
  WARPLINE_CONTEXT_HEAD;
  long long credit_ns; /* a comment; with a semicolon */
  unsigned int reserved;
};

/* Work is complete. The verdict is ignored. */
struct warpline_on_retire {
  WARPLINE_CONTEXT_HEAD;
  unsigned long long actual_ns;
};
"""
SOURCE = """\
policy::Verdict Arbiter::VerdictOn(Contender& c) {
  return policy_->OnDispatch(context);
}

void Arbiter::Retire() {
  policy_->OnRetire(context);
}
"""


class Hooks(unittest.TestCase):

    def test_hooks_have_their_callers_fields_and_verdicts(self):
        lines = hooks.page(HEADER, [("server/a.cc", SOURCE)]).splitlines()
        self.assertEqual("| `on_dispatch` | `Arbiter::VerdictOn` (`server/a.cc`) | `credit_ns` | RUN, HOLD |", lines[-2])
        self.assertEqual("| `on_retire` | `Arbiter::Retire` (`server/a.cc`) | `actual_ns` | none |", lines[-1])

    def test_callers_of_the_dispatcher_are_callers(self):
        source = "bool Host::Admit() {\n  peer_->AskName();\n  return dispatcher_->AskMemFault(context);\n}\n"
        self.assertEqual({"on_mem_fault": [("Host::Admit", "server/b.cc")]},
                         hooks.callers([("server/b.cc", source)], ["on_mem_fault"]))

    def test_the_policy_that_others_are_replaced_by_is_no_caller(self):
        self.assertEqual({}, hooks.callers([("server/a.cc", "void A::B() {\n  default_policy_.OnDispatch(c);\n}\n")], []))

    def test_a_hook_that_nothing_asks_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "on_retire: nothing asks this hook"):
            hooks.page(HEADER, [("server/a.cc", SOURCE.split("\n\n")[0])])

    def test_a_call_of_a_hook_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "on_admit: the header has no such hook"):
            hooks.page(HEADER, [("server/a.cc", SOURCE + "void A::B() {\n  policy_->OnAdmit(c);\n}\n")])

    def test_the_page_in_the_tree_is_current(self):
        root = pathlib.Path(hooks.__file__).resolve().parents[2]
        self.assertEqual(hooks.page_of(root), (root / "docs/hooks.md").read_text(encoding="utf-8"),
                         "run deploy/lint/hooks.py --table > docs/hooks.md")


if __name__ == "__main__":
    unittest.main()
