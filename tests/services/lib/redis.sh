# Redis on loopback that answers only what its synced log has, as a guard's store needs it. Sourced.

start_redis() { start_on_port redis start_redis_on; }

start_redis_on() { # PORT
  local home=$DIR/redis
  mkdir -p "$home/data"
  launch redis "$home/redis.log" redis-server --port "$1" --bind 127.0.0.1 --dir "$home/data" --save "" \
    --appendonly yes --appendfsync always --maxmemory-policy noeviction --daemonize no
  await_service redis
}

redis_answers() {
  [ "$(redis-cli -h 127.0.0.1 -p "$(<"$DIR/redis/port")" PING 2>/dev/null 9>&-)" = PONG ]
}
