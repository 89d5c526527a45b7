#!/usr/bin/env python3
import contextlib
import io
import os
import shutil
import subprocess
import tempfile
import unittest

import prose

LONG = " ".join(["word"] * 40)
OF, WHAT, AS = ('begins with "%s"' % word for word in ("Of", "What", "As"))
TOO_LONG = "sentence over 35 words"
TOO_WIDE = "line over 120 characters"


def found(path, *lines):
    return [(fault.line, fault.pattern) for fault in prose.faults(path, "\n".join(lines) + "\n")]


class Beginnings(unittest.TestCase):

    def test_each_of_them_is_found(self):
        for word in prose.BEGINNINGS:
            said = "// %s device that is meant." % word
            self.assertEqual([(1, 'begins with "%s"' % word)], found("a.h", said), said)

    def test_a_comparison_with_a_function_is_one(self):
        self.assertEqual([(1, AS)], found("a.h", "// As Foo(), but waits."))

    def test_a_comment_may_begin_with_a_small_letter(self):
        self.assertEqual([(1, OF)], found("a.h", "int a;  // of the lease"))

    def test_words_that_only_look_like_it_are_none(self):
        for said in ("Office hours.", "Assigns it.", "Whatever it is.", "Offers it.", "North of it.",
                     "As-is copies are made.", "The sameness of it.", "It is as Foo() does it."):
            self.assertEqual([], found("a.h", "// " + said), said)

    def test_a_sentence_within_a_text_is_judged(self):
        self.assertEqual([(2, WHAT)], found("a.h", "// Returns the lease. It may be null.",
                                            "// What it holds is freed."))
        self.assertEqual([(1, OF)], found("a.h", "// Is it free? Of its bytes none is used."))
        self.assertEqual([(1, OF)], found("a.h", "// It is free (or not). (Of its bytes none is used.)"))

    def test_a_line_within_a_sentence_is_not_judged(self):
        self.assertEqual([], found("a.h", "// Returns the number", "// of bytes, and says",
                                   "// What is a name here."))

    def test_a_small_letter_within_a_text_begins_no_sentence_of_these(self):
        self.assertEqual([], found("a.h", "// Returns it, e.g. of a lease. of"))

    def test_abbreviations_and_numbers_end_no_sentence(self):
        for said in ("Takes some, e.g. What it has.", "Takes some, i.e. Of its bytes.", "Takes 1.5 Of it.",
                     "It is cf. What says so.", "See a.h. or b.h"):
            self.assertEqual([], found("a.h", "// " + said), said)

    def test_a_paragraph_of_a_comment_is_a_text_of_its_own(self):
        self.assertEqual([(3, WHAT)], found("a.h", "// Returns it", "//", "// What it holds is freed."))

    def test_items_are_sentences_of_their_own(self):
        self.assertEqual([(2, OF)], found("a.h", "// It is one of", "// - Of the lease", "// - the session"))
        self.assertEqual([(2, OF)], found("a.md", "It is one of", "1. Of the lease", "2. the session"))


class Phrases(unittest.TestCase):

    def test_each_of_them_is_found(self):
        for phrase in prose.PHRASES:
            self.assertEqual([(1, 'has "%s"' % phrase)], found("a.h", "// It has it, %s so." % phrase))

    def test_a_phrase_goes_over_the_end_of_a_line(self):
        self.assertEqual([(1, 'has "of which"')], found("a.h", "// It has bytes, of", "// which none is used."))
        self.assertEqual([(2, 'has "of which"')], found("a.md", "It has", "bytes, of", "which none is used."))

    def test_each_time_counts(self):
        self.assertEqual(2, len(found("a.h", "// Bytes, of which, and lines, of which.")))

    def test_other_words_are_none(self):
        self.assertEqual([], found("a.h", "// It is of whichever lease; for so longer; that there is."))


