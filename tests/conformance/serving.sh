# What the suites of real clients share: environments below the target directory, and one server.
# Sourced by their `run`; `prepare` comes first. Not a program.

say() { printf '\n== %s\n' "$*" >&2; }

prepare() { # name of the suite's directory below the target directory
    cd "$(dirname "${BASH_SOURCE[0]}")/../.."
    target="${CARGO_TARGET_DIR:-target}"
    mkdir -p "$target"
    target="$(cd "$target" && pwd)"
    binary="${SILICA_BINARY:-$target/debug/silica}"
    templates="${SILICA_TEMPLATES_HOME:-$target/silica-test-home-ci}"
    place="$target/$1"
    export SILICA_BINARY="$binary"
}

python_environment() { # name, packages, pattern of the packages to name
    local at="$place/$1"
    if [ "$(cat "$at/packages" 2>/dev/null)" != "$2" ]; then
        rm -rf "$at"
        "${SILICA_PYTHON:-python3}" -m venv "$at"
        # shellcheck disable=SC2086 # One word for each package.
        "$at/bin/python" -m pip install -q --disable-pip-version-check $2 >&2
        printf '%s' "$2" >"$at/packages"
    fi
    "$at/bin/python" -m pip list --disable-pip-version-check 2>/dev/null | grep -E "$3" >&2
}

js_environment() { # name, packages
    local at="$place/$1"
    if [ "$(cat "$at/packages" 2>/dev/null)" != "$2" ]; then
        rm -rf "$at"
        mkdir -p "$at"
        # shellcheck disable=SC2086 # One word for each package.
        npm install --prefix "$at" --no-audit --no-fund --loglevel=error $2 >&2
        printf '%s' "$2" >"$at/packages"
    fi
}

serve() { # more arguments of `silica serve`
    home="$(mktemp -d)"
    ln -s "$templates/templates" "$home/templates"
    mkfifo "$home/said"
    SILICA_HOME="$home" "$binary" serve --listen 127.0.0.1:0 --print json \
        --warm code-interpreter=2 --set sandboxes.template=code-interpreter \
        --set quota.requests_per_second=100000 --set quota.request_burst=100000 \
        --set quota.sandboxes=64 --set quota.cells_running=64 --set quota.cells_queued=1000 \
        --set quota.cpu_seconds_per_minute=6000 "$@" \
        >"$home/said" 2>"$home/log" &
    server=$!
    trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$home"' EXIT
    local said
    read -r said <"$home/said" || { cat "$home/log" >&2; exit 1; }
    SILICA_URL="$(sed 's/.*"url":"\([^"]*\)".*/\1/' <<<"$said")"
    SILICA_KEY="$(sed 's/.*"key":"\([^"]*\)".*/\1/' <<<"$said")"
    export SILICA_URL SILICA_KEY SILICA_HOME="$home"
}
