#!/bin/sh
# --check_config starts nothing, and says what is wrong in one line.
set -u
server=server/gpu_server/warpline-server
said=$("$server" --check_config --listen=127.0.0.1:0 --device=cpu --module_cache_dir=none) || exit 1
[ "$said" = ok ] || { echo "said '$said', not ok"; exit 1; }

said=$("$server" --check_config --device=none 2>&1)
[ $? = 2 ] || { echo "a wrong device is no error"; exit 1; }
case $said in
  "warpline-server: --device=none: expected"*) ;;
  *) echo "said '$said' of a wrong device"; exit 1 ;;
esac

said=$("$server" --check_config --pageable_access=never 2>&1)
[ $? = 2 ] || { echo "a wrong policy is no error"; exit 1; }
case $said in
  *"--pageable_access=never: expected warn or refuse"*) ;;
  *) echo "said '$said' of a wrong policy"; exit 1 ;;
esac

said=$("$server" --check_config --listen=0.0.0.0:0 --tls_ca=/none --tls_cert=/none --tls_key=/none 2>&1)
[ $? = 2 ] || { echo "TLS files that are not there are no error"; exit 1; }
case $said in
  *"/none"*) ;;
  *) echo "said '$said' of TLS files"; exit 1 ;;
esac