class Lengths(unittest.TestCase):

    def test_a_long_sentence_is_found_where_it_begins(self):
        self.assertEqual([(2, TOO_LONG)], found("a.h", "// Short.", "// Begins here", "// " + LONG + "."))
        self.assertEqual([(1, TOO_LONG)], found("a.md", LONG[:100], LONG[100:]))

    def test_the_limit_is_allowed(self):
        at_most = " ".join(["word"] * prose.MAX_WORDS)
        self.assertEqual([], found("a.py", "# %s. %s" % (at_most, at_most)))
        self.assertEqual([(1, TOO_LONG)], found("a.py", "# more " + at_most))

    def test_code_quotations_and_addresses_are_one_word(self):
        for one in ("`%s`" % LONG, "``%s``" % LONG, '"%s"' % LONG, "[a](http://a.b/%s)" % ("c" * 400)):
            self.assertEqual([], [fault for fault in found("a.md", "It is %s." % one) if fault[1] == TOO_LONG])

    def test_a_dash_is_no_word(self):
        self.assertEqual([], found("a.h", "// " + " - ".join(["word"] * prose.MAX_WORDS)))

    def test_items_do_not_add_up(self):
        self.assertEqual([], found("a.h", "// It has:", *["// - some four words here"] * 12))
        self.assertEqual([], found("a.md", "It has:", *["* some four words here"] * 12))

    def test_an_item_goes_on_in_lines_that_are_indented(self):
        self.assertEqual([(1, TOO_LONG)], found("a.h", "// - It has", "//   " + LONG))
        self.assertEqual([(1, TOO_LONG)], found("a.md", "1. It has", "   " + LONG[:100], "   " + LONG[100:]))


class Code(unittest.TestCase):

    def test_code_spans_and_quotations_are_not_judged(self):
        for said in ("`Of` is a name.", '"Of which" is said.', "It says `of which`.", 'It says "What?" then.',
                     "`As` goes to `that there are`."):
            self.assertEqual([], found("a.h", "// " + said), said)
            self.assertEqual([], found("a.md", said), said)

    def test_a_quotation_may_end_the_sentence(self):
        self.assertEqual([(1, OF)], found("a.h", '// It says "no room." Of its bytes none is used.'))

    def test_a_code_span_goes_over_the_end_of_a_line(self):
        self.assertEqual([], found("a.md", "It is `bytes of", "which` it says so."))

    def test_an_address_ends_no_sentence(self):
        self.assertEqual([], found("a.md", "See https://a.b/c?d=e.F of it."))
        self.assertEqual([(1, OF)], found("a.md", "See https://a.b/c. Of its bytes none is used."))

    def test_a_link_ends_a_sentence(self):
        self.assertEqual([(1, OF)], found("a.md", "See [it](a.md). Of its bytes none is used."))

    def test_code_in_a_comment_is_not_judged(self):
        self.assertEqual([], found("a.h", "// Is used so:", "//   What what = Of(which);", "// and so."))
        self.assertEqual([], found("a.h", "// Is used so:", "// ```", "// What what = Of(which);", "// ```"))

    def test_aligned_columns_are_not_judged(self):
        self.assertEqual([], found("a.h", "// Options:", "// --all    What there is", "// --one    As it is"))


class Comments(unittest.TestCase):

    def test_languages(self):
        for path in ("a.h", "a.cc", "a.c", "a.cu", "a.cuh", "a.inc", "a.proto"):
            self.assertEqual([(1, OF)], found(path, "// Of it."), path)
        for path in ("a.py", "a/BUILD", "a.bzl", "a.toml", "a.sh", "a.yaml", "WORKSPACE"):
            self.assertEqual([(1, OF)], found(path, "# Of it."), path)
        for path in ("a.ptx", "a.csv", "LICENSE", "a.txt", "a.json"):
            self.assertEqual([], found(path, "# Of it.", "// Of it."), path)

    def test_a_script_is_known_by_its_first_line(self):
        self.assertEqual([(2, OF)], found("dev", "#!/usr/bin/env bash", "# Of it."))
        self.assertEqual([(2, OF)], found(".ci/run", "#!/usr/bin/env python3", "# Of it."))
        self.assertEqual([], found("notes", "# Of it."))

    def test_a_comment_after_code_is_judged(self):
        self.assertEqual([(1, OF)], found("a.h", "int a;  // Of it."))
        self.assertEqual([(1, OF)], found("a.py", "a = 1  # Of it."))
        self.assertEqual([(1, OF)], found("a.sh", "a=1  # Of it."))

    def test_a_comment_after_code_goes_on_below_it(self):
        self.assertEqual([], found("a.h", "int a;  // Returns the number", "        // Of is a word."))
        self.assertEqual([(2, OF)], found("a.h", "int a;  // Returns the number.", "int b;  // Of it."))

    def test_a_mark_within_a_string_is_no_comment(self):
        for line in ('Say("http://a // Of it");', "Say('\\'', \"// Of it\");", 'Say(R"x(\n// Of it\n)x");',
                     '/* // Of it */', 'Say("\\"// Of it");'):
            self.assertEqual([], found("a.cc", line), line)
        for line in ("a = '# Of it'", 'a = "# Of it"', '"""\n# Of it\n"""', "a = 'it\\'s # Of it'"):
            self.assertEqual([], found("a.py", line), line)
        for line in ('say "# Of it"', "say '# Of it'", "say ${#Of}", "say $# Of it"):
            self.assertEqual([], found("a.sh", line), line)

    def test_marks_of_numbers_and_characters_hide_no_comment(self):
        self.assertEqual([(1, OF)], found("a.cc", "int a = 10'000;  // Of it, that isn't there."))
        self.assertEqual([(1, OF)], found("a.cc", "char a = '\"';  // Of it."))

    def test_license_headers_and_directives_are_not_judged(self):
        self.assertEqual([], found("a.h", "// Copyright 2026 The Authors", "//", "// What you may do, of which."))
        self.assertEqual([], found("a.h", "}  // namespace of_which"))
        self.assertEqual([(2, OF)], found("a.h", "// NOLINTNEXTLINE(what)", "// Of it."))

    def test_a_docstring_and_help_text_are_no_comments(self):
        self.assertEqual([], found("a.py", 'def f():', '    """Whether it is."""'))


