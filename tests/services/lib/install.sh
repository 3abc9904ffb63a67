# Installs what the services need and the machine lacks, and says beforehand how much it fetches. Sourced.

# Shared by all DIRs: the servers' jars, about 45 MB for Canal and as much for Kafka.
CACHE=${LOCKKEEPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lockkeeper}

# Debian puts servers where only root looks
PATH=$PATH:/usr/sbin:/sbin

# java_release COMMAND: the major version of java or javac, 0 without it
java_release() {
  local version
  version=$("$1" -version 2>&1 | grep -oE '[0-9]+' | head -n 1) || true
  echo "${version:-0}"
}

install_missing() {
  local packages=() jars
  jars=$(jars_folder canal-node)
  if ! command -v mariadbd >/dev/null || ! command -v mariadb-install-db >/dev/null; then
    packages+=(mariadb-server-core)
  fi
  command -v mariadb >/dev/null || packages+=(mariadb-client-core)
  if (($(java_release java) < 17)) || { [ ! -e "$jars/complete" ] && (($(java_release javac) < 17)); }; then
    packages+=("$(jdk_package)")
  fi
  command -v redis-server >/dev/null || packages+=(redis-server)
  command -v redis-cli >/dev/null || packages+=(redis-tools)
  command -v etcd >/dev/null || packages+=(etcd-server)
  missing_protoc packages
  [ -e "$jars/complete" ] || command -v mvn >/dev/null || packages+=(maven)
  if ((${#packages[@]} > 0)); then install_packages "${packages[@]}"; fi
  install_canal
}

install_canal() { build_jars canal-node "the Canal server" 62; }

# What the broker needs besides, when one is wanted.
install_kafka() {
  [ -e "$(jars_folder kafka-node)/complete" ] || command -v mvn >/dev/null || install_packages maven
  build_jars kafka-node "the Kafka broker" 46
}

# What the feature `etcd` needs to be built: protoc, and the well-known types beside it.
missing_protoc() { # ARRAY: what is missing is added to it
  local -n missing=$1
  local types
  command -v protoc >/dev/null || missing+=(protobuf-compiler)
  types=$(dirname "$(command -v protoc || echo /usr/bin/protoc)")/../include/google/protobuf/descriptor.proto
  [ -e "$types" ] || missing+=(libprotobuf-dev)
}

# the newest long-term JDK that the release has: 17 in Debian 12, a later one after it
jdk_package() {
  local package
  for package in openjdk-17-jdk-headless openjdk-21-jdk-headless; do
    if [ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then echo "$package"; return; fi
  done
  # the lists may be empty still: install_packages fetches them and says what is missing
  echo openjdk-17-jdk-headless
}

install_packages() {
  local root=() wanted=("$@") options=(--no-install-recommends -o DPkg::Lock::Timeout=300) size
  command -v apt-get >/dev/null ||
    die "missing: ${wanted[*]}. This is no Debian: install MariaDB's server and client, Redis, etcd, protoc, a JDK of 17 or later and Maven yourself"
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null ||
      die "missing: ${wanted[*]}. As root: apt-get install --no-install-recommends ${wanted[*]}"
    root=(sudo -n)
  fi
  say "installing ${wanted[*]}; first apt-get update, about 10 MB"
  "${root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update >&2 || say "apt-get update failed; going on with the lists there are"
  # without --yes, which would win over --assume-no
  size=$(LC_ALL=C apt-get "${options[@]}" --assume-no install "${wanted[@]}" 2>/dev/null | grep '^Need to get' || true)
  say "${size:-apt does not say how much it will get}"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q --yes "${options[@]}" install "${wanted[@]}" >&2 ||
    die "apt-get could not install ${wanted[*]} (its words are above)"
}

# The folder's name carries what the jars are made of, so that a change of the launcher is built anew.
jars_folder() { # NODE
  local digest
  digest=$(cd "$HERE/$1" && find . -type f -not -path './target/*' -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum)
  echo "$CACHE/$1-${digest:0:16}"
}

# build_jars NODE WHAT MEGABYTES: what NODE's pom.xml names, and our launcher if it has one, once per machine
# and version
build_jars() {
  local jars work trust=()
  jars=$(jars_folder "$1")
  [ -e "$jars/complete" ] && return
  mkdir -p "$CACHE"
  (
    flock -w 900 8 || die "another build has held $CACHE/build.lock for 15 minutes"
    [ -e "$jars/complete" ] && exit
    say "building $2 into $jars; Maven fetches up to $3 MB, less what its local repository has"
    work=$(mktemp -d "$CACHE/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    maven "$1" "$work" || {
      say "Maven failed; trying once more, with the certificates that the system trusts"
      mapfile -t trust < <(trust_the_system "$work/trust.p12")
      maven "$1" "$work" "${trust[@]}"
    } || die "Maven could not build $2 (its words are above)"
    [ ! -e "$work/target/$1.jar" ] || cp "$work/target/$1.jar" "$work/jars/"
    touch "$work/jars/complete"
    rm -rf "$jars"
    mv "$work/jars" "$jars"
  ) 8>"$CACHE/build.lock" 9>&-
}

# prints the options that make Maven use the store, or nothing when there is no bundle to make it of
trust_the_system() { # STORE
  local bundle=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
  [ -r "$bundle" ] && java "$HERE/lib/TrustStore.java" "$bundle" "$1" || return 0
  printf '%s\n' "-Djavax.net.ssl.trustStore=$1" -Djavax.net.ssl.trustStorePassword=changeit
}

maven() { # NODE WORK [OPTION...]
  mvn -q -B -Dstyle.color=never -f "$HERE/$1/pom.xml" -Dbuild.dir="$2/target" -Djars.dir="$2/jars" \
    -Dmaven.wagon.http.retryHandler.count=5 "${@:3}" package >&2
}
