//go:build go1.26

package generics

func copied[T any](p *T) *T         { return new(*p) }   // want copied:`moves \[0\]`
func result[T any](f func() *T) *T  { return new(*f()) } // want result:`moves \[0\]`
func element[T any](s []T) *T       { return new(s[0]) } // want element:`moves \[0\]`
func fromCall[T any](f func() T) *T { return new(f()) }
func fromParam[T any](v T) *T       { return new(v) }
func pointer[T any](p *T) **T       { return new(p) }

func usesOfNew(c *call, calls []call) {
	_ = copied(c)                         // want `copied overwrites or copies the hashedwheel.Timeout in call`
	_ = result(func() *call { return c }) // want `result overwrites or copies`
	_ = element(calls)                    // want `element overwrites or copies`
	_ = copied(&c.id)
	_ = fromCall(func() call { return call{} })
	_ = fromParam(call{})
	_ = pointer(c)
}
