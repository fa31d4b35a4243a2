#!/bin/sh
# Copies the day's measurements to the archive and keeps thirty days.
set -eu

source_dir=${1:-/srv/tides}
archive=${2:-/backup/tides}

mkdir -p "$archive"
name="tides-$(date +%Y-%m-%d).tar.gz"

if [ -e "$archive/$name" ]; then
    echo "already done: $name" >&2
    exit 0
fi

tar -czf "$archive/$name.part" -C "$source_dir" .
mv "$archive/$name.part" "$archive/$name"

find "$archive" -name 'tides-*.tar.gz' -mtime +30 | while read -r old; do
    echo "removing $old"
    rm -f -- "$old"
done
