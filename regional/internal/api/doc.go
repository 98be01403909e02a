// Package api serves the clients of a regional daemon: LimiterService over Connect, gRPC and streams,
// GET /check for proxies, and Envoy's rate limit protocol. It reads and validates requests, has the
// engine decide them, and writes the answers.
package api