class Pages(unittest.TestCase):

    def test_headings_tables_and_quotations_are_not_judged(self):
        for lines in (["# What is it?"], ["| What | Of which |", "|---|---|", "| As | Who |"],
                      ["> What he said, of which."], ["<!-- What is meant -->"], ["<p>What</p>"],
                      ["<!--", "What is meant.", "-->"]):
            self.assertEqual([], found("a.md", *lines), lines)

    def test_a_question_in_the_text_is_judged(self):
        self.assertEqual([(1, WHAT)], found("a.md", "What is it?"))

    def test_code_blocks_are_not_judged(self):
        for lines in (["```", "What of which", "```"], ["~~~sh", "# What", "~~~"], ["So:", "", "    What of which"],
                      ["- It is:", "", "  ```", "  What of which", "  ```"]):
            self.assertEqual([], found("a.md", *lines), lines)

    def test_the_text_after_a_code_block_is_judged(self):
        self.assertEqual([(4, WHAT)], found("a.md", "```", "code", "```", "What it does."))

    def test_emphasis_hides_no_beginning(self):
        self.assertEqual([(1, WHAT)], found("a.md", "**What it costs:** a lot."))

    def test_wide_lines(self):
        wide = "It says. " * 14
        self.assertEqual([(1, TOO_WIDE)], found("a.md", wide))
        self.assertEqual([(1, TOO_WIDE)], found("a.md", "# " + wide))
        self.assertEqual([(1, TOO_WIDE)], found("a.md", "- [a](b.md) " + wide))
        self.assertEqual([], found("a.md", wide[:120].rstrip()))
        self.assertEqual([], found("a.h", "// " + wide))

    def test_tables_code_and_single_links_may_be_wide(self):
        address = "https://a.b/" + "c" * 120
        for lines in (["| %s |" % LONG], ["```", LONG, "```"], [address], ["- [a](%s)" % address],
                      ["[a]: " + address], ["![a](%s)." % address], ["<%s>" % address]):
            self.assertEqual([], found("a.md", *lines), lines)


class Changes(unittest.TestCase):

    def test_a_text_is_judged_when_one_of_its_lines_changed(self):
        text = "// Of it,\n// and so on.\nint a;\n// What it is.\n"
        self.assertEqual([1], [fault.line for fault in prose.faults("a.h", text, {2})])
        self.assertEqual([4], [fault.line for fault in prose.faults("a.h", text, {4})])
        self.assertEqual([], list(prose.faults("a.h", text, {3})))
        self.assertEqual([], list(prose.faults("a.h", text, set())))

    def test_a_wide_line_is_judged_when_it_changed(self):
        text = "Says it. " * 15 + "\nand more.\n"
        self.assertEqual([], prose.faults("a.md", text, {2}))
        self.assertEqual(1, len(prose.faults("a.md", text, {1})))

    def test_a_diff_is_read(self):
        diff = ("diff --git a/a.h b/a.h\n--- a/a.h\n+++ b/a.h\n@@ -1 +1,2 @@\n---- x\n+++ b/c.h\n+@@ -1 +9 @@\n"
                "@@ -7,2 +8,0 @@\n-a\n-b\n"
                "diff --git a/b c.md b/b c.md\n--- /dev/null\n+++ b/b c.md\t\n@@ -0,0 +1 @@\n+a\n"
                "\\ No newline at end of file\n")
        self.assertEqual({"a.h": {1, 2}, "b c.md": {1}}, prose.changed_in_diff(diff))


