// Package copied copies a Timeout, for TestVetFindsCopies.
package copied

import "github.com/hashedwheel/hashedwheel"

type call struct{ timeout hashedwheel.Timeout }

func copyOf(c *call) call { return *c }
