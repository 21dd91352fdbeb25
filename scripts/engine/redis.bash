# shellcheck shell=bash disable=SC2154 # what it uses is set in scripts/engines
# Redis and Redis Cluster, for scripts/engines.

# start_server FOLDER PORT ARGUMENTS...: one Redis.
start_server() {
  local dir=$1 port=$2
  shift 2
  mkdir -p "$dir"
  # Its title would hide the folder from `running`.
  launch "$dir" redis-server --dir "$dir" --bind 127.0.0.1 --port "$port" --set-proc-title no \
    --appendonly yes --appendfsync everysec --maxmemory-policy noeviction --save '' "$@"
  await 20 "Redis on port $port" "$dir/log" answers_ping "$port"
}

answers_ping() { [[ $(redis-cli -p "$1" ping) == PONG ]]; }

start_redis() {
  need redis-server redis-server
  running "$engines/redis" && return
  unused "$redis_port" TALLYFEED_ENGINES_REDIS_PORT
  start_server "$engines/redis" "$redis_port"
}

cluster_nodes() { echo "$cluster_port" $((cluster_port + 1)) $((cluster_port + 2)); }

start_cluster() {
  need redis-server redis-server
  local port addresses=()
  for port in $(cluster_nodes); do
    addresses+=("127.0.0.1:$port")
    running "$engines/cluster/$port" && continue
    unused "$port" TALLYFEED_ENGINES_CLUSTER_PORT
    unused $((port + 10000)) TALLYFEED_ENGINES_CLUSTER_PORT
    start_server "$engines/cluster/$port" "$port" --cluster-enabled yes --cluster-node-timeout 5000
  done
  if redis-cli -p "$cluster_port" cluster info | grep -q 'cluster_slots_assigned:0'; then
    redis-cli --cluster create "${addresses[@]}" --cluster-yes >"$engines/cluster/log"
  fi
  for port in $(cluster_nodes); do
    await 30 "the cluster on port $port" "$engines/cluster/$port/log" cluster_whole "$port"
  done
}

cluster_whole() { redis-cli -p "$1" cluster info | grep -q cluster_state:ok; }

stop_redis() { end "$engines/redis"; }
stop_cluster() { for port in $(cluster_nodes); do end "$engines/cluster/$port"; done; }

redis_running() { running "$engines/redis"; }
cluster_running() { for port in $(cluster_nodes); do running "$engines/cluster/$port" || return 1; done; }

clean_redis() { rm -rf "$engines/redis"; }
clean_cluster() { rm -rf "$engines/cluster"; }
