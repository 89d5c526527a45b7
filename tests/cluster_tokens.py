"""What a Kubernetes cluster's API server does with ServiceAccount tokens, for tests: keys of its own, the
JWKS that it serves, and tokens that it signs. Needs openssl(1)."""
import base64
import json
import pathlib
import subprocess
import time

ISSUER = "https://kubernetes.default.svc.cluster.local"


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _openssl(*arguments, given=None):
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True).stdout


class ClusterKey:
    """An RSA key; `folder` keeps it."""

    def __init__(self, folder, name):
        self.name = name
        self.path = str(pathlib.Path(folder) / (name + ".pem"))
        _openssl("genrsa", "-out", self.path, "2048")

    def jwk(self):
        modulus = _openssl("rsa", "-in", self.path, "-noout", "-modulus").decode().strip().partition("=")[2]
        return {"use": "sig", "kty": "RSA", "kid": self.name, "alg": "RS256",
                "n": encode(bytes.fromhex(modulus)), "e": "AQAB"}

    def token(self, namespace, audience="warpline", seconds=600, **claims):
        now = int(time.time())
        said = {"aud": [audience], "exp": now + seconds, "iat": min(now, now + seconds - 1), "nbf": 0,
                "iss": ISSUER, "jti": "1", "sub": "system:serviceaccount:%s:default" % namespace,
                "kubernetes.io": {"namespace": namespace, "node": {"name": "node-a", "uid": "2"},
                                  "pod": {"name": "pod-0", "uid": "3"},
                                  "serviceaccount": {"name": "default", "uid": "4"}}}
        said.update(claims)
        text = "%s.%s" % tuple(encode(json.dumps(part).encode()) for part in (
            {"alg": "RS256", "kid": self.name}, said))
        return "%s.%s" % (text, encode(_openssl("dgst", "-sha256", "-sign", self.path, given=text.encode())))


def jwks(*keys):
    return {"keys": [key.jwk() for key in keys]}


def put(path, text):
    """As a kubelet does: the next file takes the place of the one before."""
    path = pathlib.Path(path)
    following = path.with_name(path.name + ".next")
    following.write_text(text)
    following.rename(path)
