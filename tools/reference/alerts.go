package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

const alertsFile = "deploy/prometheus/alerts.yml"

// alertRules is the part of a file of alerts that is shown.
type alertRules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// placeholder is what Prometheus replaces in a text: a label or the value.
var placeholder = regexp.MustCompile(`\{\{\s*\$(?:labels\.(\w+)|(value))[^}]*\}\}`)

// alertsText lists the alerts.
func alertsText(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, alertsFile))
	if err != nil {
		return "", err
	}
	var file alertRules
	if err := yaml.Unmarshal(text, &file); err != nil {
		return "", fmt.Errorf("%s: %w", alertsFile, err)
	}
	var b strings.Builder
	b.WriteString(wrapped("They are in [deploy/prometheus/alerts.yml](../../"+alertsFile+"). `critical` is worth waking a person, `warning` can wait for the "+
		"morning. A word in capital letters stands for a label or the value of the expression.") + "\n\n")
	for _, g := range file.Groups {
		fmt.Fprintf(&b, "## %s\n\n", g.Name)
		for _, r := range g.Rules {
			runbook, err := filepath.Rel(folder, r.Annotations["runbook"])
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "### %s\n\n", r.Alert)
			b.WriteString(wrapped(filled(r.Annotations["summary"])) + "\n\n")
			fmt.Fprintf(&b, "Severity `%s`, after %s. [What to do](%s).\n\n", r.Labels["severity"], r.For, filepath.ToSlash(runbook))
			b.WriteString(block("promql", r.Expr))
			b.WriteString(wrapped(filled(r.Annotations["description"])) + "\n\n")
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// filled writes LABEL for each placeholder.
func filled(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		m := placeholder.FindStringSubmatch(found)
		return strings.ToUpper(m[1] + m[2])
	})
}
