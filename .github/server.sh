#!/bin/sh
# server.sh redis|valkey|postgres VERSION: get a server of that version, and print the variable with which tests/servers.py
# chooses it. Redis and Valkey come out of their official images, PostgreSQL from the project's own packages.
set -eu
server=$1 version=$2

# The program runs with the libraries that it was built with: those of the image may be newer than the machine's.
from_image() {
    folder=$(mktemp -d)
    container=$(docker create "$1")
    docker cp --quiet "$container:/usr/local/bin/$server-server" "$folder/program"
    docker cp --quiet "$container:/usr/lib/$(uname -m)-linux-gnu" "$folder/lib"
    docker rm "$container" >&2
    loader=$(find "$folder/lib" -name 'ld-linux-*.so.*' | head -n 1)
    printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$loader" "$folder/lib" "$folder/program" >"$folder/$server-server"
    chmod +x "$folder/$server-server"
    "$folder/$server-server" --version >&2
    echo "$2=$folder/$server-server"
}

case $server in
redis) from_image "redis:$version" HOLDFAST_TEST_REDIS ;;
valkey) from_image "valkey/valkey:$version" HOLDFAST_TEST_VALKEY ;;
postgres)
    sudo apt-get install --yes postgresql-common >&2
    sudo /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y >&2
    sudo apt-get install --yes "postgresql-$version" >&2
    "/usr/lib/postgresql/$version/bin/postgres" --version >&2
    echo "HOLDFAST_TEST_POSTGRES=/usr/lib/postgresql/$version"
    ;;
*)
    echo "server.sh: there is no server $server: redis, valkey or postgres" >&2
    exit 2
    ;;
esac
