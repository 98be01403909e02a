package rules

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"aliquot/rules/document"
)

// DefaultNamespace is the namespace of a request that names none.
const DefaultNamespace = "default"

// hashDomain separates key hashes from all other hashes with the same secret.
const hashDomain = "aliquot key hash 1"

// KeyValues appends to dst the canonical encoding of the names and values of the rule's key
// attributes, and returns it. Two requests have the same encoding exactly if they share a bucket.
// Rules with the same key attributes have the same encodings, whatever the order of the names. An
// absent attribute counts as an empty value. The value of endpoint is normalised with
// NormalizeEndpoint, and the value of tier is the tier of the request (Set.TierOf).
//
// The encoding has, for each attribute, sorted by name: length and bytes of the name, length and
// bytes of the value. Lengths are 4 bytes, big-endian.
func KeyValues(r *Rule, attrs Attributes, dst []byte) []byte {
	return keyValues(r.sortedKey, attrs, r.tiers, dst)
}

// ListedValues is KeyValues for a rule whose key is only api_key. It names the client about which a
// list has decided.
func ListedValues(attrs Attributes, dst []byte) []byte {
	return keyValues([]string{document.APIKeyAttribute}, attrs, nil, dst)
}

func keyValues(sorted []string, attrs Attributes, of *tiers, dst []byte) []byte {
	for _, name := range sorted {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(name)))
		dst = append(dst, name...)
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		switch {
		case name == document.EndpointAttribute:
			dst = appendNormalized(dst, attrs.endpoint())
		case name == document.TierAttribute && of != nil:
			dst = append(dst, of.of(&subject{attrs: attrs, path: pathOf(attrs.Get(document.EndpointAttribute))})...)
		default:
			dst = append(dst, attrs.Get(name)...)
		}
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	return dst
}

// HashKey returns the first 16 bytes of HMAC-SHA-256 over the namespace and an encoding from
// KeyValues. The namespace "" is DefaultNamespace. For many keys with one secret use a KeyHasher.
func HashKey(secret []byte, namespace string, encoded []byte) [16]byte {
	var h keyedHash
	h.mac = hmac.New(sha256.New, secret)
	return h.key(namespace, encoded)
}

// KeyHasher computes HashKey for one secret without setting up the secret each time. It is safe for
// concurrent use and does not allocate once it is warm.
type KeyHasher struct {
	pool sync.Pool
}

// NewKeyHasher returns a hasher with a copy of the secret.
func NewKeyHasher(secret []byte) *KeyHasher {
	own := append([]byte(nil), secret...)
	return &KeyHasher{pool: sync.Pool{New: func() any {
		return &keyedHash{mac: hmac.New(sha256.New, own)}
	}}}
}

// Key returns HashKey with the hasher's secret.
func (k *KeyHasher) Key(namespace string, encoded []byte) [16]byte {
	h := k.pool.Get().(*keyedHash)
	defer k.pool.Put(h)
	return h.key(namespace, encoded)
}

// keyedHash is a MAC with the buffers that one computation needs.
type keyedHash struct {
	mac   hash.Hash
	input []byte
	sum   [sha256.Size]byte
}

// maxKeptInput caps the buffer that a pooled hash keeps. Larger inputs are rare.
const maxKeptInput = 16 << 10

func (h *keyedHash) key(namespace string, encoded []byte) [16]byte {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	h.input = append(h.input[:0], hashDomain...)
	h.input = binary.BigEndian.AppendUint32(h.input, uint32(len(namespace)))
	h.input = append(h.input, namespace...)
	h.input = append(h.input, encoded...)
	h.mac.Reset()
	h.mac.Write(h.input)
	sum := h.mac.Sum(h.sum[:0])
	if cap(h.input) > maxKeptInput {
		h.input = nil
	}
	return [16]byte(sum)
}
