#!/bin/sh
# Regenerates the Go code beside the .proto files with the pinned plugins of go.mod.
set -eu
cd "$(dirname "$0")/.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
for tool in \
	google.golang.org/protobuf/cmd/protoc-gen-go \
	google.golang.org/grpc/cmd/protoc-gen-go-grpc \
	connectrpc.com/connect/cmd/protoc-gen-connect-go; do
	go build -o "$bin/" "$tool"
done
PATH="$bin:$PATH" protoc -I proto \
	--go_out=. --go_opt=module=aliquot \
	--connect-go_out=. --connect-go_opt=module=aliquot,simple \
	--go-grpc_out=. --go-grpc_opt=module=aliquot \
	proto/aliquot/v1/*.proto
PATH="$bin:$PATH" protoc -I proto \
	--go_out=. --go_opt=module=aliquot \
	proto/raftlog/v1/*.proto
