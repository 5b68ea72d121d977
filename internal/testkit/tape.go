package testkit

// A Tape turns the bytes of a fuzz target into numbers. When the bytes are used up, it returns zeros.
type Tape struct{ data []byte }

// NewTape returns a tape of the bytes.
func NewTape(data []byte) *Tape { return &Tape{data} }

// Empty reports whether all bytes are used up.
func (p *Tape) Empty() bool { return len(p.data) == 0 }

// Byte returns the next byte.
func (p *Tape) Byte() (b byte) {
	if len(p.data) > 0 {
		b, p.data = p.data[0], p.data[1:]
	}
	return b
}

// Below returns a number from 0 to n-1, made of one byte or two.
func (p *Tape) Below(n int) int {
	x := int(p.Byte())
	if n > 1<<8 {
		x = x<<8 | int(p.Byte())
	}
	return x % n
}
