#!/usr/bin/python3
"""A kubectl for the test of enroll.py: keeps objects in a JSON file ($FAKE_CLUSTER), and runs what is to
be executed in the scheduler's pod on this machine ($FAKE_EXEC is the program in place of the pod's)."""
import json
import os
import pathlib
import subprocess
import sys


def main():
    state = pathlib.Path(os.environ["FAKE_CLUSTER"])
    cluster = json.loads(state.read_text())
    namespace, words, options = None, [], {}
    arguments = sys.argv[1:]
    rest = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, rest = arguments[:at], arguments[at + 1:]
    for argument in arguments:
        if argument.startswith("--"):
            name, _, value = argument.partition("=")
            options[name] = value
        else:
            words.append(argument)
    namespace = options["--namespace"]
    cluster["calls"].append(words)

    def key(kind, name):
        scope = "" if kind in ("namespace", "node") else namespace + "/"
        return "%s:%s%s" % (kind.split(".")[0].rstrip("s"), scope, name)

    verb = words[0]
    if verb == "exec":
        assert words[1] == "warpline-scheduler-0" and rest[0] == "/usr/lib/warpline/bin/warpline"
        return subprocess.run([os.environ["FAKE_EXEC"], *rest[1:]], check=False).returncode
    if verb == "get" and "--raw" in options:
        print(json.dumps(cluster["raw"][options["--raw"]]))
        return 0
    if verb == "get" and words[1] == "nodes":
        print(json.dumps({"items": [value for name, value in cluster["objects"].items()
                                    if name.startswith("node:")]}))
    elif verb == "get" and len(words) == 2:
        kind = words[1].split(".")[0].rstrip("s")
        print(json.dumps({"items": [value for name, value in cluster["objects"].items()
                                    if name.startswith("%s:%s/" % (kind, namespace))]}))
    elif verb == "get":
        found = cluster["objects"].get(key(words[1], words[2]))
        if found is not None:
            print(json.dumps(found))
    elif verb == "create":
        item = json.load(sys.stdin)
        name = key(item["kind"].lower(), item["metadata"]["name"])
        if name in cluster["objects"]:
            print("AlreadyExists", file=sys.stderr)
            return 1
        cluster["objects"][name] = item
        if item["kind"] == "Certificate":  # What cert-manager does.
            files = {part: cluster["certificate"] for part in ("ca.crt", "tls.crt", "tls.key")}
            cluster["objects"][key("secret", item["spec"]["secretName"])] = {
                "kind": "Secret", "metadata": {"name": item["spec"]["secretName"]}, "data": files}
    elif verb == "patch":
        cluster["objects"][key(words[1], words[2])].setdefault("data", {}).update(
            json.load(sys.stdin)["data"])
    elif verb == "label":
        name, _, value = words[3].partition("=")
        cluster["objects"][key(words[1], words[2])]["metadata"].setdefault("labels", {})[name] = value
    elif verb not in ("delete", "wait"):
        print("unknown verb %s" % verb, file=sys.stderr)
        return 1
    state.write_text(json.dumps(cluster))
    return 0


if __name__ == "__main__":
    sys.exit(main())
