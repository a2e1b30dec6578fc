#!/bin/sh
# The HTTP API with curl: one run, then a sandbox whose variables stay. Needs SILICA_URL and SILICA_KEY.
set -eu
post() { curl --silent --show-error --fail "$SILICA_URL$1" -H "X-API-Key: $SILICA_KEY" -d "$2"; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

echo "one run: $(post /v1/run '{"code": "print(6 * 7)"}' | field stdout)"

id=$(post /v1/sandboxes '{}' | field id)
post "/v1/sandboxes/$id/cells" '{"code": "x = 20"}' >/dev/null
echo "second cell: $(post "/v1/sandboxes/$id/cells" '{"code": "print(x + 1)"}' | field stdout)"
curl --silent --show-error --fail -X DELETE "$SILICA_URL/v1/sandboxes/$id" -H "X-API-Key: $SILICA_KEY"
echo "deleted"
