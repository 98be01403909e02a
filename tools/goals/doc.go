// Command goals measures everything that Aliquot promises about its speed, on this
// machine, against envoyproxy/ratelimit and against servers that decide nothing, and
// prints a table in Markdown. What is compared runs in turns, so that whatever else the
// machine does hits both.
package main
