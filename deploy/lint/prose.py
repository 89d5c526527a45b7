#!/usr/bin/env python3
"""Checks the English of comments and Markdown pages (rule: plain, complete sentences).

Usage: prose.py [--base=REV] [FILES | FOLDERS]
       prose.py --all [FILES | FOLDERS]

It judges comments (C, C++, CUDA, proto: //; Python, Starlark, TOML, YAML, shell: #) and Markdown
text, and finds
  - comments and sentences that begin with Of, Who, Whoever, Whom, What, Whether, Nor, Likewise,
    The same or As;
  - the phrases "of which", "that there are", "for so long" and "no matter of";
  - sentences of more than 35 words; a code span, a quotation or a link's address is one word;
  - lines of Markdown of more than 120 characters.
Consecutive comment lines are one text; so are a paragraph and a list item of a page. Code, quoted
text, headings, tables, aligned columns and license headers are not judged.

Without --all it judges each text of which a line changed, prints a line for each fault, and exits
with 1 if there is one. Changed is what differs from the merge base of HEAD with origin/main, or
with main where there is no origin/main. On that branch itself (the merge base is HEAD) it is what
is not committed, and in a clean tree the last commit. Where history is missing, as in a shallow
clone, it is the last commit if its parent is there, and otherwise what is not committed. Without
git nothing is judged. Missing history is never an error.
  --base=REV   compares with REV instead; a REV that git does not know is an error
  --last       judges the last commit and what is not committed, whatever the branch; CI does so,
               since a branch of CI may lie far behind or be missing
  --all        judges every text, prints how many faults there are by pattern and by top folder, and
               exits with 0. With files or folders, it prints their faults first.
"""
import bisect
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys

MAX_WORDS = 35
MAX_COLUMNS = 120
NAME_THEM = "name the tenant, client, session or thing"
# Words that no text begins with, and the advice for each.
BEGINNINGS = {
    "Of": "say what it is",
    "Who": NAME_THEM,
    "Whoever": NAME_THEM,
    "Whom": NAME_THEM,
    "What": "say what it is",
    "Whether": 'begin with the subject, or with "Returns whether" or "True if"',
    "Nor": "begin with the subject, and say what it does not do",
    "Likewise": "say what it does",
    "The same": "say what it does",
    "As": "begin with the subject, and compare afterwards",
}
PHRASES = {
    "of which": "make it two sentences",
    "that there are": "leave it out, or name the things",
    "for so long": 'say "while" or "until"',
    "no matter of": "say what does not concern what",
}

C_LIKE = (".c", ".cc", ".cu", ".cuh", ".h", ".inc", ".js", ".proto")
PYTHON_LIKE = (".bzl", ".py", ".toml")
SHELL_LIKE = (".sh", ".yaml", ".yml")
STARLARK_NAMES = ("BUILD", "WORKSPACE")

# Strings are matched so that a comment's mark within one is passed over.
C_TOKEN = re.compile(
    r'R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'|/\*.*?\*/|(?P<comment>//[^\n]*)", re.DOTALL)
PYTHON_TOKEN = re.compile(
    r'""".*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'|"
    r"(?P<comment>\#[^\n]*)", re.DOTALL)
# A quote of a shell script may go on for lines, or stand in a here-document: only its line counts.
SHELL_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|" r"(?:^|(?<=\s))(?P<comment>\#[^\n]*)", re.MULTILINE)

LICENSE = re.compile(r"\bCopyright\b.*\d{4}|SPDX-License|Licensed under|\bAll rights reserved\b")
DIRECTIVE = re.compile(r"!|NOLINT|clang-format|clang-tidy|IWYU|shellcheck|pylint|type:|noqa|"
                       r"buildifier|-\*-|namespace\b")

FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,2}[.)])\s+")
HEADING = re.compile(r"#{1,6}\s")
DIVIDER = re.compile(r"\s*[-=*_#/]{3,}")
COLUMNS = re.compile(r"[^\s.!?:;,] {2,}\S")
TABLE = re.compile(r"\s*\|")
QUOTE_OR_TAG = re.compile(r"\s*(>|</?[A-Za-z!])")
HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
PAGE_CODE_INDENT = 4
COMMENT_CODE_INDENT = 2
ONE_LINK = re.compile(r"\s*(?:[-*+]\s+|\d+[.)]\s+)?(?:!?\[[^\]]*\]\([^)]*\)|\[[^\]]+\]:\s*\S+|"
                      r"<?https?://\S+)[.,;:]?\s*$")

