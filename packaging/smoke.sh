#!/bin/sh
# Smoke test of an installed or just built haul: copies a small tree, verified, and compares it.
#
#     sh smoke.sh PATH_OF_HAUL
set -eu
haul=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

mkdir -p source/directory
echo content > source/file
head -c 3000000 /dev/urandom > source/directory/large
ln -s file source/link
ln source/file source/other

"$haul" --version
"$haul" cp -a --verify source target
"$haul" cmp source target
[ "$(readlink target/link)" = file ]
[ "$(stat -c %h target/other)" = 2 ]

# A difference must be found, and an error must be reported.
echo changed > target/file
if "$haul" cmp source target > messages 2>&1; then exit 1; fi
if "$haul" cp missing target/new 2> messages; then exit 1; fi
grep -q missing messages
"$haul" sync --delete source target
"$haul" cmp source target
echo "haul works"