@unittest.skipUnless(shutil.which("git"), "there is no git")
class Repository(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        self.root = os.path.join(folder.name, "root")
        os.mkdir(self.root)
        os.chdir(self.root)
        self.addCleanup(os.environ.update, dict(os.environ))
        os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", HOME=folder.name,
                          GIT_CEILING_DIRECTORIES=folder.name,
                          GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a",
                          GIT_COMMITTER_EMAIL="a@b")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def write(self, path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self, path, text):
        self.write(path, text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")

    def start(self):
        self.git("init", "-q", "-b", "main")
        self.commit("old.h", "// Of the past.\n")

    def run_prose(self, *arguments):
        """Exit status, and the lines before the last one."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            status = prose.main(list(arguments))
        return status, said.getvalue().splitlines()[:-1]

    def test_a_branch_is_compared_with_main(self):
        self.start()
        self.git("checkout", "-q", "-b", "branch")
        self.commit("a.h", "// Of it.\n")
        self.commit("b.h", "// Returns it.\n")
        expected = ['a.h:1: begins with "Of": say what it is']
        self.assertEqual((1, expected), self.run_prose())
        self.write("c.md", "What is it?\n")  # Not committed.
        self.assertEqual((1, expected + ['c.md:1: begins with "What": say what it is']), self.run_prose())
        self.assertEqual((1, expected), self.run_prose("a.h", "b.h"))
        self.assertEqual((0, []), self.run_prose("b.h"))

    def test_the_branch_of_origin_comes_first(self):
        self.start()
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.commit("a.h", "// Of it.\n")
        self.commit("b.h", "// Returns it.\n")
        self.assertEqual(1, self.run_prose()[0])

    def test_on_main_the_last_commit_counts_or_what_is_not_committed(self):
        self.start()
        self.commit("a.h", "// Of it.\n")
        self.assertEqual(1, self.run_prose()[0])
        self.write("b.h", "// Returns it.\n")
        self.assertEqual((0, []), self.run_prose())

    def test_without_main_the_last_commit_counts(self):
        self.start()
        self.git("branch", "-m", "other")
        self.commit("a.h", "// Of it.\n")
        self.assertEqual((1, ['a.h:1: begins with "Of": say what it is']), self.run_prose())

    def test_a_moved_file_is_no_change(self):
        self.start()
        os.rename("old.h", "new.h")
        self.git("add", "-A")
        self.assertEqual((0, []), self.run_prose())

    def test_base_is_named(self):
        self.start()
        self.commit("a.h", "// Of it.\n")
        self.commit("b.h", "// Returns it.\n")
        self.assertEqual(0, self.run_prose()[0])
        self.assertEqual(1, self.run_prose("--base=HEAD~2")[0])
        self.assertEqual(2, self.run_prose("--base=nowhere")[0])

    def test_last_is_the_last_commit_whatever_the_branch(self):
        self.assertEqual(0, self.run_prose("--last")[0])  # Without git.
        self.start()
        self.git("checkout", "-q", "-b", "branch")
        self.commit("a.h", "// Of it.\n")
        self.commit("b.h", "// Returns it.\n")
        self.assertEqual(1, self.run_prose()[0])
        self.assertEqual((0, []), self.run_prose("--last"))
        self.commit("c.h", "// Of it.\n")
        self.assertEqual((1, ['c.h:1: begins with "Of": say what it is']), self.run_prose("--last"))

    def test_missing_history_is_no_error(self):
        self.assertEqual((0, []), self.run_prose())
        self.git("init", "-q", "-b", "main")
        self.assertEqual((0, []), self.run_prose())
        self.commit("old.h", "// Of the past.\n")
        self.assertEqual((0, []), self.run_prose())
        self.write("a.h", "// Of it.\n")
        self.assertEqual(1, self.run_prose()[0])

    def test_a_shallow_clone_is_no_error(self):
        self.start()
        self.commit("a.h", "// Of it.\n")
        self.git("clone", "-q", "--depth=1", "file://" + self.root, "../clone")
        os.chdir("../clone")
        self.assertEqual((0, []), self.run_prose())

    def test_all_counts_and_is_no_error(self):
        self.start()
        os.mkdir("server")
        self.commit("server/a.h", "// What it is.\n// %s.\n" % LONG)
        status, said = self.run_prose("--all")
        self.assertEqual(0, status)
        self.assertEqual(["     3  faults by pattern", '     1    begins with "Of"', '     1    begins with "What"',
                          "     1    sentence over 35 words", "     3  faults by top folder",
                          "     2    server"], said)
        self.assertIn('server/a.h:1: begins with "What": say what it is', self.run_prose("--all", "server")[1])

    def test_all_works_without_git(self):
        self.write("a.h", "// Of it.\n")
        self.assertEqual((0, ["     1  faults by pattern", '     1    begins with "Of"',
                              "     1  faults by top folder"]), self.run_prose("--all"))

    def test_an_unknown_option_is_an_error(self):
        self.assertEqual(2, self.run_prose("--other")[0])


unittest.main()
