#!/bin/sh
# The unmodified static runtime library accepts the tables, for one device and for several.
set -eu
here=client_stub/private_tables
for devices in 1 2 8; do
  TEST_DEVICES=$devices LD_LIBRARY_PATH=$here "$here/static_runtime_program" "$devices"
done
