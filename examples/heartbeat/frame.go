package main

import (
	"bufio"
	"fmt"
	"io"
)

// A frame is a packet on the wire: its kind in one byte, the length of its payload
// in one byte, and the payload.
type kind byte

const (
	heartbeat kind = 'h' // without payload
	data      kind = 'd'

	maxFrame = 2 + 255
)

func newFrame(k kind, payload string) []byte {
	return append([]byte{byte(k), byte(len(payload))}, payload...)
}

// readFrame reads the next frame and discards its payload. The error is io.EOF
// only if the stream ends between two frames.
func readFrame(r *bufio.Reader) (kind, error) {
	b, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	k := kind(b)
	if k != heartbeat && k != data {
		return 0, fmt.Errorf("a frame of unknown kind %q", b)
	}
	size, err := r.ReadByte()
	if err == nil {
		_, err = r.Discard(int(size))
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return k, err
}
