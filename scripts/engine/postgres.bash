# shellcheck shell=bash disable=SC2154 # what it uses is set in scripts/engines
# PostgreSQL, for scripts/engines.

# postgres_bin: the folder of PostgreSQL's programs. Debian keeps them out of PATH.
postgres_bin() {
  local dir
  dir=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
  if [[ ! -x $dir/initdb ]]; then
    dir=$(dirname "$(command -v pg_ctl)")
  fi
  [[ -x $dir/initdb ]] || fail "there is no PostgreSQL; on Debian: apt-get install postgresql"
  echo "$dir"
}

# as_postgres COMMAND...: PostgreSQL refuses to run as root.
as_postgres() {
  if ((EUID == 0)); then
    (cd / && runuser -u postgres -- "$@")
  else
    "$@"
  fi
}

# postgres_folder: where the data is. The user postgres may be unable to enter
# the repository; then it is a folder under /tmp, whose name is kept.
postgres_folder() {
  local dir=$engines/postgres kept=$engines/postgres.folder
  if [[ -s $kept ]]; then
    dir=$(cat "$kept")
  fi
  if ((EUID == 0)); then
    id postgres >/dev/null 2>&1 || fail "there is no user postgres; on Debian: apt-get install postgresql"
    mkdir -p "$dir"
    chown postgres "$dir"
    if ! as_postgres test -w "$dir" -a -x "$dir"; then
      rmdir "$dir"
      dir=$(mktemp -d /tmp/tallyfeed-postgres.XXXXXX)
      chown postgres "$dir"
      echo "$dir" >"$kept"
    fi
  fi
  mkdir -p "$dir"
  echo "$dir"
}

postgres_running() {
  local bin dir
  bin=$(postgres_bin 2>/dev/null) && dir=$(postgres_folder 2>/dev/null) &&
    as_postgres "$bin/pg_ctl" status -D "$dir/data" >/dev/null 2>&1
}

start_postgres() {
  local bin dir
  bin=$(postgres_bin)
  dir=$(postgres_folder)
  postgres_running && return
  unused "$postgres_port" TALLYFEED_ENGINES_POSTGRES_PORT
  # No password: it listens on this machine only and holds nothing of worth.
  [[ -s $dir/data/PG_VERSION ]] ||
    as_postgres "$bin/initdb" -D "$dir/data" -U postgres --auth trust -E UTF8 --locale C --no-sync >/dev/null
  as_postgres "$bin/pg_ctl" start -w -t 60 -D "$dir/data" -l "$dir/log" \
    -o "-p $postgres_port -k $dir -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=300" >/dev/null ||
    fail "PostgreSQL does not start; its log is $dir/log"
  local database=(-h 127.0.0.1 -p "$postgres_port" -U postgres)
  "$bin/psql" "${database[@]}" -qc '' tallyfeed 2>/dev/null || "$bin/createdb" "${database[@]}" tallyfeed
}

stop_postgres() {
  if postgres_running; then
    as_postgres "$(postgres_bin)/pg_ctl" stop -w -t 30 -m fast -D "$(postgres_folder)/data" >/dev/null
  fi
}

clean_postgres() {
  local kept=$engines/postgres.folder
  if [[ -s $kept ]]; then
    rm -rf "$(cat "$kept")" "$kept"
  fi
  rm -rf "$engines/postgres"
}