CODE_SPAN = re.compile(r"(`+)(?:(?!\1).)+\1")
QUOTED = re.compile(r'"[^"]*"|\u201c[^\u201d]*\u201d')
URL = re.compile(r"\bhttps?://[^\s)>]*[^\s)>.,;:]")
LINK_TARGET = re.compile(r"\]\([^)\s]*\)")
SENTENCE_END = re.compile(r"[.!?][\"')\]*_]*(?=\s|$)")
ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|resp|approx|incl|etc|[A-Za-z])\.$")
FIRST_WORD = re.compile(r"[^\w`]*(The same|[A-Za-z]+)(?![\w-])", re.IGNORECASE)

Fault = collections.namedtuple("Fault", "line pattern advice")
# A text's paragraphs are lists of (line number, words on it).
Text = collections.namedtuple("Text", "first last paragraphs")


# --- From a file to its texts ---------------------------------------------------------------


def token_of(path, text):
    """The expression that finds the comments of the file; None where it has none to judge."""
    name = os.path.basename(path)
    if name.endswith(C_LIKE):
        return C_TOKEN
    if name.endswith(PYTHON_LIKE) or name in STARLARK_NAMES:
        return PYTHON_TOKEN
    if name.endswith(SHELL_LIKE):
        return SHELL_TOKEN
    if "." in name.lstrip("."):
        return None
    head = text.split("\n", 1)[0]
    if head.startswith("#!"):
        return PYTHON_TOKEN if "python" in head else SHELL_TOKEN
    return None


def comments(text, token):
    """Yields (line, column, whether code precedes it, what it says) for each comment."""
    starts = [0] + [match.end() for match in re.finditer("\n", text)]
    for match in token.finditer(text):
        said = match.group("comment")
        if said is None:
            continue
        line = bisect.bisect_right(starts, match.start())
        before = text[starts[line - 1]:match.start()]
        yield line, len(before), bool(before.strip()), said.lstrip(said[0])


def comment_blocks(text, token):
    """Yields lists of (line, what it says): comments that follow each other in one column."""
    block, place = [], None
    for line, column, after_code, said in comments(text, token):
        if block and (after_code or place != (line - 1, column)):
            yield block
            block = []
        block.append((line, said))
        place = (line, column)
    if block:
        yield block


def without_margin(block):
    """Takes away the spaces that all lines of a block begin with."""
    margins = [len(said) - len(said.lstrip()) for _, said in block if said.strip()]
    margin = min(margins, default=0)
    return [(line, said[margin:]) for line, said in block]


def comment_texts(text, token):
    for block in comment_blocks(text, token):
        if any(LICENSE.search(said) for _, said in block):
            continue
        first, last = block[0][0], block[-1][0]
        block = [(line, said) for line, said in block if not DIRECTIVE.match(said.strip())]
        yield Text(first, last, list(paragraphs(without_margin(block))))


def page_texts(text):
    text = HTML_COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    for paragraph in paragraphs(list(enumerate(text.split("\n"), 1)), is_page=True):
        yield Text(paragraph[0][0], paragraph[-1][0], [paragraph])


def is_no_prose(said, is_page):
    return (TABLE.match(said) or QUOTE_OR_TAG.match(said) or DIVIDER.match(said) or
            COLUMNS.search(said.strip()) or (is_page and HEADING.match(said)))


def paragraphs(lines, is_page=False):
    """Yields the paragraphs and list items of the lines, without code, tables and quotations.

    A comment's lines that are indented beyond its others, but in no list, are laid out like code.
    On a page that takes four spaces, and the beginning of a paragraph.
    """
    paragraph, fenced, in_list = [], False, False
    for line, said in lines:
        ends = starts = False
        indent = len(said) - len(said.lstrip())
        if FENCE.match(said):
            fenced = not fenced
            ends = True
        elif fenced or not said.strip() or is_no_prose(said, is_page):
            ends = True
        elif ITEM.match(said):
            in_list = starts = True
        elif not is_page:
            starts = in_list and indent == 0
            in_list = in_list and indent > 0
            ends = indent >= COMMENT_CODE_INDENT and not in_list
        elif not paragraph:
            in_list = in_list and indent > 0
            ends = indent >= PAGE_CODE_INDENT and not in_list
        if (ends or starts) and paragraph:
            yield paragraph
            paragraph = []
        if not ends:
            paragraph.append((line, ITEM.sub("", said, count=1) if starts else said.strip()))
    if paragraph:
        yield paragraph


