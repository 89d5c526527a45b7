#!/usr/bin/env python3
"""Lets servers and tenants into a pool on Kubernetes: asks the scheduler for their credentials and puts
these into Secrets. It acts with kubectl's own rights, which are those of whoever runs it; no credential
stands in an argument or is printed.

  enroll.py servers             one credential for each node that the DaemonSet selects and that has none
  enroll.py tenant NAMESPACE [LIMITS]
                                the namespace becomes a tenant, its pods may be injected; LIMITS are
                                those of `warpline tenant add`, such as --memory=64GiB
                                With --service_accounts the pods' ServiceAccounts are its credentials,
                                and no Secret holds one (the component service-account-tenants)
  enroll.py keys                the schedulers take the public keys by which the cluster signs
                                ServiceAccount tokens; again before it changes these
  enroll.py certificates [NAMESPACE...]
                                copies the certificates of tenants, all without a name, to their
                                namespaces again, after cert-manager has renewed them

A tenant's certificate comes from cert-manager (the component cert-manager), or from --tls_ca, --tls_cert
and --tls_key.
"""
import argparse
import base64
import json
import pathlib
import re
import subprocess
import sys

SERVERS = "warpline-server-credentials"
TENANT = "warpline-tenant"
CLIENT_TLS = "warpline-client-tls"
CLUSTER_KEYS = "warpline-cluster-keys"
WARPLINE = "/usr/lib/warpline/bin/warpline"
TLS_FILES = ("ca.crt", "tls.crt", "tls.key")


class Error(Exception):
    """What went wrong, for whoever called."""


