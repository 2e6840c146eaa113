#!/bin/sh
# Puts PgBouncer into a folder, from Debian's packages and without root, where there is apt-get; it is for tests alone.
# Whatever goes wrong, the tests have a pooler of their own (tests/pooler.py).
folder=$1
[ -n "$folder" ] && [ ! -e "$folder/usr/sbin/pgbouncer" ] || exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || exit 0
mkdir -p "$folder" && cd "$folder" || exit 0
for package in pgbouncer libc-ares2 libevent-2.1-7 libevent-2.1-7t64; do
    apt-get download "$package" >/dev/null 2>&1
done
for archive in ./*.deb; do
    [ -e "$archive" ] && dpkg-deb -x "$archive" . && rm "$archive"
done
exit 0
