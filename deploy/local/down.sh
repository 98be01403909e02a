#!/bin/sh
# Stops what up.sh started (TERM, after 5 s KILL) and wipes its data.
set -eu
cd "$(dirname "$0")/../.."
. deploy/local/lib.sh

if [ ! -d "$run" ]; then
	echo "nothing runs"
	exit 0
fi
stop_all
rm -rf "$run"
echo "stopped"
