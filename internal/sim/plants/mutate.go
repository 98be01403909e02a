package plants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutated is the text of every file that a plant changes, by its path from the root.
func (p Plant) mutated(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range p.Edits {
		text, ok := texts[e.File]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("plant %s has to follow the code: %w", p.Name, err)
			}
			text = string(raw)
		}
		switch n := strings.Count(text, e.Old); {
		case e.Old == e.New:
			return nil, fmt.Errorf("plant %s changes nothing in %s", p.Name, e.File)
		case n == 0:
			return nil, fmt.Errorf("plant %s has to follow the code: %s has no more %q", p.Name, e.File, e.Old)
		case n > 1:
			return nil, fmt.Errorf("plant %s has to follow the code: %s has %q %d times, and it must be clear which is meant", p.Name, e.File, e.Old, n)
		}
		texts[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return texts, nil
}

// overlay writes the changed files into dir, and the list of them that the compiler
// reads. It returns the list's path.
func (p Plant) overlay(root, dir string) (string, error) {
	texts, err := p.mutated(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = copied
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}
