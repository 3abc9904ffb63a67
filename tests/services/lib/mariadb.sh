# MariaDB on loopback with a binlog of whole rows. Sourced.
# Accounts: `lockkeeper` may do everything and `canal` may read the binlog, both from 127.0.0.1 with a password
# of this DIR; root comes in through the socket only.

start_mariadb() {
  local home=$DIR/mariadb
  mkdir -p "$home"
  make_password "$home/password"
  make_password "$home/canal-password"
  create_database "$home"
  write_accounts "$home"
  start_on_port mariadb start_mariadb_on
}

create_database() { # HOME
  [ -e "$1/data/complete" ] && return
  rm -rf "$1/data"
  mariadb-install-db --no-defaults "${as_user[@]}" --datadir="$1/data" --auth-root-authentication-method=socket \
    --auth-root-socket-user="$(id -un)" --skip-test-db --skip-name-resolve --innodb-log-file-size=64M \
    >"$1/install.log" 2>&1 9>&- || { tail -n 20 "$1/install.log" >&2; die "mariadb-install-db failed (log: $1/install.log)"; }
  touch "$1/data/complete"
}

# mariadbd refuses to run as root unless it is told to
as_user=()
[ "$(id -u)" = 0 ] && as_user=(--user=root)

# The server carries these out itself before it opens its port: no client and no moment without passwords.
# They are kept from the binlog, where they would be rows to Canal.
write_accounts() { # HOME
  local password canal_password
  password=$(<"$1/password") canal_password=$(<"$1/canal-password")
  umask 077
  write_file "$1/accounts.sql" <<SQL
SET SESSION sql_log_bin=0;
CREATE USER IF NOT EXISTS canal@'127.0.0.1' IDENTIFIED BY '$canal_password';
GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO canal@'127.0.0.1';
CREATE USER IF NOT EXISTS lockkeeper@'127.0.0.1' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO lockkeeper@'127.0.0.1' WITH GRANT OPTION;
SQL
  umask 022
}

start_mariadb_on() { # PORT
  local home=$DIR/mariadb
  (umask 077 && write_file "$home/client.cnf" <<CNF
[client]
host=127.0.0.1
port=$1
user=lockkeeper
password=$(<"$home/password")
CNF
  )
  # The socket's path is relative to the data folder: a socket's absolute path must stay under 108 bytes,
  # and a DIR is as long as its user wants.
  # A statement that waits for a table that somebody reads fails after a minute; else it would wait for a day.
  # Annotations would reach Canal's clients as entries that no other server sends. The binlog is not rotated
  # before 1 GiB: Canal 1.1.7 gives wrong positions for rows that follow a rotation closely.
  launch mariadb "$home/mariadb.log" mariadbd --no-defaults "${as_user[@]}" --datadir="$home/data" \
    --socket=mariadb.sock --port="$1" --bind-address=127.0.0.1 --skip-name-resolve --pid-file="$home/data/server.pid" \
    --server-id=1 --log-bin="$home/data/binlog" --binlog-format=ROW --binlog-row-image=FULL \
    --binlog-annotate-row-events=OFF --sync-binlog=0 --innodb-flush-log-at-trx-commit=0 \
    --lock-wait-timeout=60 \
    --innodb-buffer-pool-size=64M --innodb-log-file-size=64M --max-allowed-packet=64M --max-connections=500 \
    --character-set-server=utf8mb4 --collation-server=utf8mb4_general_ci --performance-schema=OFF \
    --init-file="$home/accounts.sql"
  await_service mariadb
}

mariadb_answers() {
  mariadb --defaults-file="$DIR/mariadb/client.cnf" --connect-timeout=2 -e 'SELECT 1' >/dev/null 2>&1 9>&-
}