class Cluster:
    def __init__(self, kubectl, namespace):
        self.kubectl = kubectl
        self.namespace = namespace

    def run(self, *arguments, given=None, namespace=None, may_fail=False):
        command = [self.kubectl, "--namespace=" + (namespace or self.namespace), *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            if may_fail:
                return None
            raise Error("%s: %s" % (" ".join(command[:4]), done.stderr.strip()))
        return done.stdout

    def get(self, kind, name, namespace=None):
        """The object, or None."""
        text = self.run("get", kind, name, "--output=json", "--ignore-not-found", namespace=namespace)
        return json.loads(text) if text.strip() else None

    def put_secret(self, name, values, namespace=None):
        """Makes the Secret or adds to it; other keys stay."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        if self.get("secret", name, namespace) is None:
            self.run("create", "--filename=-", namespace=namespace, given=json.dumps({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque",
                "data": data}))
        else:
            self.run("patch", "secret", name, "--type=merge", "--patch-file=/dev/stdin",
                     namespace=namespace, given=json.dumps({"data": data}))

    def put_config_map(self, name, data):
        """Makes the ConfigMap or changes it; returns whether it was another one."""
        found = self.get("configmap", name)
        if found is not None and found.get("data") == data:
            return False
        if found is None:
            self.run("create", "--filename=-", given=json.dumps({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}))
        else:
            self.run("patch", "configmap", name, "--type=merge", "--patch-file=/dev/stdin",
                     given=json.dumps({"data": data}))
        return True

    def secret(self, name, namespace=None):
        """Its values, or None."""
        found = self.get("secret", name, namespace)
        if found is None:
            return None
        return {key: base64.b64decode(value).decode() for key, value in found.get("data", {}).items()}

    def warpline(self, *arguments):
        """What the command line says in the first scheduler's pod."""
        return self.run("exec", "warpline-scheduler-0", "--container=scheduler", "--", WARPLINE, *arguments)


def credential_of(text):
    word = text.strip()
    if not word or len(word.split()) != 1:
        raise Error("the scheduler gave no credential")
    return word


def nodes_of(cluster):
    daemon_set = cluster.get("daemonset", "warpline-server")
    if daemon_set is None:
        raise Error("there is no DaemonSet warpline-server in namespace %s" % cluster.namespace)
    selector = daemon_set["spec"]["template"]["spec"].get("nodeSelector", {})
    labels = ",".join("%s=%s" % pair for pair in sorted(selector.items()))
    found = json.loads(cluster.run("get", "nodes", "--selector=" + labels, "--output=json"))
    return sorted(node["metadata"]["name"] for node in found["items"])


def known_servers(cluster):
    listed = json.loads(cluster.warpline("servers", "list", "--json"))
    return {server["name"] for server in listed.get("servers", [])}


def enroll_servers(cluster):
    have = cluster.secret(SERVERS) or {}
    missing = [node for node in nodes_of(cluster) if node not in have]
    known = known_servers(cluster) if missing else set()
    for node in missing:
        # One that the scheduler knows has lost its Secret: its old credential is of no use from now on.
        verb = "renew" if node in known else "add"
        cluster.put_secret(SERVERS, {node: credential_of(cluster.warpline("servers", verb, node))})
        # A pod that started without it found an empty place there, which stays with the pod.
        cluster.run("delete", "pod", "--selector=app.kubernetes.io/name=warpline-server",
                    "--field-selector=spec.nodeName=" + node, "--wait=false")
        print("server %s: enrolled" % node)
    if not missing:
        print("all servers are enrolled")


def tenants_of(cluster):
    """Name -> namespaces whose ServiceAccounts are its credentials."""
    return {tenant["name"]: tenant.get("namespaces", []) for tenant in
            json.loads(cluster.warpline("tenant", "list", "--json")).get("tenants", [])}


def enroll_keys(cluster):
    keys = json.loads(cluster.run("get", "--raw=/openid/v1/jwks"))
    if not keys.get("keys"):
        raise Error("the API server serves no keys at /openid/v1/jwks")
    issuer = json.loads(cluster.run("get", "--raw=/.well-known/openid-configuration")).get("issuer")
    changed = cluster.put_config_map(CLUSTER_KEYS, {"jwks.json": json.dumps(keys)})
    print("keys: %d, %s; the schedulers' --cluster_issuer must be %s" % (
        len(keys["keys"]), "changed" if changed else "as they were", issuer))


def certificate_from_cert_manager(cluster, tenant):
    name = "warpline-tenant-" + tenant
    if cluster.get("certificates.cert-manager.io", name) is None:
        cluster.run("create", "--filename=-", given=json.dumps({
            "apiVersion": "cert-manager.io/v1", "kind": "Certificate",
            "metadata": {"name": name, "labels": {"warpline.dev/tenant": tenant}},
            "spec": {"secretName": name, "commonName": tenant, "dnsNames": [tenant],
                     "usages": ["digital signature", "client auth"], "duration": "2160h",
                     "renewBefore": "720h", "privateKey": {"algorithm": "ECDSA", "size": 256,
                                                           "rotationPolicy": "Always"},
                     "issuerRef": {"name": "warpline-ca", "kind": "Issuer"}}}))
    cluster.run("wait", "--for=condition=Ready", "--timeout=120s", "certificates.cert-manager.io/" + name)
    found = cluster.secret(name) or {}
    if any(not found.get(key) for key in TLS_FILES):
        raise Error("the Secret %s has no certificate" % name)
    return {key: found[key] for key in TLS_FILES}


def certificate_from_files(args):
    paths = (args.tls_ca, args.tls_cert, args.tls_key)
    if not any(paths):
        return None
    if not all(paths):
        raise Error("--tls_ca, --tls_cert and --tls_key go together")
    return {key: pathlib.Path(path).read_text(encoding="ascii") for key, path in zip(TLS_FILES, paths)}


def enroll_tenant(cluster, args, limits):
    tenant = args.namespaces[0]
    if cluster.get("namespace", tenant) is None:
        raise Error("there is no namespace %s" % tenant)
    tls = certificate_from_files(args) or certificate_from_cert_manager(cluster, tenant)
    known = tenants_of(cluster)
    exists = tenant in known
    if args.service_accounts:
        namespaces = sorted({tenant, *known.get(tenant, [])})
        # The credential that a new tenant gets is shown to nobody.
        cluster.warpline("tenant", "set" if exists else "add", tenant,
                         "--namespaces=" + ",".join(namespaces), *limits)
    elif not exists:
        said = cluster.warpline("tenant", "add", tenant, *limits)
        cluster.put_secret(TENANT, {"credential": credential_of(said)}, tenant)
    elif not (cluster.secret(TENANT, tenant) or {}).get("credential"):
        said = cluster.warpline("tenant", "set", tenant, "--new_credential", *limits)
        cluster.put_secret(TENANT, {"credential": credential_of(said)}, tenant)
    elif limits:
        cluster.warpline("tenant", "set", tenant, *limits)
    cluster.put_secret(CLIENT_TLS, tls, tenant)
    cluster.run("label", "--overwrite", "namespace", tenant, "warpline.dev/client=true")
    print("tenant %s: %s" % (tenant, "brought up to date" if exists else "enrolled"))


def copy_certificates(cluster, tenants):
    if not tenants:
        listed = json.loads(cluster.run("get", "certificates.cert-manager.io", "--output=json",
                                        "--selector=warpline.dev/tenant"))
        tenants = sorted(item["metadata"]["labels"]["warpline.dev/tenant"] for item in listed["items"])
    for tenant in tenants:
        fresh = certificate_from_cert_manager(cluster, tenant)
        if cluster.secret(CLIENT_TLS, tenant) == fresh:
            continue
        cluster.put_secret(CLIENT_TLS, fresh, tenant)
        print("tenant %s: the certificate was renewed" % tenant)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("servers", "tenant", "keys", "certificates"))
    parser.add_argument("namespaces", nargs="*", metavar="NAMESPACE")
    parser.add_argument("--kubectl", default="kubectl", help="the program (default kubectl)")
    parser.add_argument("--namespace", default="warpline", help="of the pool (default warpline)")
    for name in ("ca", "cert", "key"):
        parser.add_argument("--tls_" + name, metavar="FILE", help="of the tenant, without cert-manager")
    parser.add_argument("--service_accounts", action="store_true",
                        help="of the tenant: its pods show their ServiceAccounts' tokens")
    args, limits = parser.parse_known_args()
    wrong = [limit for limit in limits if not re.fullmatch(r"--[a-z_]+=[A-Za-z0-9_,.]+", limit)]
    if wrong or (limits and args.verb != "tenant"):
        parser.error("unknown option %s" % (wrong or limits)[0])
    if len(args.namespaces) != 1 and args.verb == "tenant":
        parser.error("name one namespace")
    if args.namespaces and args.verb in ("servers", "keys"):
        parser.error("%s takes no names" % args.verb)
    if args.service_accounts and args.verb != "tenant":
        parser.error("--service_accounts is for a tenant")
    if any(not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in args.namespaces):
        parser.error("no name of a namespace: %s" % " ".join(args.namespaces))
    cluster = Cluster(args.kubectl, args.namespace)
    try:
        if args.verb == "servers":
            enroll_servers(cluster)
        elif args.verb == "keys":
            enroll_keys(cluster)
        elif args.verb == "tenant":
            enroll_tenant(cluster, args, limits)
        else:
            copy_certificates(cluster, args.namespaces)
        return 0
    except (Error, OSError, ValueError) as error:
        print("enroll: %s" % error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
