package envoydiff

import (
	"os"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	extauthz "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	limits "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreams "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// TestTheExamplesAreEnvoys reads the configurations of deploy/examples as Envoy does: a
// field that it does not have, or a value that it refuses, is an error, in the extensions
// too.
func TestTheExamplesAreEnvoys(t *testing.T) {
	// Named, so that their types are known where a configuration has them.
	known := []proto.Message{&extauthz.ExtAuthz{}, &limits.RateLimit{}, &router.Router{}, &manager.HttpConnectionManager{}, &upstreams.HttpProtocolOptions{}}
	for _, name := range []string{"envoy.yaml", "ratelimit.yaml"} {
		text, err := os.ReadFile("../../deploy/examples/envoy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		json, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var b bootstrap.Bootstrap
		if err := protojson.Unmarshal(json, &b); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := b.ValidateAll(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		used := 0
		for _, m := range known {
			if strings.Contains(string(json), "type.googleapis.com/"+string(m.ProtoReflect().Descriptor().FullName())+`"`) {
				used++
			}
		}
		if used < 3 || used != strings.Count(string(json), "type.googleapis.com/") {
			t.Errorf("%s has %d extensions, of which %d are known here", name, strings.Count(string(json), "type.googleapis.com/"), used)
		}
	}
}
