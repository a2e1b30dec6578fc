#!/bin/sh
# Remakes requirements.lock of every template here from its requirements.in.
#
# Nothing of the machine it runs on may reach a lock: pip's and uv's own settings are dropped, and
# no index address is written. Releases younger than two weeks are not considered, so that one
# which is withdrawn or found to be hostile in its first days is not picked up.
set -eu
cd "$(dirname "$0")"

unset PIP_FIND_LINKS UV_FIND_LINKS PIP_EXTRA_INDEX_URL UV_EXTRA_INDEX_URL
before=$(date -u -d '14 days ago' +%Y-%m-%dT00:00:00Z)
for source in */requirements.in; do
    (
        cd "$(dirname "$source")"
        rm -f requirements.lock
        "${UV:-uv}" pip compile --quiet --universal --python-version 3.10 \
            --generate-hashes --no-emit-index-url --no-annotate \
            --exclude-newer "$before" \
            --custom-compile-command templates/lock.sh \
            --output-file requirements.lock requirements.in
    )
done
