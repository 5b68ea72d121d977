//go:build go1.26

package overwrite

// Since Go 1.26, new takes a value and copies it.
func copiesOf(c *call, list []call) *call {
	a := new(*find(1))                  // want `\*find\(1\) copies the hashedwheel.Timeout in call`
	b := new((*find(1)))                // want `\*find\(1\) copies`
	use(new(*find(1)))                  // want `\*find\(1\) copies`
	_ = session{held: new(*find(1))}    // want `\*find\(1\) copies`
	_ = new(*findTwo())                 // want `\*findTwo\(\) copies the hashedwheel.Timeout in \[2\]call`
	_ = new(call{timeout: *findTime()}) // want `\*findTime\(\) copies a hashedwheel.Timeout`
	_ = new(*c)                         // copylocks
	_ = new(list[0])                    // copylocks
	_ = new((*find(1)).id)
	_ = new(len(*findTwo()))
	_ = new(find(1))
	_ = new(*new(call))
	d, e := new(call{id: 1}), new(value())
	*d, *e = call{id: 2}, call{id: 3}
	use(d)
	*d = call{} // want `assignment to \*d overwrites`
	use(a)
	use(b)
	return new(*find(1)) // want `\*find\(1\) copies`
}