def texts(path, text):
    if path.endswith(".md"):
        return page_texts(text)
    token = token_of(path, text)
    return comment_texts(text, token) if token else ()


# --- From a text to its faults --------------------------------------------------------------


def blank(match):
    """One word of the same length, which nothing is said of."""
    return "`" + "x" * (len(match.group()) - 2) + "`"


def blank_quotation(match):
    """A quotation's full stop ends the sentence that it stands in."""
    said = match.group()
    stop = said[-2] if len(said) > 2 and said[-2] in ".!?" else "x"
    return '"' + "x" * (len(said) - 3) + stop + '"' if len(said) > 2 else said


def masked(said):
    """The words with code, quotations and addresses made illegible, each in its place."""
    said = CODE_SPAN.sub(blank, said)
    said = LINK_TARGET.sub(lambda match: " " * len(match.group()), said)
    said = URL.sub(blank, said)
    return QUOTED.sub(blank_quotation, said)


def ends_sentence(said, match):
    if not ABBREVIATION.search(said[:match.start() + 1]):
        return True
    # "etc." may end a sentence; the others go on.
    rest = said[match.end():].lstrip()
    return said[:match.start()].endswith("etc") and not rest[:1].islower()


def sentences(said):
    """Yields (offset, sentence) of the masked words of a paragraph."""
    begin = 0
    for match in SENTENCE_END.finditer(said):
        if ends_sentence(said, match):
            yield begin, said[begin:match.end()]
            begin = match.end()
    if said[begin:].strip():
        yield begin, said[begin:]


