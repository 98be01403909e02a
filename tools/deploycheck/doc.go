// Package deploycheck has only tests. They hold deploy/ to what runs it: the image
// build to BuildKit's own parser, the compose file to compose's loader, the manifests
// to Kubernetes' types, the units to systemd. Then they start the real daemons with
// the command lines found there, built by the image's own build step, and ask them.
//
// It lives in the tools module because the loaders are large and the product needs
// none of them.
package deploycheck
