#!/usr/bin/python3
"""Prints the alerts of deploy/kubernetes as a rule file for a Prometheus without its operator:

    deploy/monitoring/rules.py deploy/kubernetes/components/prometheus-operator/rules.yaml > warpline.rules.yml

There is one source, the PrometheusRule, whose `spec` is what Prometheus itself reads."""
import sys

import yaml


def plain(text):
    for item in yaml.safe_load_all(text):
        if item and item.get("kind") == "PrometheusRule":
            return yaml.safe_dump({"groups": item["spec"]["groups"]}, sort_keys=False, width=120)
    raise ValueError("there is no PrometheusRule")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(plain(file.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
