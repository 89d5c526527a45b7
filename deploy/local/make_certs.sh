#!/usr/bin/env bash
# A small certificate authority for trying TLS out. Needs openssl.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: make_certs.sh [--days=N] [--server_is_client] DIR SERVER [CLIENT...]

Writes to DIR what a server and its clients need for TLS (PEM; keys readable by their owner only):
  ca.crt ca.key            the authority; made once, kept by later runs
  server.crt server.key    for SERVER: the names and addresses that clients reach the server by,
                           separated by commas, such as gpuhost,gpuhost.example.org,10.0.0.7
  CLIENT.crt CLIENT.key    one for each CLIENT (default: client), shown in logs by this name
With --server_is_client the server's certificate is one for a client, too, as a server that joins a
scheduler is. Another run renews the certificates. For trying out: guard ca.key, or use your own authority.
TEXT
}

days=365
server_usage=serverAuth
while [ $# -gt 0 ]; do
  case "$1" in
    --days=*) days=${1#*=} ;;
    --server_is_client) server_usage=serverAuth,clientAuth ;;
    -h | --help) usage; exit ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -ge 2 ] || { usage >&2; exit 2; }
folder=$1
IFS=, read -ra names <<<"$2"
shift 2
[ $# -gt 0 ] || set -- client

umask 077
mkdir -p "$folder"
work=$(mktemp -d "$folder/.make_certs.XXXXXX")
trap 'rm -rf "$work"' EXIT

new_key() {
  openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1"
}

if [ ! -f "$folder/ca.key" ]; then
  new_key "$work/ca.key"
  openssl req -x509 -new -key "$work/ca.key" -subj "/CN=Warpline trial CA" -days 3650 \
    -addext keyUsage=critical,keyCertSign,cRLSign -out "$work/ca.crt"
  chmod 644 "$work/ca.crt"
  mv "$work/ca.key" "$work/ca.crt" "$folder"
fi

# issue FILE COMMON_NAME USAGE ALTERNATIVE_NAMES
issue() {
  new_key "$work/$1.key"
  openssl req -new -key "$work/$1.key" -subj "/CN=$2" -out "$work/request"
  printf '%s\n' "basicConstraints=critical,CA:FALSE" "keyUsage=critical,digitalSignature" \
    "extendedKeyUsage=$3" "subjectAltName=$4" >"$work/extensions"
  openssl x509 -req -in "$work/request" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" \
    -set_serial "0x$(openssl rand -hex 16)" -days "$days" -sha256 -extfile "$work/extensions" \
    -out "$work/$1.crt" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
  chmod 644 "$work/$1.crt"
  # Each is replaced at once; a server that looks in between goes on with the former pair.
  mv "$work/$1.key" "$folder/$1.key"
  mv "$work/$1.crt" "$folder/$1.crt"
  echo "$folder/$1.crt for $2, $days days"
}

alternatives=
for name in "${names[@]}"; do
  kind=DNS
  if [[ $name =~ ^[0-9.]+$ || $name == *:* ]]; then kind=IP; fi
  alternatives+="${alternatives:+,}$kind:$name"
done
issue server "${names[0]}" "$server_usage" "$alternatives"
for client in "$@"; do
  [[ $client =~ ^[A-Za-z0-9._@-]+$ && $client != server && $client != ca ]] || {
    echo "make_certs: \"$client\" is no name for a client" >&2
    exit 2
  }
  issue "$client" "$client" clientAuth "DNS:$client"
done
