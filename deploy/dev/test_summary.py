"""Ends a test run: says what failed, then `N passed, N failed, N skipped` in test targets.

Usage: test_summary.py EVENTS BAZEL_STATUS. EVENTS is the file of --build_event_json_file. Exits
with 1 if a test failed or Bazel did, 0 otherwise.
"""
import json
import sys
import urllib.parse
import xml.etree.ElementTree

NO_TESTS_FOUND = 4
TESTS_FAILED = 3


def events_of(path):
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                return  # A build that was killed leaves half a line.


def all_cases_skipped(result):
    """Whether the test's XML report holds cases and all of them were skipped."""
    for output in result.get("testActionOutput", []):
        uri = output.get("uri", "")
        if output.get("name") != "test.xml" or not uri.startswith("file://"):
            continue
        try:
            report = xml.etree.ElementTree.parse(urllib.parse.unquote(uri[len("file://"):]))
        except (OSError, xml.etree.ElementTree.ParseError):
            return False
        cases = list(report.iter("testcase"))
        return bool(cases) and all(case.find("skipped") is not None for case in cases)
    return False


def main():
    path, bazel_status = sys.argv[1], int(sys.argv[2])
    tests, verdicts, skipped, broken = set(), {}, set(), set()
    for event in events_of(path):
        name = event.get("id", {})
        if "targetConfigured" in name:
            kind = event.get("configured", {}).get("targetKind", "")
            if kind.endswith("_test rule"):
                tests.add(name["targetConfigured"]["label"])
        elif "testSummary" in name:
            summary = event.get("testSummary", {})
            verdicts[name["testSummary"]["label"]] = summary.get("overallStatus", "NO_STATUS")
        elif "testResult" in name and all_cases_skipped(event.get("testResult", {})):
            skipped.add(name["testResult"]["label"])
        elif "targetCompleted" in name and not event.get("completed", {}).get("success"):
            broken.add(name["targetCompleted"]["label"])

    passed = {t for t, verdict in verdicts.items() if verdict in ("PASSED", "FLAKY")}
    skipped &= passed
    # Where all was built, a test without a verdict was left out by its tags.
    left_out = tests - set(verdicts) - broken if bazel_status in (0, TESTS_FAILED) else set()
    failed = (tests | set(verdicts)) - passed - left_out
    for label in sorted(broken - failed - passed):
        print("could not be built: " + label)
    for label in sorted(failed):
        verdict = verdicts.get(label, "NO_STATUS")
        built = verdict not in ("NO_STATUS", "FAILED_TO_BUILD") and label not in broken
        how = "failed" if verdict == "FAILED" else "failed (%s)" % verdict.lower()
        print("%s: %s" % (how if built else "not run", label))
    failures = len(failed)
    if bazel_status not in (0, NO_TESTS_FOUND) and not failed:
        print("Bazel failed with status %d, which counts as one failure" % bazel_status)
        failures = 1
    print("%d passed, %d failed, %d skipped"
          % (len(passed - skipped), failures, len(skipped | left_out)))
    return 1 if failures else 0


sys.exit(main())
