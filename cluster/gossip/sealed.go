package gossip

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// sealVersion is the version of memberlist's encryption that its present protocol uses. The earlier one pads
// a message, and memberlist trusts the padding's length.
const sealVersion = 1

var (
	errSealed  = errors.New("this was not sealed with the cluster's key")
	errNoInner = errors.New("a sealed message has another version, or nothing in it")
)

// seal decrypts messages with the cluster's key, to check them before memberlist reads them: an attacker who
// controls a member has the key. A nil seal is that of a cluster without a key. Safe for concurrent use.
type seal struct {
	key cipher.AEAD
	// label is the cluster's. It is sealed in every message, also in answers, which do not begin with it.
	label []byte
}

// newSeal returns the seal of a cluster's AES key and label; nil if there is no key.
func newSeal(key []byte, label string) (*seal, error) {
	if len(key) == 0 {
		return nil, nil
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &seal{key: aead, label: []byte(label)}, err
}

// open returns what was sealed in a version, a nonce, and a text with its tag. The seal also covers head and the label.
func (s *seal) open(sealed, head []byte) ([]byte, error) {
	nonce := s.key.NonceSize()
	if len(sealed) <= 1+nonce+s.key.Overhead() || sealed[0] != sealVersion {
		return nil, errNoInner
	}
	plain, err := s.key.Open(nil, sealed[1:1+nonce], sealed[1+nonce:], append(bytes.Clone(head), s.label...))
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

// fits reports whether memberlist may read a packet. A packet that is not sealed with the key fits: memberlist refuses it.
func (s *seal) fits(packet []byte) bool {
	if packet = withoutLabel(packet); s == nil {
		return fits(packet)
	}
	plain, err := s.open(packet, nil)
	return err == nil && fits(plain) || errors.Is(err, errSealed)
}

// readExchange reads a sealed message, which follows its label, from a connection, and returns it unchanged. It returns
// an error if the contents are beyond the bounds.
func (s *seal) readExchange(in *bufio.Reader) ([]byte, error) {
	head := make([]byte, 5) // the kind and the length
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxExchange {
		return nil, fmt.Errorf("sealed, %d bytes: %w", n, errTooLarge)
	}
	sealed := make([]byte, n)
	if _, err := io.ReadFull(in, sealed); err != nil {
		return nil, err
	}
	plain, err := s.open(sealed, head)
	if err != nil {
		return nil, err
	}
	_, message, err := decompressed(plain[0], bytes.NewReader(plain[1:]))
	if err == nil {
		_, err = io.Copy(io.Discard, message)
	}
	if err != nil {
		return nil, err
	}
	return append(head, sealed...), nil
}
