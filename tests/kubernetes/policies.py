"""Does with a pod what the API server does with admission policies: evaluates their CEL with Google's
implementation, applies what mutations say, and asks validations.

What is ours here and not the API server's: `Object...{field: value}` and `JSONPatch{...}` become maps
before they are evaluated, since their types exist in the API server alone (the names of nested ones
are checked against the fields that they stand in, as it does); and the merge of an apply
configuration, by the keys that the Pod's schema has.
"""
import copy
import functools
import re
import sys

import jsonpatch
import manifests
import pods

sys.path.insert(0, str(manifests.TOOLS))

from cel_expr_python import cel  # noqa: E402  (found by the path above)
from cel_expr_python.ext import ext_strings  # noqa: E402

_TOKEN = re.compile(r"""\s+|"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\d+|&&|\|\||[=!<>]=|.""", re.S)


class PolicyError(Exception):
    """What the API server would refuse of a policy."""


def as_maps(expression):
    """The expression with messages as maps. Raises PolicyError where a message has the wrong type."""
    tokens = [token for token in _TOKEN.findall(expression) if not token.isspace()]
    out, frames, i = [], [], 0
    while i < len(tokens):
        token = tokens[i]
        if token in ("Object", "JSONPatch") and (not out or out[-1] != "."):
            end = i + 1
            while end + 1 < len(tokens) and tokens[end] == ".":
                end += 2
            name = "".join(tokens[i:end])
            if end >= len(tokens) or tokens[end] != "{":
                raise PolicyError("%s is no message" % name)
            around = next((frame for frame in reversed(frames) if frame["type"]), None)
            if around and around["type"].startswith("Object"):
                expected = "%s.%s" % (around["type"], around["field"])
                if name != expected:
                    raise PolicyError("unexpected type name %s, expected %s" % (name, expected))
            frames.append({"open": "{", "type": name, "field": None})
            out.append("{")
            i = end + 1
            continue
        if token in "{[(":
            frames.append({"open": token, "type": None, "field": None})
        elif token in "}])":
            frames.pop()
        elif frames and frames[-1]["type"] and out[-1] in ("{", ",") and tokens[i + 1] == ":":
            frames[-1]["field"] = token
            token = '"%s"' % token
        out.append(token)
        i += 1
    return " ".join(out)


@functools.lru_cache(maxsize=None)
def _environment():
    names = ("object", "oldObject", "params", "variables", "request")
    return cel.NewEnv(variables={name: cel.Type.DYN for name in names},
                      extensions=[ext_strings.ExtStrings()])


@functools.lru_cache(maxsize=None)
def _compiled(expression):
    try:
        return _environment().compile(as_maps(expression))
    except RuntimeError as error:
        raise PolicyError("%s in: %s" % (error, expression)) from error


def evaluate(expression, data):
    value = _compiled(expression).eval(data=data)
    if value.type() == cel.Type.ERROR:
        raise PolicyError("%s in: %s" % (value, expression))
    return value.plain_value()


def _variables(policy, pod, params):
    """As far as they can be computed: the API server computes those that are asked for."""
    data = {"object": pod, "params": params, "variables": {}}
    for variable in policy["spec"].get("variables", []):
        try:
            data["variables"][variable["name"]] = evaluate(variable["expression"], data)
        except PolicyError:
            _compiled(variable["expression"])  # It must compile all the same.
    return data


def merge(live, applied):
    """A copy of `live` with what an apply configuration says of it."""
    live = copy.deepcopy(live)
    for field, value in applied.items():
        if field in pods.KEYED_LISTS:
            live[field] = _merge_list(live.get(field) or [], value, pods.KEYED_LISTS[field])
        elif isinstance(value, dict):
            live[field] = merge(live.get(field) or {}, value)
        elif isinstance(value, list):
            raise PolicyError("may not mutate atomic arrays, maps or structs: %s" % field)
        else:
            live[field] = value
    return live


def _merge_list(live, applied, key):
    merged = [copy.deepcopy(item) for item in live]
    for item in applied:
        at = next((i for i, one in enumerate(merged) if one.get(key) == item[key]), None)
        if at is None:
            merged.append(merge({}, item))
        else:
            merged[at] = merge(merged[at], item)
    return merged


def concerns(policy, pod):
    """Whether the policy's selector of objects takes the pod."""
    selector = policy["spec"]["matchConstraints"]["objectSelector"]
    return manifests.matches(selector, pod.get("metadata", {}).get("labels") or {})


def mutate(policy, pod, params):
    for mutation in policy["spec"]["mutations"]:
        data = _variables(policy, pod, params)
        if mutation["patchType"] == "ApplyConfiguration":
            pod = merge(pod, evaluate(mutation["applyConfiguration"]["expression"], data))
        else:
            operations = evaluate(mutation["jsonPatch"]["expression"], data)
            pod = jsonpatch.apply_patch(copy.deepcopy(pod), operations)
    return pod


def refusals(policy, pod, params):
    """The messages of all validations that fail."""
    data = _variables(policy, pod, params)
    found = []
    for validation in policy["spec"]["validations"]:
        if evaluate(validation["expression"], data) is not True:
            found.append(validation.get("message") or evaluate(validation["messageExpression"], data))
    return found


def compile_all(policy):
    """Raises PolicyError for an expression that is no CEL."""
    spec = policy["spec"]
    for part in spec.get("variables", []) + spec.get("validations", []):
        _compiled(part["expression"])
        if "messageExpression" in part:
            _compiled(part["messageExpression"])
    for mutation in spec.get("mutations", []):
        _compiled(mutation.get("applyConfiguration", mutation.get("jsonPatch"))["expression"])
