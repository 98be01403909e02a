package checkwire

import "testing"

// TestRequestsAreCounted as far as a message can be read, whatever else is in it.
func TestRequestsAreCounted(t *testing.T) {
	for message, want := range map[string]int{
		"":                                     0,
		"\x0a\x00\x0a\x00":                     2,
		"\x0a\x02\x0a\x00\x12\x01x\x0a\x00":    2, // what is in one, and what is something else
		"\x2b\x0a\x00\x2c\x0a\x00":             1, // what is in a group
		"\x0a\x00\x08\x01\x0a\x00":             2, // a number of the same name
		"\x0a\x00\x0a\x05x":                    1, // cut off
		"\x0a\x00\xff\xff\xff\xff\xff\xff\xff": 1,
		"\x00\x00\x0a\x00":                     0,
	} {
		if got := Requested([]byte(message)); got != want {
			t.Errorf("%q has %d, want %d", message, got, want)
		}
	}
}

// TestObjectsAreCounted where they are none of a string.
func TestObjectsAreCounted(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, `{}`: 1, `{"requests":[{},{"attributes":{"a":"{"}}]}`: 4, `{"{":"\"{"}`: 1, `"\\"{`: 1, `{"a`: 1, `"\`: 0,
	} {
		if got, _ := ObjectsAndNames([]byte(text)); got != want {
			t.Errorf("%q has %d, want %d", text, got, want)
		}
	}
}

// TestNamesAreCounted where they are none of a string.
func TestNamesAreCounted(t *testing.T) {
	for text, want := range map[string]int{"": 0, `{}`: 0, `{"requests":[{},{"attributes":{"a:":":"}}]}`: 3, `{"a":"\":"`: 1, `:`: 1} {
		if _, got := ObjectsAndNames([]byte(text)); got != want {
			t.Errorf("%q has %d, want %d", text, got, want)
		}
	}
}
