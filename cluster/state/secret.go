package state

// SecretBytes is the length of the key-hash secret in bytes, which is that of the hash.
const SecretBytes = 32

const redacted = "[redacted]"

// Secret is the key of the keyed hash that hides client identities. It prints as "[redacted]" in logs, in every fmt
// verb and in JSON; only Bytes returns its value. The zero value means that no secret exists yet. Compare with ==.
type Secret struct {
	b   [SecretBytes]byte
	set bool
}

// newSecret copies b. It returns false if b does not have SecretBytes bytes.
func newSecret(b []byte) (Secret, bool) {
	if len(b) != SecretBytes {
		return Secret{}, false
	}
	return Secret{b: [SecretBytes]byte(b), set: true}, true
}

// Bytes returns a copy of the secret, or nil if there is none yet.
func (s Secret) Bytes() []byte {
	if !s.set {
		return nil
	}
	b := s.b
	return b[:]
}

// IsZero reports whether there is no secret yet.
func (s Secret) IsZero() bool { return !s.set }

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return redacted }

// MarshalText implements encoding.TextMarshaler, and so covers JSON and log/slog.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
