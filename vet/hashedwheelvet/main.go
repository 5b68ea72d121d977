// Hashedwheelvet finds wrong uses of package hashedwheel that go vet does not find. The go command runs it:
//
//	go vet -vettool=$(which hashedwheelvet) ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/hashedwheel/hashedwheel/vet"
)

func main() { unitchecker.Main(vet.Overwrite, vet.Canceled) }
