module aliquot

go 1.26.0

require (
	example.com/aliquot v1.0.0
)
