module aliquot/tools

go 1.26.0

require aliquot v0.0.0

replace aliquot => ../
