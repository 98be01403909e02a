package regional

import (
	"testing"
	"time"

	"aliquot/internal/checkwire"
	"aliquot/internal/prefetch"
	"aliquot/rules"
)

// TestAClientThatIsShutOutTakesNoPlace of the denials that are remembered but one in each
// tenth of a second, and its denials can be explained all the same.
func TestAClientThatIsShutOutTakesNoPlace(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		d, _ := startLive(t, testConfig(newLeader(t, watchedRules+"blacklist: [\"bad\"]\n").address()))
		burst(t, d, "rude")
		for range 6 {
			deny(t, d, "rude")
		}
		ids := map[string]map[string]bool{"bad": {}, "rude": {}}
		began := time.Now()
		for apiKey, seen := range ids {
			for range 1000 {
				var out checkwire.Answer
				in := checkwire.Request{Cost: 1, Attributes: rules.AttributesOf(map[string]string{"api_key": apiKey})}
				if err := d.service.check(t.Context(), in, &out); err != nil || out.Allowed || out.DecisionID == "" {
					t.Fatalf("%s: %+v, %v", apiKey, out, err)
				}
				seen[out.DecisionID] = true
			}
			most := 2 + int(time.Since(began)/prefetch.Life)
			if len(seen) > most {
				t.Errorf("%s: 1000 denials have %d names, at most %d", apiKey, len(seen), most)
			}
			for id := range seen {
				if request, known := d.service.answers.Denied(id); !known || request.Attributes.Get("api_key") != apiKey {
					t.Errorf("%s: denial %s is not known", apiKey, id)
				}
			}
		}
	})
}
