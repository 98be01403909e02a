// Package limit is imported.
package limit
