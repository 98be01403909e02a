package main

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// frontDoor is the part of the page that no .proto file has.
//
//go:embed frontdoor.txt
var frontDoor string

// apiText lists the services, and the messages by the file that declares them.
func apiText(root string) (string, error) {
	names, err := filepath.Glob(filepath.Join(root, "proto/aliquot/v1/*.proto"))
	if err != nil || len(names) == 0 {
		return "", fmt.Errorf("%d .proto files: %w", len(names), err)
	}
	for i := range names {
		names[i] = "aliquot/v1/" + filepath.Base(names[i])
	}
	// What a client asks of a region comes first.
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(place(a), place(b)) })
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{filepath.Join(root, "proto")}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(frontDoor + "\n")
	for _, f := range files {
		for i := range f.Services().Len() {
			serviceText(&b, f, f.Services().Get(i))
		}
		for i := range f.Messages().Len() {
			messageText(&b, f, f.Messages().Get(i))
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// place orders the files.
func place(file string) string {
	if strings.HasSuffix(file, "/limiter.proto") {
		return ""
	}
	return file
}

// comment returns what a .proto file says of a declaration, as one paragraph.
func comment(f linker.File, d protoreflect.Descriptor) string {
	at := f.SourceLocations().ByDescriptor(d)
	return strings.Join(strings.Fields(at.LeadingComments+" "+at.TrailingComments), " ")
}

func serviceText(b *strings.Builder, f linker.File, s protoreflect.ServiceDescriptor) {
	fmt.Fprintf(b, "## %s\n\n", s.Name())
	b.WriteString(paragraph(comment(f, s)))
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		fmt.Fprintf(b, "### %s.%s\n\n%s", s.Name(), m.Name(), paragraph(comment(f, m)))
		call := fmt.Sprintf("`rpc %s(%s) returns (%s)`", m.Name(), streamed(m.IsStreamingClient(), m.Input()), streamed(m.IsStreamingServer(), m.Output()))
		if !m.IsStreamingClient() && !m.IsStreamingServer() {
			call += fmt.Sprintf(", as JSON `POST /%s/%s`", s.FullName(), m.Name())
		}
		fmt.Fprintf(b, "%s\n\n", wrapped(fmt.Sprintf("%s: %s, %s.", call, linked(m.Input()), linked(m.Output()))))
	}
}

func streamed(stream bool, m protoreflect.MessageDescriptor) string {
	if stream {
		return "stream " + string(m.Name())
	}
	return string(m.Name())
}

func messageText(b *strings.Builder, f linker.File, m protoreflect.MessageDescriptor) {
	fmt.Fprintf(b, "### %s\n\n%s", m.Name(), paragraph(comment(f, m)))
	if m.Fields().Len() == 0 {
		b.WriteString("It has no fields.\n\n")
		return
	}
	var rows [][]string
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		meaning := sentence(comment(f, field))
		if of := field.ContainingOneof(); of != nil && !of.IsSynthetic() {
			meaning = strings.TrimSpace(fmt.Sprintf("One of `%s`. %s", of.Name(), meaning))
		}
		rows = append(rows, []string{code(string(field.Name())), fmt.Sprint(field.Number()), kindOf(field), meaning})
	}
	b.WriteString(table([]string{"field", "number", "type", "meaning"}, rows))
	for i := range m.Messages().Len() {
		if nested := m.Messages().Get(i); !nested.IsMapEntry() {
			messageText(b, f, nested)
		}
	}
}

// kindOf is the type of a field, with a link to the message.
func kindOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", f.MapKey().Kind(), kindOf(f.MapValue()))
	case f.IsList():
		return "list of " + single(f)
	case f.HasOptionalKeyword():
		return "optional " + single(f)
	}
	return single(f)
}

func single(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return linked(f.Message())
	case protoreflect.EnumKind:
		return string(f.Enum().Name())
	}
	return f.Kind().String()
}

// linked names a message, with a link if this page has it.
func linked(m protoreflect.MessageDescriptor) string {
	if m.ParentFile().Package() != "aliquot.v1" {
		return code(string(m.FullName()))
	}
	return fmt.Sprintf("[%s](#%s)", m.Name(), strings.ToLower(string(m.Name())))
}

// paragraph writes a text that may be empty.
func paragraph(text string) string {
	if text == "" {
		return ""
	}
	return wrapped(sentence(text)) + "\n\n"
}
