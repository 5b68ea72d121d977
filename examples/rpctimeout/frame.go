package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A frame is a request or its reply: an id of 8 bytes, the length of the
// payload in 4 bytes, both big-endian, and the payload. The reply to a request
// has the same id as the request. Nothing else connects the two.
const (
	headerSize = 12
	maxPayload = 64 << 10
)

func appendFrame(b []byte, id uint64, payload []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, id)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// readFrame returns the next frame. The caller may keep the payload. The error is
// io.EOF only if the stream ends between two frames.
func readFrame(r *bufio.Reader) (id uint64, payload []byte, err error) {
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, nil, err
	}
	id = binary.BigEndian.Uint64(header)
	size := binary.BigEndian.Uint32(header[8:])
	if size > maxPayload {
		return 0, nil, fmt.Errorf("frame %d has a payload of %d bytes, more than %d", id, size, maxPayload)
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, fmt.Errorf("frame %d is cut short: %w", id, io.ErrUnexpectedEOF)
	}
	return id, payload, nil
}

// writeLimit bounds the time of one write. So it also bounds how much an outbox
// collects for a peer that does not read.
const writeLimit = 5 * time.Second

// An outbox collects the frames for one connection. Under load, many frames share
// a write. On an idle connection each frame is written at once.
type outbox struct {
	mu   sync.Mutex
	buf  []byte
	wake chan struct{} // holds a token while buf may have frames
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1)}
}

// send adds a frame and keeps no reference to payload. It never waits for
// the connection, so a timer's task may call it.
func (o *outbox) send(id uint64, payload []byte) {
	o.mu.Lock()
	o.buf = appendFrame(o.buf, id, payload)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// write writes the frames that send adds until stop is closed. Then it writes the
// remaining frames. It returns the first error.
func (o *outbox) write(conn net.Conn, stop <-chan struct{}) error {
	var batch []byte
	for stopped := false; !stopped; {
		select {
		case <-o.wake:
		case <-stop:
			stopped = true
		}
		o.mu.Lock()
		batch, o.buf = o.buf, batch[:0]
		o.mu.Unlock()
		conn.SetWriteDeadline(time.Now().Add(writeLimit))
		if _, err := conn.Write(batch); err != nil {
			return err
		}
	}
	return nil
}
