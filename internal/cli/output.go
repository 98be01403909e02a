package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// print writes a message as --output says; table is called for the table.
func (g *globals) print(m proto.Message, table func(io.Writer)) error {
	if g.output == "table" {
		table(g.Out)
		return nil
	}
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return err
	}
	return g.write(raw)
}

// printValue is print for what is not a protobuf message.
func (g *globals) printValue(v any, table func(io.Writer)) error {
	if g.output == "table" {
		table(g.Out)
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return g.write(raw)
}

// write prints one JSON document a line, or one YAML document.
func (g *globals) write(raw []byte) error {
	if g.output == "yaml" {
		text, err := yaml.JSONToYAML(raw)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(g.Out, "---\n%s", text)
		return err
	}
	var line bytes.Buffer // protojson pads at random
	if err := json.Compact(&line, raw); err != nil {
		return err
	}
	_, err := fmt.Fprintln(g.Out, line.String())
	return err
}

// number prints at most four decimals.
func number(f float64) string {
	return strconv.FormatFloat(float64(int64(f*10_000+.5))/10_000, 'f', -1, 64)
}

// figure prints what is to be read at a glance: two decimals, four below one.
func figure(f float64) string {
	if f < 1 {
		return number(f)
	}
	return strconv.FormatFloat(float64(int64(f*100+.5))/100, 'f', -1, 64)
}

func percent(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) + "%" }

func duration(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	return d.AsDuration().Round(time.Millisecond).String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
