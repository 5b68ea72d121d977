// Package shelf has the library in a vendor directory.
package shelf

import "github.com/hashedwheel/hashedwheel"

type book struct{ lent hashedwheel.Timeout }

func (b *book) clear() {
	*b = book{} // want `assignment to \*b overwrites the hashedwheel.Timeout in book`
}