def count_words(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def beginning_of(sentence, any_case):
    """The forbidden beginning of the sentence, if it has one."""
    match = FIRST_WORD.match(sentence)
    if not match:
        return None
    word = match.group(1)
    if any_case:
        word = word[:1].upper() + word[1:]
    return word if word in BEGINNINGS else None


def paragraph_faults(paragraph, any_case):
    """Faults of one paragraph; a small first letter counts as a capital where any_case says so."""
    said = " ".join(words for _, words in paragraph)
    starts, at = [], 0
    for _, words in paragraph:
        starts.append(at)
        at += len(words) + 1

    def line_at(offset):
        return paragraph[bisect.bisect_right(starts, offset) - 1][0]

    said = masked(said)
    for offset, sentence in sentences(said):
        line = line_at(offset + len(sentence) - len(sentence.lstrip()))
        word = beginning_of(sentence, any_case and offset == 0)
        if word:
            yield Fault(line, 'begins with "%s"' % word, BEGINNINGS[word])
        count = count_words(sentence)
        if count > MAX_WORDS:
            yield Fault(line, "sentence over %d words" % MAX_WORDS, "it has %d" % count)
    for phrase, advice in PHRASES.items():
        for match in re.finditer(r"\b%s\b" % phrase.replace(" ", r"\s+"), said, re.IGNORECASE):
            yield Fault(line_at(match.start()), 'has "%s"' % phrase, advice)


def text_faults(text, is_comment):
    for index, paragraph in enumerate(text.paragraphs):
        yield from paragraph_faults(paragraph, any_case=is_comment and index == 0)


def long_lines(text):
    """Faults of a page's lines that are too long, outside code, tables and single links."""
    fenced = False
    for line, said in enumerate(text.split("\n"), 1):
        if FENCE.match(said):
            fenced = not fenced
        is_code = fenced or (said.startswith(" " * PAGE_CODE_INDENT) and not ITEM.match(said) and
                             len(said.split()) < 2)
        if len(said) > MAX_COLUMNS and not (is_code or TABLE.match(said) or ONE_LINK.match(said)):
            yield Fault(line, "line over %d characters" % MAX_COLUMNS, "it has %d" % len(said))


def faults(path, text, changed=None):
    """Faults of the file in the order of its lines: those of texts with a line in `changed` (a set)."""
    found, is_page = [], path.endswith(".md")
    for part in texts(path, text):
        if changed is None or not changed.isdisjoint(range(part.first, part.last + 1)):
            found += text_faults(part, not is_page)
    if is_page:
        found += (fault for fault in long_lines(text) if changed is None or fault.line in changed)
    return sorted(found)


# --- What changed ---------------------------------------------------------------------------


def git(*arguments):
    """The output of git; None if it fails or there is none."""
    try:
        done = subprocess.run(["git", "-c", "safe.directory=*", "-c", "core.quotepath=false", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def commit_of(name):
    return (git("rev-parse", "--verify", "--quiet", name + "^{commit}") or "").strip() or None


def base_commit():
    """What to compare with, as the top of this file says; None where HEAD has no commit."""
    head = commit_of("HEAD")
    for branch in ("origin/main", "main"):
        base = (git("merge-base", "HEAD", branch) or "").strip()
        if base:
            return base if base != head or git("status", "--porcelain") else commit_of("HEAD~") or head
    return commit_of("HEAD~") or head


def changed_in_diff(diff):
    """{path: set of its new lines} of a diff without context."""
    changed, path, skip = collections.defaultdict(set), None, 0
    for line in diff.split("\n"):
        if skip:
            # A line of a hunk may look like a header of the diff.
            skip -= not line.startswith("\\")
            continue
        if line.startswith("+++ "):
            path = line[len("+++ b/"):].rstrip("\t")
        match = re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
        if match:
            removed, first, added = (int(number or 1) for number in match.groups())
            skip = removed + added
            changed[path].update(range(first, first + added))
    return changed


def untracked_files():
    return (git("ls-files", "--others", "--exclude-standard") or "").split("\n")[:-1]


def changed_lines(base):
    """{path: its changed lines, None for all of them}."""
    diff = git("diff", "--no-color", "--no-ext-diff", "--unified=0", "--find-renames", "-l5000", "--diff-filter=d",
               "--src-prefix=a/", "--dst-prefix=b/", base, "--")
    if diff is None:
        return {}
    return {**changed_in_diff(diff), **dict.fromkeys(untracked_files())}


# --- The command ----------------------------------------------------------------------------


def all_files():
    listed = git("ls-files", "--cached", "--others", "--exclude-standard")
    if listed is not None:
        return sorted(set(listed.split("\n")[:-1]))
    return sorted(str(path) for path in pathlib.Path(".").rglob("*") if not path.parts[0].startswith("bazel-"))


def is_within(path, places):
    return not places or any(path == place or path.startswith(place + "/") for place in places)


def read(path):
    """The text of a file; empty for what is no regular file."""
    if os.path.islink(path) or not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def print_faults(path, found):
    for fault in found:
        print("%s:%d: %s: %s" % (path, fault.line, fault.pattern, fault.advice))


def print_counts(title, counts):
    print("%6d  %s" % (sum(counts.values()), title))
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print("%6d    %s" % (count, name))


def judge_all(places):
    by_pattern, by_folder = collections.Counter(), collections.Counter()
    for path in all_files():
        if not is_within(path, places):
            continue
        found = faults(path, read(path))
        if places:
            print_faults(path, found)
        by_pattern.update(fault.pattern for fault in found)
        by_folder.update((path.split("/")[0] if "/" in path else ".") for fault in found)
    print_counts("faults by pattern", by_pattern)
    print_counts("faults by top folder", by_folder)
    return 0


def judge_changes(base, places):
    if base is not None and commit_of(base) is None:
        print("prose: git knows no commit '%s'" % base, file=sys.stderr)
        return 2
    base = base or base_commit()
    if base is None:
        print("prose: no git history to compare with; nothing is judged")
        return 0
    count = 0
    for path, lines in sorted(changed_lines(base).items()):
        if is_within(path, places):
            found = faults(path, read(path), lines)
            print_faults(path, found)
            count += len(found)
    print("prose: %d %s in what differs from %s" % (count, "fault" if count == 1 else "faults", base[:12]))
    return 1 if count else 0


def main(arguments):
    base, judges_all, places = None, False, []
    for argument in arguments:
        if argument in ("-h", "--help"):
            print(__doc__)
            return 0
        if argument == "--all":
            judges_all = True
        elif argument == "--last":
            base = commit_of("HEAD~") or commit_of("HEAD")
        elif argument.startswith("--base="):
            base = argument.split("=", 1)[1]
        elif argument.startswith("-"):
            print("prose: unknown option '%s'" % argument, file=sys.stderr)
            return 2
        else:
            places.append(os.path.normpath(argument))
    return judge_all(places) if judges_all else judge_changes(base, places)


if __name__ == "__main__":
    # `prose.py --all | head` ends without a traceback.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
