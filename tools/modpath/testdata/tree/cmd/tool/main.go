package main

import (
	"fmt"

	"aliquot/limit"
)

// modulePath is what the table of imports cuts off.
const modulePath = "aliquot"

var image = "aliquot/coordinator:local"

func main() { fmt.Println(limit.Name, "aliquot/nowhere", `import "aliquot/limit"`) }
