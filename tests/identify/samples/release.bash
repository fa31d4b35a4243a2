#!/usr/bin/env bash
set -o errexit -o pipefail
declare -A versions=([web]=2.1 [database]=15)
for name in "${!versions[@]}"; do
  printf '%-10s %s\n' "$name" "${versions[$name]}"
  if [[ ${versions[$name]} == 2.* ]]; then
    docker build -t "tides/$name:${versions[$name]}" "./$name" || exit 1
  fi
done
